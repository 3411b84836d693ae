//! Checks that the main plugin supports the subnets of the chain's pools.

use std::collections::BTreeSet;

use ipam::{IpNet, Range};

use crate::check::conflist_check::Check;
use crate::check::findings::listed;
use crate::node::Network;

/// Most subnets that a finding names.
const MOST_NAMED: usize = 8;

impl Check<'_> {
    /// `bridge` with `isGateway` serves one IPv4 subnet.
    pub(super) fn subnets_of_main_plugin(&mut self, network: &Network) {
        let main = &network.main;
        let mut keys = ["isGateway", "isDefaultGateway"].into_iter();
        let Some(key) = keys.find(|key| main.kind == "bridge" && main.is_set(key)) else {
            return;
        };
        let pools = self.one.pools.all.iter();
        let ranges = pools.flat_map(|placed| placed.pool.ranges.ranges());
        let mut subnets: BTreeSet<IpNet> = ranges.map(Range::subnet).collect();
        subnets.retain(|subnet| subnet.addr().is_ipv4());
        if subnets.len() < 2 {
            return;
        }
        let list = listed(&subnets, MOST_NAMED);
        if main.is_set("forceAddress") {
            self.findings.error(
                "forceAddress",
                format!("bridge takes its address away from the containers of one subnet when another of {list} comes"),
                "slices of one subnet, without forceAddress (docs/bridges-and-subnets.md)",
            );
        } else {
            self.findings.error(
                key,
                format!("bridge serves one IPv4 subnet, and refuses the second of {list}"),
                "slices of one subnet, or a router of your own (docs/bridges-and-subnets.md)",
            );
        }
    }
}
