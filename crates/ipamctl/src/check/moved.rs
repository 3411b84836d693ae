//! Finds living containers whose addresses a network's pools would give again, since they are
//! reserved in another directory: a key that says where reservations are was changed.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use chain::record::{ListedRecord, Namespace};

use crate::check::conflist_check::Check;
use crate::check::findings::Severity;
use crate::check::unusual;
use crate::inventory::{HeldAddress, Inventory};
use crate::network::Network;
use crate::output::joined;
use crate::pools::PlacedPool;

/// Most containers that a finding names.
const MOST_NAMED: usize = 3;

/// The directory of Docker's own networks: each has a subnet of its own on the host.
const OF_DOCKER: &str = "docker";

/// Addresses in danger, by the directory of their reservations (empty for those that only a record
/// has) and their network.
type Found<'a> = BTreeMap<(PathBuf, &'a str), Vec<&'a HeldAddress>>;

impl Check<'_> {
    pub(super) fn moved(&mut self, network: &Network) {
        let (one, inventory) = (self.one, self.inventory);
        if !network.keeps_files() {
            return;
        }
        for placed in &one.pools.all {
            for ((directory, of), held) in self.in_danger(network, placed, inventory) {
                let is_renamed = of != network.name.as_str();
                let severity = if is_renamed {
                    Severity::Warning
                } else {
                    Severity::Error
                };
                let mut problem = problem(placed, &directory, &held, inventory);
                if is_renamed {
                    problem +=
                        &format!(", if {of}, a network without a conflist, is this one renamed");
                }
                self.add(
                    severity,
                    &unusual::key(placed),
                    problem,
                    instead(placed, &directory),
                );
            }
        }
        self.moved_records(network);
    }

    fn in_danger<'h>(
        &self,
        network: &Network,
        placed: &PlacedPool,
        inventory: &'h Inventory,
    ) -> Found<'h> {
        let is_of_it = |of: &str| {
            let mut all = self.all.iter();
            of == network.name.as_str() || !all.any(|other| other.conflist.name.as_str() == of)
        };
        let directory = real(&placed.directory);
        let mut found = Found::new();
        for held in &inventory.held {
            let (Some(ip), Some(of), None) = (held.ip, held.network.as_deref(), &held.stored)
            else {
                continue;
            };
            let place = held.place.as_ref();
            let is_dockers = place.is_some_and(|place| place.name == OF_DOCKER);
            if is_dockers || !placed.pool.ranges.contains(ip) || !is_of_it(of) || is_ended(held) {
                continue;
            }
            // Only a network's own record proves that the address is one of this network.
            if place.is_none() && of != network.name.as_str() {
                continue;
            }
            let path = place.map(|place| real(&place.path)).unwrap_or_default();
            if path != directory && !is_reserved(held, ip, &placed.directory, inventory) {
                found.entry((path, of)).or_default().push(held);
            }
        }
        found
    }

    /// Records that this network doesn't read any more.
    fn moved_records(&mut self, network: &Network) {
        let state_dir = real(&network.state_dir);
        let is_elsewhere = |record: &&ListedRecord| {
            let folder = record.file.ancestors().nth(2).map(real);
            record.network == network.name
                && folder.is_some_and(|folder| folder != state_dir)
                && !record
                    .content
                    .as_ref()
                    .is_ok_and(|content| content.is_undone_by_caller)
                && !has_ended(record)
        };
        let records = self.inventory.records.iter().map(|record| &**record);
        let mut elsewhere = records.filter(is_elsewhere);
        if let Some(first) = elsewhere.next().filter(|_| !network.is_host_local) {
            let more = match elsewhere.count() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let (file, state_dir) = (first.file.display(), network.state_dir.display());
            let problem = format!(
                "{file}{more} are records of living containers, whose DEL looks for them in {state_dir}"
            );
            let instead = "the old folder, until these containers have ended";
            self.add(Severity::Warning, "ipam.stateDir", problem, instead);
        }
    }
}

fn problem(
    placed: &PlacedPool,
    directory: &Path,
    held: &[&HeldAddress],
    inventory: &Inventory,
) -> String {
    let named = held
        .iter()
        .take(MOST_NAMED)
        .map(|held| describe(held, placed, inventory));
    let named = joined(named, ", ");
    let more = match held.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let place = if directory.as_os_str().is_empty() {
        "recorded only".to_owned()
    } else {
        format!("reserved in {}", directory.display())
    };
    let (title, now) = (placed.to_string(), placed.directory.display());
    format!("{named}{more}: {place}, and {title} reserves in {now}, and gives them again")
}

/// The address and its container, and who has got the address since.
fn describe(held: &HeldAddress, placed: &PlacedPool, inventory: &Inventory) -> String {
    let name = match held.names.short() {
        none if none.is_empty() => String::new(),
        name => format!(" ({name})"),
    };
    let holder = |held: &HeldAddress| {
        held.container
            .clone()
            .unwrap_or_else(|| "nobody".to_owned())
    };
    let ip = held.ip.map_or_else(String::new, |ip| ip.to_string());
    let mut rows = in_directory(&placed.directory, inventory);
    let taken = rows.find(|other| other.ip == held.ip);
    let taken = taken.map_or_else(String::new, |other| format!(", lost to {}", holder(other)));
    format!("{ip} of {}{name}{taken}", holder(held))
}

fn in_directory<'h>(
    directory: &'h Path,
    inventory: &'h Inventory,
) -> impl Iterator<Item = &'h HeldAddress> {
    let is_there = move |held: &&HeldAddress| {
        let place = held.place.as_ref();
        place.is_some_and(|place| place.path == directory)
    };
    inventory.held.iter().filter(is_there)
}

/// True if the same attachment has the address in this directory, too.
fn is_reserved(held: &HeldAddress, ip: IpAddr, directory: &Path, inventory: &Inventory) -> bool {
    let attachment = |held: &HeldAddress| (held.container.clone(), held.ifname.clone());
    let mut rows = in_directory(directory, inventory);
    rows.any(|other| other.ip == Some(ip) && attachment(other) == attachment(held))
}

/// True if it is certain that the container has ended.
fn is_ended(held: &HeldAddress) -> bool {
    held.record.as_deref().is_some_and(has_ended)
}

fn has_ended(record: &ListedRecord) -> bool {
    let content = record.content.as_ref();
    content.is_ok_and(|content| matches!(content.namespace(), Namespace::Gone(_)))
}

fn instead(placed: &PlacedPool, old: &Path) -> String {
    let until = "until these containers have ended";
    let is_beside = old.parent() == placed.directory.parent().map(real).as_deref();
    match old
        .file_name()
        .filter(|_| is_beside && placed.name().is_some())
    {
        Some(name) if name == ipam::POOLS_DIRECTORY => {
            format!("the pool without \"space\", {until}")
        }
        Some(name) => format!(
            "\"space\": {:?} in the pool, {until}",
            name.to_string_lossy()
        ),
        None => format!("the old keys, {until} (docs/how-it-works.md)"),
    }
}

/// The path without links; as it is if it doesn't exist.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
