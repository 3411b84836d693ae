//! Counts of a pool: size, reserved, free, excluded.

use std::net::IpAddr;

use cni::NetworkName;
use ipam::RangeSet;
use serde::{Serialize, Serializer};

use crate::node::inventory::Inventory;

/// Counts of a pool's addresses. Those of IPv6 pools don't fit into 64 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Addresses without gateways and excluded ones.
    pub(crate) size: u128,
    /// Reserved ones of these.
    pub(crate) reserved: u128,
    /// Excluded addresses.
    pub(crate) excluded: u128,
    /// Reserved excluded addresses, which were requested.
    pub(crate) excluded_reserved: u128,
}

impl Usage {
    /// Counts the addresses of a pool. `taken` has the taken addresses of its directory in
    /// ascending order.
    pub(crate) fn of(ranges: &RangeSet, taken: &[IpAddr]) -> Self {
        let mut usage = Self {
            size: ranges.capacity(),
            excluded: ranges.excluded(),
            ..Self::default()
        };
        for range in ranges.ranges() {
            let (first, last) = (range.addresses().first(), range.addresses().last());
            for ip in slice(taken, first, last) {
                if range.gives(*ip) {
                    usage.reserved += 1;
                } else if *ip != range.gateway() {
                    usage.excluded_reserved += 1;
                }
            }
        }
        usage
    }

    /// Addresses that an ADD could get.
    pub(crate) fn free(self) -> u128 {
        self.size.saturating_sub(self.reserved)
    }

    /// Reserved part of the size, from 0 to 1; a pool without addresses is full.
    #[expect(clippy::cast_precision_loss, reason = "it is a ratio for people")]
    fn ratio(self) -> f64 {
        if self.size == 0 {
            return 1.0;
        }
        self.reserved as f64 / self.size as f64
    }
}

/// The addresses from `first` to `last` out of a list in ascending order.
pub(crate) fn slice(ips: &[IpAddr], first: IpAddr, last: IpAddr) -> &[IpAddr] {
    let start = ips.partition_point(|ip| *ip < first);
    let end = ips.partition_point(|ip| *ip <= last);
    &ips[start..end]
}

/// A pool and its counts. The keys are documented, and don't change their meaning.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PoolUsage {
    /// The networks that use it.
    pub(crate) networks: Vec<NetworkName>,
    /// Its name, if it has one.
    pub(crate) pool: Option<String>,
    /// The directory of its reservations.
    pub(crate) directory: String,
    /// Its ranges; `null` if no configuration has them.
    pub(crate) ranges: Option<String>,
    /// Addresses without gateways and excluded ones.
    #[serde(serialize_with = "number")]
    pub(crate) size: Option<u128>,
    /// Reserved ones of these.
    #[serde(serialize_with = "number")]
    pub(crate) reserved: Option<u128>,
    /// Free ones of these.
    #[serde(serialize_with = "number")]
    pub(crate) free: Option<u128>,
    /// Excluded addresses.
    #[serde(serialize_with = "number")]
    pub(crate) excluded: Option<u128>,
    /// Reserved excluded addresses, which were requested.
    #[serde(serialize_with = "number")]
    pub(crate) excluded_reserved: Option<u128>,
    /// Reserved part of the size, from 0 to 1.
    pub(crate) used: Option<f64>,
}

/// A number; as text beyond 2^53, which JSON readers would round.
fn number<S: Serializer>(value: &Option<u128>, serializer: S) -> Result<S::Ok, S::Error> {
    match value.map(u64::try_from) {
        None => serializer.serialize_none(),
        Some(Ok(small)) if small <= 1 << 53 => serializer.serialize_u64(small),
        Some(_) => serializer.collect_str(&value.unwrap_or_default()),
    }
}

impl PoolUsage {
    /// True if it belongs to this network, or has this name.
    pub(crate) fn is_of(&self, name: &str) -> bool {
        let mut networks = self.networks.iter();
        self.pool.as_deref() == Some(name) || networks.any(|network| network.as_str() == name)
    }
}

/// The pools of a node. A directory without a configured pool is listed as a pool.
pub(crate) fn pool_usages(inventory: &Inventory) -> Vec<PoolUsage> {
    let pools = inventory.pools.all.iter().map(|placed| {
        let usage = Usage::of(&placed.pool.ranges, inventory.taken(&placed.directory));
        let is_known = !inventory.is_unreadable(&placed.directory);
        PoolUsage {
            networks: placed.networks.clone(),
            pool: placed.name().map(str::to_owned),
            directory: placed.directory.display().to_string(),
            ranges: Some(placed.pool.ranges.to_string()),
            size: Some(usage.size),
            reserved: is_known.then_some(usage.reserved),
            free: is_known.then_some(usage.free()),
            excluded: Some(usage.excluded),
            excluded_reserved: is_known.then_some(usage.excluded_reserved),
            used: is_known.then_some(usage.ratio()),
        }
    });
    let directories = inventory.directories.values();
    let others = directories.filter(|directory| !inventory.pools.has_directory(&directory.path));
    let others = others.map(|directory| {
        let (networks, is_named) = directory.networks();
        PoolUsage {
            networks,
            pool: is_named.then(|| directory.name.to_string()),
            directory: directory.path.display().to_string(),
            reserved: Some(directory.taken.len() as u128),
            ..PoolUsage::default()
        }
    });
    pools.chain(others).collect()
}

/// The number for people; one of more than nine digits as a power of two.
pub(crate) fn large(value: u128) -> String {
    if value < 1_000_000_000 {
        return value.to_string();
    }
    let exponent = value.ilog2();
    if value.is_power_of_two() {
        format!("2^{exponent}")
    } else if value.saturating_add(value / 1000).ilog2() > exponent || value == u128::MAX {
        format!("~2^{}", exponent + 1)
    } else {
        format!("~2^{exponent}")
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
        let taken = ["10.0.0.1", "10.0.0.2", "10.0.0.4", "10.0.0.9"];
        let taken = taken.map(|ip| ip.parse().unwrap());
        let usage = Usage::of(&ranges, &taken);
        assert_eq!(
            usage,
            Usage {
                size: 3,
                reserved: 1,
                excluded: 2,
                excluded_reserved: 1
            }
        );
        assert_eq!(usage.free(), 2);
    }

    #[test]
    fn large_numbers_are_powers_of_two() {
        assert_eq!(large(65_533), "65533");
        assert_eq!(large(1 << 64), "2^64");
        assert_eq!(large((1 << 64) - 2), "~2^64");
        assert_eq!(large(u128::MAX), "~2^128");
        assert_eq!(large((1 << 40) + 9), "~2^40");
    }
}
