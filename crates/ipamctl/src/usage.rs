//! How full the pools are: size, reserved, free, excluded. `pools`, `map` and `metrics` show the same counts.

use std::net::IpAddr;

use ipam::RangeSet;
use serde::Serialize;

use crate::inventory::Inventory;
use crate::pools::PlacedPool;

/// A pool and its counts, or a directory without a known pool. Counts of IPv6 pools don't fit into 64
/// bits. The keys are documented, and don't change their meaning.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct PoolUsage {
    /// The networks that use it; of a directory without a known pool, its name.
    pub(crate) networks: Vec<String>,
    /// Its name, if it has one.
    pub(crate) pool: Option<String>,
    /// The directory of its reservations.
    pub(crate) directory: String,
    /// Its ranges; `null` if no configuration has them.
    pub(crate) ranges: Option<String>,
    /// Addresses without gateways and excluded ones.
    pub(crate) size: Option<u128>,
    /// Reserved ones of these; `null` if the directory can't be read.
    pub(crate) reserved: Option<u128>,
    /// Free ones of these.
    pub(crate) free: Option<u128>,
    /// How many addresses of the ranges are excluded; `null` without a known pool.
    pub(crate) excluded: Option<u128>,
}

/// The pools, and the directories with addresses of no known pool.
pub(crate) fn usages(inventory: &Inventory) -> Vec<PoolUsage> {
    let known = inventory.pools.all.iter();
    let pools = known.map(|placed| PoolUsage::of(placed, inventory));
    let others = inventory.unconfigured_directories().map(|directory| {
        let name = directory.file_name().unwrap_or_default();
        PoolUsage {
            networks: vec![name.to_string_lossy().into_owned()],
            directory: directory.display().to_string(),
            reserved: Some(inventory.taken(directory).len() as u128),
            ..PoolUsage::default()
        }
    });
    pools.chain(others).collect()
}

impl PoolUsage {
    /// The counts of a pool.
    pub(crate) fn of(placed: &PlacedPool, inventory: &Inventory) -> Self {
        let ranges = &placed.pool.ranges;
        let (size, taken) = (ranges.capacity(), inventory.taken(&placed.directory));
        let is_known = !inventory.is_unreadable(&placed.directory);
        let reserved = is_known.then(|| reserved(ranges, taken));
        Self {
            networks: placed.networks.iter().map(ToString::to_string).collect(),
            pool: placed.name().map(str::to_owned),
            directory: placed.directory.display().to_string(),
            ranges: Some(ranges.to_string()),
            size: Some(size),
            reserved,
            free: reserved.map(|reserved| size.saturating_sub(reserved)),
            excluded: Some(ranges.excluded()),
        }
    }
}

/// The number of taken addresses that the pool gives without a request.
fn reserved(ranges: &RangeSet, taken: &[IpAddr]) -> u128 {
    let counts = ranges.ranges().iter().map(|range| {
        let (first, last) = (range.addresses().first(), range.addresses().last());
        let taken = slice_between(taken, first, last).iter();
        taken.filter(|ip| range.gives(**ip)).count() as u128
    });
    counts.sum()
}

/// The addresses from `first` to `last` out of a list in ascending order.
pub(crate) fn slice_between(ips: &[IpAddr], first: IpAddr, last: IpAddr) -> &[IpAddr] {
    let start = ips.partition_point(|ip| *ip < first);
    let end = ips.partition_point(|ip| *ip <= last);
    &ips[start..end]
}

/// A count for people; `?` if it is unknown.
pub(crate) fn count_text(value: Option<u128>) -> String {
    value.map_or("?".to_owned(), number_text)
}

/// The number for people: `65533`, and from a thousand millions on `1.8e19`.
pub(crate) fn number_text(value: u128) -> String {
    match value {
        0..1_000_000_000 => value.to_string(),
        _ => format!("{value:.1e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gateways_and_excluded_addresses_are_no_part_of_the_size() {
        let range =
            serde_json::from_str(r#"{"subnet":"10.0.0.0/29","exclude":["10.0.0.4","10.0.0.5"]}"#)
                .unwrap();
        let ranges = RangeSet::read("ranges", &[range], &[]).unwrap();
        let taken = ["10.0.0.1", "10.0.0.2", "10.0.0.4", "10.0.0.9"].map(|ip| ip.parse().unwrap());
        assert_eq!(reserved(&ranges, &taken), 1);
        assert_eq!((ranges.capacity(), ranges.excluded()), (3, 2));
    }

    #[test]
    fn large_numbers_are_short() {
        assert_eq!(number_text(65_533), "65533");
        assert_eq!(number_text((1 << 64) - 2), "1.8e19");
        assert_eq!(number_text(u128::MAX), "3.4e38");
    }
}
