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
    let by_attachment = (0..records.len()).map(|at| (key(&records[at]), at));
    let by_attachment: HashMap<(&str, &str, &str), usize> = by_attachment.collect();
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
            let holder = match (&listed.state, &listed.network) {
                (State::Reserved(holder), Some(network)) => {
                    let ifname = holder.ifname.as_deref();
                    ifname.map(|ifname| (network.as_str(), holder.container_id.as_str(), ifname))
                }
                _ => None,
            };
            let at = holder.and_then(|holder| by_attachment.get(&holder).copied());
            let record = at.map(|at| {
                is_reserved[at] = true;
                &records[at]
            });
            let pool = pool.copied();
            all.push(HeldAddress::reserved(directory, listed, pool, record));
        }
    }
    let reserved = all.iter();
    let reserved = reserved.filter_map(|address| Some((address.network?, address.ip?)));
    let reserved: HashSet<(&str, IpAddr)> = reserved.collect();
    for (record, is_reserved) in records.iter().zip(is_reserved) {
        if !is_reserved {
            // An address that another attachment holds now doesn't belong to the record any more.
            let is_lost = |ip| reserved.contains(&(record.network.as_str(), ip));
            all.extend(HeldAddress::recorded(record, is_lost));
        }
    }
    let all = all.into_iter();
    let all = all.map(|address| address.known_to(&inventory.docker));
    all.collect()
}

/// Network, container and interface of a record.
fn key(record: &ListedRecord) -> (&str, &str, &str) {
    let (container, ifname) = (&record.attachment.container_id, &record.attachment.ifname);
    (record.network.as_str(), container.as_str(), ifname.as_str())
}
