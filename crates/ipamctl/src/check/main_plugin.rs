//! Checks that the main plugin accepts the subnets of the chain's pools.

use std::collections::BTreeSet;

use ipam::{IpNet, Range};

use crate::check::findings::Findings;
use crate::node::{Network, PlacedPool};

/// Number of subnets that a finding names.
const MOST_NAMED: usize = 8;

/// `bridge` with `isGateway` serves one IPv4 subnet.
pub(crate) fn check(network: &Network, pools: &[PlacedPool], findings: &mut Findings<'_>) {
    let main = &network.main;
    let mut keys = ["isGateway", "isDefaultGateway"].into_iter();
    let key = keys.find(|key| main.is_set(key));
    let Some(key) = key.filter(|_| main.kind == "bridge") else {
        return;
    };
    let ranges = pools.iter().flat_map(|placed| placed.pool.ranges.ranges());
    let mut subnets: BTreeSet<IpNet> = ranges.map(Range::subnet).collect();
    subnets.retain(|subnet| subnet.addr().is_ipv4());
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
