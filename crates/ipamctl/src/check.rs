//! Finds what keeps a container from starting or an address from coming back, in conflists that no
//! container uses yet.
//!
//! Each conflist is read once, with its network and its pools (`Checked`), and compared with all others
//! and with what is reserved (`Check`). The files below have one subject each, and add findings. What
//! plugins refuse themselves isn't repeated here: selectors are asked for their pools, and the whole chain
//! by STATUS, last, if no error is found before.

mod chain_status;
mod collection;
mod conflist_check;
mod default_network;
mod delegates;
pub(crate) mod findings;
mod folders;
mod moved;
mod overlaps;
mod settings;
#[cfg(test)]
mod tests;
mod unusual;

pub(crate) use default_network::taken_instead;

use std::path::{Path, PathBuf};

use cni::Environment;
use conflist::Conflist;

use crate::inventory::Inventory;
use conflist_check::{Check, Checked};
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
    let read = |conflist| Checked::read(conflist, environment);
    let all: Vec<Checked<'_>> = conflists.iter().map(read).collect();
    let overlaps = overlaps::of_pools(&all);
    let mut found = Vec::new();
    for (at, one) in all.iter().enumerate() {
        let mut check = Check {
            at,
            all: &all,
            one,
            no_exec,
            inventory,
            environment,
            findings: Vec::new(),
        };
        check.settings();
        check.plugins();
        check.ipam_gc();
        check.shared_folders();
        if let Some(network) = &one.network {
            check.name(network);
            check.delegates(network);
            check.collection(network);
            check.renewer(network);
            check.selectors(network);
            check.folders(network);
            check.unread_keys(network);
            check.shared_owners(network);
            check.addresses();
            check.overlaps(&overlaps);
            check.status(network);
            check.moved(network);
        }
        found.extend(check.findings);
    }
    found
}
