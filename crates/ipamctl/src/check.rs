//! Finds what keeps a container from starting or an address from coming back, in conflists that no
//! container uses yet.
//!
//! Each conflist is read once, with its network and its pools ([`CheckedConflist`]), and compared with all
//! others and with what is reserved ([`ConflistCheck`]). The files below have one subject each, and add
//! findings. What plugins refuse themselves isn't repeated here: selectors are asked for their pools, and the
//! whole chain by STATUS, if no error is found before.

mod chain_status;
mod conflist_check;
mod default_network;
mod delegates;
pub(crate) mod findings;
mod folders;
mod garbage_collection;
mod moved;
mod overlaps;
mod settings;
#[cfg(test)]
mod tests;
mod unusual;

pub(crate) use default_network::default_network_finding;

use std::path::{Path, PathBuf};

use cni::Environment;
use conflist::Conflist;

use crate::inventory::Inventory;
use conflist_check::{CheckedConflist, ConflistCheck};
use findings::Finding;

/// The path without links; as it is if it doesn't exist.
pub(crate) fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// The findings in these conflists, each compared with the others, and with what is reserved. With
/// `no_exec`, no plugin is run, and only folders are judged that a container sees.
pub(crate) fn findings(
    conflists: &[Conflist],
    inventory: &Inventory,
    no_exec: bool,
    environment: &Environment,
) -> Vec<Finding> {
    let read = |conflist| CheckedConflist::read(conflist, environment);
    let all: Vec<CheckedConflist<'_>> = conflists.iter().map(read).collect();
    let overlaps = overlaps::overlapping_pools(&all);
    let mut found = Vec::new();
    for (index, checked) in all.iter().enumerate() {
        let mut check = ConflistCheck {
            index,
            all: &all,
            checked,
            no_exec,
            inventory,
            environment,
            findings: Vec::new(),
        };
        check.check_settings();
        check.check_plugins();
        check.check_ipam_gc();
        check.check_shared_folders();
        if let Some(network) = &checked.network {
            check.check_name(network);
            check.check_delegates(network);
            check.check_garbage_collection(network);
            check.check_renewer(network);
            check.check_selectors(network);
            check.check_folders(network);
            check.check_unread_keys(network);
            check.check_shared_owners(network);
            check.check_unusual_addresses();
            check.check_overlaps(&overlaps);
            check.check_status(network);
            check.check_moved_addresses(network);
        }
        found.extend(check.findings);
    }
    found
}
