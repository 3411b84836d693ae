//! Finds addresses of a pool that containers hold in another pool's directory. The pool would give
//! them to other containers, too.

use std::collections::BTreeSet;

use cni::NetworkName;
use ipam::RangeSet;
use ipam_ds_rules::explain::{HeldElsewhere, held_elsewhere};
use reservations::State;
use reservations::view::ListedAddress;

use crate::check::conflist_check::{Check, Checked};
use crate::check::findings::listed;
use crate::node::Network;
use crate::node::network::RULES;

/// Most holders that a finding names.
const MOST_NAMED: usize = 5;

impl Check<'_> {
    pub(super) fn moved_ranges(&mut self, network: &Network) {
        let data_dir = &network.folders.data_dir;
        // The command warns about folders that only root can read.
        let is_roots = (self.host.folder)(data_dir).is_roots;
        if !network.has_delegate(RULES) || !network.keeps_files() || is_roots {
            return;
        }
        let own = named_pools(self.one);
        // This network, and those that share a pool with it.
        let others = self.all.iter().filter(|other| {
            other.conflist.name == network.name || !named_pools(other).is_disjoint(&own)
        });
        let networks: BTreeSet<&str> = others.map(|other| other.conflist.name.as_str()).collect();
        let concerns = |directory: &NetworkName, address: &ListedAddress| {
            let holder = address.network.as_deref();
            own.contains(directory) || holder.is_none_or(|network| networks.contains(network))
        };
        let pools = self.one.pools.all.iter();
        let pools: Vec<(&str, &RangeSet)> = pools
            .map(|placed| (placed.directory_name().as_str(), &placed.pool.ranges))
            .collect();
        let held = match held_elsewhere(data_dir, &pools, concerns) {
            Ok(held) => held,
            Err(error) => {
                let problem = format!("reservations can't be read: {}", error.msg);
                let instead = "folders that root can read";
                return self.findings.error("ipam.dataDir", problem, instead);
            }
        };
        for (i, (pool, _)) in pools.iter().enumerate() {
            let of_pool = held.iter().filter(|held| held.pool == i).map(text);
            let holders = listed(of_pool, MOST_NAMED);
            if !holders.is_empty() {
                self.findings.error(
                    "ipam.pools",
                    format!("pool {pool} has addresses that containers hold of another: {holders}"),
                    "the border where it was until these containers are gone",
                );
            }
        }
    }
}

/// The directories of a network's named pools.
fn named_pools(checked: &Checked<'_>) -> BTreeSet<NetworkName> {
    let pools = checked.pools.all.iter();
    let named = pools.filter(|placed| placed.name().is_some());
    let directories = named.map(|placed| placed.directory_name().clone());
    directories.collect()
}

fn text(held: &HeldElsewhere) -> String {
    let (ip, pool) = (held.address.ip, &held.directory);
    match &held.address.state {
        State::Reserved(holder) => format!("{ip} of {pool} by {}", holder.container_id),
        _ => format!("{ip} of {pool}"),
    }
}
