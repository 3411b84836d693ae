//! Finds what an administrator gets wrong in conflists, before a container does.
//!
//! Each submodule has one subject. They look at conflists, and at the machine only through
//! [`host::Host`].

mod capabilities;
mod checked;
mod collection;
mod delegates;
pub(crate) mod findings;
pub(crate) mod folders;
pub(crate) mod host;
mod main_plugin;
mod moved_ranges;
mod overlaps;
mod range_index;
mod rules;
#[cfg(test)]
mod tests;

use cni::Environment;
use conflist::Conflist;

use checked::Checked;
use findings::{Finding, Findings};
use host::Host;
use range_index::RangeIndex;

/// The findings of the conflists that `is_wanted` selects, beside all others.
pub(crate) fn findings(
    conflists: &[Conflist],
    is_wanted: impl Fn(&Conflist) -> bool,
    host: &Host<'_>,
    environment: &Environment,
) -> Vec<Finding> {
    let mut all = Vec::new();
    let mut checked = Vec::with_capacity(conflists.len());
    for conflist in conflists {
        let mut findings = Findings::of(&conflist.file);
        checked.push(Checked::read(conflist, environment, &mut findings));
        if is_wanted(conflist) {
            all.extend(findings.all);
        }
    }
    let ranges = RangeIndex::of(&checked);
    for (i, one) in checked.iter().enumerate() {
        let conflist = one.conflist;
        if !is_wanted(conflist) {
            continue;
        }
        let mut findings = Findings::of(&conflist.file);
        let mut earlier = checked[..i].iter().map(|earlier| earlier.conflist);
        if let Some(earlier) = earlier.find(|earlier| earlier.name == conflist.name) {
            findings.error(
                "name",
                format!(
                    "{} is the name of the network in {}, too; runtimes use the first file",
                    conflist.name,
                    earlier.file.display()
                ),
                "a different name",
            );
        }
        delegates::check(one, host, environment, &mut findings);
        collection::check(one, &mut findings);
        if let Some(network) = &one.network {
            main_plugin::check(network, &one.pools, &mut findings);
            capabilities::check(conflist, network, &mut findings);
            folders::check(network, host, &mut findings);
        }
        overlaps::check(i, &checked, &ranges, host, &mut findings);
        moved_ranges::check(one, &checked, host, &mut findings);
        all.extend(findings.all);
    }
    all
}
