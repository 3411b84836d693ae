//! DEL and GC: release the reservations of an attachment, or of all attachments that aren't valid.

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;

use cni::{Attachment, Call, Error, IpConfig, NetworkName, ROLLBACK, code};
use ipam::{Pools, prev_ips};
use reservations::{DataDir, State};

use crate::holder::{Holder, of_network};
use crate::storage;

/// Releases the attachment's addresses: those of `prevResult` first. If these were fewer than
/// pools, the directories are searched: those of the pools and of the network, or, without pools,
/// all. One of `prevResult` that is still left is looked for in all directories: other pools may be
/// chosen today. A rollback searches for nothing.
pub(crate) fn del(attachment: &Attachment, call: &Call<'_>) -> Result<(), Error> {
    let config = &call.config;
    let network = config.name();
    let data_dir = storage::directories(call, &config.ipam()?)?;
    let pools = Pools::to_release(config);
    let of_pools = pools.directories(network);
    let named = named_by_call(&of_pools, network);
    let all = if of_pools.is_empty() {
        data_dir.names()?.into_iter().collect()
    } else {
        of_pools
    };
    let holder = Holder {
        attachment,
        network,
    };
    let mut release = Release::new(&data_dir, &named);
    let ips: Vec<IpAddr> = prev_ips(config).iter().map(IpConfig::ip).collect();
    for name in &all {
        release.of_these(name, &ips, &holder);
    }
    let is_rollback = !call.environment.text(ROLLBACK).is_empty();
    if !is_rollback && !release.has_one_of_each(&pools) {
        for name in all.union(&named) {
            release.search(name, &holder);
        }
    }
    if !is_rollback && !release.has(&ips) {
        match data_dir.names() {
            Ok(names) => {
                for name in names.iter().filter(|name| !all.contains(name)) {
                    release.of_these(name, &ips, &holder);
                }
            }
            Err(error) => release.errors.push(error),
        }
    }
    if !release.has(&ips) {
        // It may be in a directory that can't be read.
        release.errors.append(&mut release.unknown);
    }
    release.finish()
}

/// Releases the network's reservations whose attachments aren't valid, in all directories, and
/// removes torn files from those of the call.
pub(crate) fn gc(call: &Call<'_>) -> Result<(), Error> {
    let config = &call.config;
    let network = config.name();
    let data_dir = storage::directories(call, &config.ipam()?)?;
    // A reservation without an interface belongs to the container, and is valid with any
    // interface.
    let valid: HashSet<(String, Option<String>)> = config
        .valid_attachments()?
        .iter()
        .flat_map(|attachment| {
            [Some(attachment.ifname.to_string()), None]
                .map(|ifname| (attachment.container_id.to_string(), ifname))
        })
        .collect();
    let of_pools = Pools::to_release(config).directories(network);
    let named = named_by_call(&of_pools, network);
    let mut release = Release::new(&data_dir, &named);
    for name in data_dir.names()? {
        let is_stale = |state: &State| match state {
            State::Torn => named.contains(&name),
            _ => of_network(network, &name, state).is_some_and(|holder| {
                !valid.contains(&(holder.container_id.clone(), holder.ifname.clone()))
            }),
        };
        release.release_stale(&name, data_dir.states(&name), is_stale);
    }
    release.finish()
}

/// The directories of a call's pools, and its network's.
fn named_by_call(of_pools: &BTreeSet<NetworkName>, network: &NetworkName) -> BTreeSet<NetworkName> {
    of_pools.iter().chain([network]).cloned().collect()
}

/// Releases reservations in several directories. A failure in one doesn't stop the others.
struct Release<'a> {
    data_dir: &'a DataDir<'a>,
    /// The directories that the call names.
    named: &'a BTreeSet<NetworkName>,
    released: HashSet<IpAddr>,
    errors: Vec<Error>,
    /// Failures in other directories, which may have nothing of the attachment.
    unknown: Vec<Error>,
}

/// Addresses that have a file, with their states.
type States = Vec<(IpAddr, State)>;

impl<'a> Release<'a> {
    fn new(data_dir: &'a DataDir<'a>, named: &'a BTreeSet<NetworkName>) -> Self {
        Self {
            data_dir,
            named,
            released: HashSet::new(),
            errors: Vec::new(),
            unknown: Vec::new(),
        }
    }

    /// Releases the stale ones among the addresses that were found in a directory.
    fn release_stale(
        &mut self,
        name: &NetworkName,
        found: Result<States, Error>,
        is_stale: impl Fn(&State) -> bool,
    ) {
        let mut stale = match found {
            Ok(found) => found,
            Err(error) => return self.add_unknown(name, error),
        };
        stale.retain(|(_, state)| is_stale(state));
        match self.data_dir.release(name, stale) {
            Ok(ips) => self.released.extend(ips.iter().map(IpAddr::to_canonical)),
            Err(error) => self.errors.push(error),
        }
    }

    /// Releases those of the attachment among the addresses that were found in a directory. One that
    /// can't be read may be the attachment's.
    fn of_attachment(
        &mut self,
        name: &NetworkName,
        found: Result<States, Error>,
        is_held: impl Fn(&State) -> bool,
    ) {
        for (ip, state) in found.iter().flatten() {
            if *state == State::Unreadable {
                self.add_unknown(name, self.data_dir.unreadable(name, *ip));
            }
        }
        self.release_stale(name, found, is_held);
    }

    /// Releases those of these addresses that the attachment has in a directory.
    fn of_these(&mut self, name: &NetworkName, ips: &[IpAddr], holder: &Holder<'_>) {
        let found = self.data_dir.states_of(name, ips);
        self.of_attachment(name, found, |state| holder.has_by_interface(name, state));
    }

    /// Releases all addresses of an attachment in a directory. As host-local: an address of the
    /// whole container is released only if the attachment has none.
    fn search(&mut self, name: &NetworkName, holder: &Holder<'_>) {
        let found = self.data_dir.states(name);
        let mut all = found.iter().flatten();
        let has_any = all.any(|(_, state)| holder.has_by_interface(name, state));
        self.of_attachment(name, found, |state| {
            if has_any {
                holder.has_by_interface(name, state)
            } else {
                holder.has_by_container(name, state)
            }
        });
    }

    fn add_unknown(&mut self, name: &NetworkName, error: Error) {
        if self.named.contains(name) {
            self.errors.push(error);
            return;
        }
        let msg = format!(
            "{}: unknown whether something is to be released there",
            error.msg
        );
        tracing::warn!("{msg}");
        self.unknown.push(Error::new(code::TRY_AGAIN_LATER, msg));
    }

    /// True if it has released these addresses.
    fn has(&self, ips: &[IpAddr]) -> bool {
        let mut ips = ips.iter();
        ips.all(|ip| self.released.contains(&ip.to_canonical()))
    }

    /// True if it has released an address of each of these pools, and there are some.
    fn has_one_of_each(&self, pools: &Pools) -> bool {
        let number = pools.entries().len();
        number > 0 && self.released.len() >= number
    }

    fn finish(self) -> Result<(), Error> {
        tracing::debug!(addresses = self.released.len(), "released in all");
        Error::all_as_one(self.errors)
    }
}
