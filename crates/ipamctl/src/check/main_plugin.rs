//! Checks that the main plugin accepts the subnets of the chain's pools.

use std::collections::BTreeSet;

use ipam::IpNet;

use crate::check::checked::Checked;
use crate::check::findings::Findings;

/// Number of subnets that a finding names.
const MOST_NAMED: usize = 8;

/// `bridge` with `isGateway` serves one IPv4 subnet.
pub(crate) fn check(checked: &Checked<'_>, findings: &mut Findings<'_>) {
    let Some(network) = &checked.network else {
        return;
    };
    let main = &network.main;
    let key = ["isGateway", "isDefaultGateway"]
        .into_iter()
        .find(|key| main.is_set(key));
    let Some(key) = key.filter(|_| main.kind == "bridge") else {
        return;
    };
    let ranges = checked
        .pools
        .iter()
        .flat_map(|placed| placed.pool.ranges.ranges());
    let subnets: BTreeSet<IpNet> = ranges
        .map(|range| range.subnet())
        .filter(|subnet| subnet.addr().is_ipv4())
        .collect();
    if subnets.len() < 2 {
        return;
    }
    let shown = subnets.iter().take(MOST_NAMED);
    let mut list: Vec<String> = shown.map(ToString::to_string).collect();
    if subnets.len() > MOST_NAMED {
        list.push(format!("{} more", subnets.len() - MOST_NAMED));
    }
    let list = list.join(", ");
    if main.is_set("forceAddress") {
        findings.error(
            "forceAddress",
            format!("bridge takes its address away from the containers of one subnet when another of {list} comes"),
            "slices of one subnet, without forceAddress (docs/bridges-and-subnets.md)",
        );
    } else {
        findings.error(
            key,
            format!("bridge serves one IPv4 subnet, and refuses the second of {list}"),
            "slices of one subnet, or a router of your own (docs/bridges-and-subnets.md)",
        );
    }
}
