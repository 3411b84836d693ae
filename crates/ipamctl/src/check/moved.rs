//! Finds living containers whose addresses a network's pools would give again, since they are
//! reserved in another directory: a key that says where reservations are was changed.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use chain::record::{ListedRecord, Namespace};
use docker_records::pool::DOCKER_DIRECTORY;

use crate::check::conflist_check::ConflistCheck;
use crate::check::real;
use crate::inventory::Row;
use crate::network::Network;
use crate::output::joined;
use crate::pools::PlacedPool;

/// Most containers or records that a finding names.
const MOST_NAMED: usize = 3;

/// Descriptions of addresses in danger, by the directory of their reservations (empty for those that
/// only a record has) and their network.
type InDanger<'a> = BTreeMap<(PathBuf, &'a str), Vec<String>>;

impl<'a> ConflistCheck<'a> {
    pub(super) fn check_moved_addresses(&mut self, network: &Network) {
        if !network.keeps_files() {
            return;
        }
        let checked = self.checked;
        for placed in &checked.pools.all {
            for ((directory, of), addresses) in self.in_danger(network, placed) {
                let problem = problem(placed, &directory, &addresses);
                let (key, instead) = (placed.key_in_conflist(), instead(placed, &directory));
                if of == network.name.as_str() {
                    self.error(&key, problem, instead);
                } else {
                    let doubt =
                        format!("if {of}, a network without a conflist, is this one renamed");
                    self.warning(&key, format!("{problem}, {doubt}"), instead);
                }
            }
        }
        self.check_moved_records(network);
    }

    fn in_danger(&self, network: &Network, placed: &PlacedPool) -> InDanger<'a> {
        let inventory = self.inventory;
        let rows = inventory.rows.iter();
        let here = rows.filter(|row| row.place.as_deref() == Some(&placed.directory));
        let here: HashMap<_, _> = here.filter_map(|row| Some((row.ip?, row))).collect();
        let directory = real(&placed.directory);
        let mut found = InDanger::new();
        for row in &inventory.rows {
            let (Some(ip), Some(of)) = (row.ip, row.network.as_deref()) else {
                continue;
            };
            if !placed.pool.ranges.contains(ip) || !self.may_belong_to(network, row, of) {
                continue;
            }
            let taken = here.get(&ip);
            let is_reserved = taken.is_some_and(|taken| {
                (&taken.container, &taken.ifname) == (&row.container, &row.ifname)
            });
            if is_reserved {
                continue;
            }
            let path = row.place.as_deref().map(real).unwrap_or_default();
            if path != directory {
                let lost = taken.map(|taken| format!(", lost to {}", holder(taken)));
                let described = describe(row, ip) + &lost.unwrap_or_default();
                found.entry((path, of)).or_default().push(described);
            }
        }
        found
    }

    /// True if the row is of a living container of the network `of`, and this may be the network.
    fn may_belong_to(&self, network: &Network, row: &Row, of: &str) -> bool {
        let mut all = self.all.iter();
        let is_same = of == network.name.as_str();
        // Only a network's own record proves that the address is one of this network.
        let is_network = match &row.place {
            None => is_same,
            // Each of Docker's own networks has a subnet of its own on the host.
            Some(place) if place.ends_with(DOCKER_DIRECTORY) || row.in_cluster.is_some() => false,
            Some(_) => is_same || !all.any(|other| other.conflist.name.as_str() == of),
        };
        is_network && !row.record.as_deref().is_some_and(has_ended)
    }

    /// Records that this network doesn't read any more.
    fn check_moved_records(&mut self, network: &Network) {
        let state_dir = real(&network.state_dir);
        let is_elsewhere = |record: &&ListedRecord| {
            record.network == network.name
                && real(record.state_dir()) != state_dir
                && !has_ended(record)
        };
        let records = self.inventory.records.iter().map(|record| &**record);
        let elsewhere = records.filter(is_elsewhere);
        let elsewhere: Vec<_> = elsewhere.map(|record| record.file.display()).collect();
        if !elsewhere.is_empty() && !network.is_host_local {
            let (files, state_dir) = (first_names(&elsewhere), network.state_dir.display());
            let problem = format!(
                "{files} are records of living containers, whose DEL looks for them in {state_dir}"
            );
            let instead = "the old folder, until these containers have ended";
            self.warning("ipam.stateDir", problem, instead);
        }
    }
}

/// The first ones in one text, and the number of the others.
fn first_names(all: &[impl Display]) -> String {
    let named = joined(all.iter().take(MOST_NAMED), ", ");
    match all.len().saturating_sub(MOST_NAMED) {
        0 => named,
        more => format!("{named}, and {more} more"),
    }
}

fn problem(placed: &PlacedPool, directory: &Path, addresses: &[String]) -> String {
    let place = if directory.as_os_str().is_empty() {
        "recorded only".to_owned()
    } else {
        format!("reserved in {}", directory.display())
    };
    let (named, now) = (first_names(addresses), placed.directory.display());
    format!("{named}: {place}, and {placed} reserves in {now}, and gives them again")
}

/// The address, its container and its name.
fn describe(row: &Row, ip: IpAddr) -> String {
    let name = Some(row.names.short()).filter(|name| !name.is_empty());
    let name = name.map_or_else(String::new, |name| format!(" ({name})"));
    format!("{ip} of {}{name}", holder(row))
}

fn holder(row: &Row) -> &str {
    row.container.as_deref().unwrap_or("nobody")
}

/// True if it is certain that the container has ended.
fn has_ended(record: &ListedRecord) -> bool {
    let content = record.usable();
    content.is_some_and(|content| matches!(content.namespace(), Namespace::Gone(_)))
}

fn instead(placed: &PlacedPool, old: &Path) -> String {
    let until = "until these containers have ended";
    let is_beside = old.parent() == placed.directory.parent().map(real).as_deref();
    if !is_beside || placed.name().is_none() {
        return format!("the old keys, {until} (docs/how-it-works.md)");
    }
    match &*old.file_name().unwrap_or_default().to_string_lossy() {
        ipam::POOLS_DIRECTORY => format!("the pool without \"space\", {until}"),
        name => format!("\"space\": {name:?} in the pool, {until}"),
    }
}
