//! Counts of a pool: size, reserved, free, excluded.

use std::net::IpAddr;

use ipam::RangeSet;

/// Counts of a pool's addresses. IPv6 pools have more than 64 bits can count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Addresses that are given without request: neither gateway nor excluded.
    pub(crate) size: u128,
    /// Reserved ones of these.
    pub(crate) reserved: u128,
    /// Excluded addresses.
    pub(crate) excluded: u128,
    /// Reserved excluded addresses, which were requested.
    pub(crate) excluded_reserved: u128,
}

impl Usage {
    /// Counts the addresses of a pool, given the taken ones of its directory in
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

    /// Addresses that an ADD could be given.
    pub(crate) fn free(self) -> u128 {
        self.size.saturating_sub(self.reserved)
    }

    /// Reserved part of the size, from 0 to 1; a pool without addresses is full.
    #[expect(clippy::cast_precision_loss, reason = "it is a ratio for people")]
    pub(crate) fn ratio(self) -> f64 {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gateways_and_excluded_addresses_are_counted_for_what_they_are() {
        let range =
            serde_json::from_str(r#"{"subnet":"10.0.0.0/29","exclude":["10.0.0.4","10.0.0.5"]}"#)
                .unwrap();
        let ranges = RangeSet::read("it", &[range], &[]).unwrap();
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
}
