//! Finds addresses of a pool that containers hold in another pool's directory: they would be
//! given again.

use std::collections::BTreeSet;

use cni::NetworkName;
use ipam::RangeSet;
use ipam_ds_rules::explain::HeldElsewhere;
use reservations::State;

use crate::check::checked::Checked;
use crate::check::findings::Findings;
use crate::check::host::Host;
use crate::node::network::RULES;

/// Most holders that are named in a finding.
const MOST_NAMED: usize = 5;

pub(crate) fn check(
    checked: &Checked<'_>,
    all: &[Checked<'_>],
    host: &Host<'_>,
    findings: &mut Findings<'_>,
) {
    let Some(network) = &checked.network else {
        return;
    };
    if !network.has_delegate(RULES) || !network.keeps_files() {
        return;
    }
    let data_dir = &network.folders.data_dir;
    // The command says that only root can tell.
    if (host.folder)(data_dir).is_roots {
        return;
    }
    let named = |checked: &Checked<'_>| -> BTreeSet<NetworkName> {
        let named = checked
            .pools
            .iter()
            .filter(|placed| placed.name().is_some());
        named
            .map(|placed| placed.directory_name().clone())
            .collect()
    };
    let own = named(checked);
    // This network, and those that share a pool with it.
    let networks: BTreeSet<&str> = all
        .iter()
        .filter(|other| {
            other.conflist.name == checked.conflist.name || !named(other).is_disjoint(&own)
        })
        .map(|other| other.conflist.name.as_str())
        .collect();
    let pools: Vec<(&str, &RangeSet)> = checked
        .pools
        .iter()
        .map(|placed| (placed.directory_name().as_str(), &placed.pool.ranges))
        .collect();
    let held = match (host.held_elsewhere)(data_dir, &pools, &own, &networks) {
        Ok(held) => held,
        Err(reason) => {
            findings.error(
                "ipam.dataDir",
                format!("what is reserved can't be read: {reason}"),
                "folders that root can read",
            );
            return;
        }
    };
    for (i, (pool, _)) in pools.iter().enumerate() {
        let held: Vec<&HeldElsewhere> = held.iter().filter(|held| held.pool == i).collect();
        if held.is_empty() {
            continue;
        }
        let mut holders: Vec<String> = held
            .iter()
            .take(MOST_NAMED)
            .map(|held| text(held))
            .collect();
        if held.len() > MOST_NAMED {
            holders.push(format!("{} more", held.len() - MOST_NAMED));
        }
        findings.error(
            "ipam.pools",
            format!(
                "pool {pool} has addresses that containers hold of another: {}",
                holders.join(", ")
            ),
            "the border where it was until these containers are gone",
        );
    }
}

fn text(held: &HeldElsewhere) -> String {
    let ip = held.address.ip;
    let pool = &held.directory;
    match &held.address.state {
        State::Reserved(holder) => format!("{ip} of {pool} by {}", holder.container_id),
        _ => format!("{ip} of {pool}"),
    }
}
