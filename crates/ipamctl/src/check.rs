//! Finds mistakes in conflists before a container uses them.
//!
//! Each submodule has one subject. Only [`host::Host`] reads anything but conflists.

mod capabilities;
mod collection;
mod conflist_check;
mod delegates;
pub(crate) mod findings;
mod folders;
pub(crate) mod host;
mod main_plugin;
mod moved_ranges;
mod overlaps;
mod settings;
#[cfg(test)]
mod tests;

use conflist::Conflist;

use conflist_check::{Check, Checked};
use findings::{Finding, Findings};
use host::Host;

pub(crate) use folders::are_roots;

/// The findings in the conflists that `is_wanted` selects, compared with all others.
pub(crate) fn findings(
    conflists: &[Conflist],
    is_wanted: impl Fn(&Conflist) -> bool,
    host: &Host<'_>,
) -> Vec<Finding> {
    let conflists = conflists.iter();
    let all: Vec<Checked<'_>> = conflists
        .map(|conflist| Checked::read(conflist, host.environment))
        .collect();
    let overlaps = overlaps::of_pools(&all);
    let mut found = Vec::new();
    for at in (0..all.len()).filter(|&at| is_wanted(all[at].conflist)) {
        let mut check = Check {
            at,
            all: &all,
            one: &all[at],
            host,
            findings: Findings::of(&all[at].conflist.file),
        };
        check.settings();
        check.plugins();
        check.ipam_gc();
        if let Some(network) = &all[at].network {
            check.delegates(network);
            check.collection(network);
            check.subnets_of_main_plugin(network);
            check.capabilities(network);
            check.folders(network);
            check.moved_ranges(network);
        }
        check.overlaps(&overlaps);
        found.extend(check.findings.all);
    }
    found
}
