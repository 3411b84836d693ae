//! Joins reservations with records: who holds which address.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::path::Path;

use chain::record::ListedRecord;
use reservations::State;

use crate::node::held_address::HeldAddress;
use crate::node::inventory::Inventory;
use crate::node::pools::PlacedPool;

/// Each reserved address, and the addresses of each record that has no reservation.
pub(crate) fn held_addresses(inventory: &Inventory) -> Vec<HeldAddress<'_>> {
    let records = &inventory.records;
    let by_attachment: HashMap<(&str, &str, &str), usize> = (0..records.len())
        .map(|at| (key(&records[at]), at))
        .collect();
    let mut is_reserved = vec![false; records.len()];
    let mut pools: HashMap<&Path, Vec<&PlacedPool>> = HashMap::new();
    for pool in &inventory.pools.all {
        pools.entry(&pool.directory).or_default().push(pool);
    }
    let mut all = Vec::new();
    for directory in inventory.directories.values() {
        let pools = pools.get(directory.path.as_path());
        for listed in &directory.listed {
            let mut pools = pools.into_iter().flatten();
            let pool = pools.find(|placed| placed.pool.ranges.contains(listed.ip));
            let mut record = None;
            if let State::Reserved(holder) = &listed.state
                && let (Some(network), Some(ifname)) = (&listed.network, &holder.ifname)
            {
                let key = (
                    network.as_str(),
                    holder.container_id.as_str(),
                    ifname.as_str(),
                );
                record = by_attachment.get(&key).map(|&at| {
                    is_reserved[at] = true;
                    &records[at]
                });
            }
            all.push(HeldAddress::reserved(
                directory,
                listed,
                pool.copied(),
                record,
            ));
        }
    }
    let reserved: HashSet<(&str, IpAddr)> = all
        .iter()
        .filter_map(|address| Some((address.network?, address.ip?)))
        .collect();
    for (record, is_reserved) in records.iter().zip(is_reserved) {
        if !is_reserved {
            // An address that another holds by now isn't the record's any more.
            let is_lost = |ip| reserved.contains(&(record.network.as_str(), ip));
            all.extend(HeldAddress::recorded(record, is_lost));
        }
    }
    let all = all.into_iter();
    all.map(|address| address.known_to(&inventory.docker))
        .collect()
}

/// Network, container and interface of a record.
fn key(record: &ListedRecord) -> (&str, &str, &str) {
    let attachment = &record.attachment;
    let container = attachment.container_id.as_str();
    (
        record.network.as_str(),
        container,
        attachment.ifname.as_str(),
    )
}
