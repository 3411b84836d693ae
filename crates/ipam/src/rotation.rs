//! In which order a range set's addresses are tried: round robin from the one
//! given last.

use std::net::IpAddr;

use crate::{Interval, Range, RangeSet};

/// Addresses to try, lowest first, and the range that they are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate<'a> {
    /// The addresses, without the gateway.
    pub addresses: Interval,
    /// What they belong to.
    pub range: &'a Range,
}

impl RangeSet {
    /// Every address of the set once, gateways excepted: from the one after
    /// `last` to the end of its range, through the other ranges, and from the
    /// start of that range to `last` itself. From the start of the first range,
    /// if `last` is none of the set's.
    ///
    /// The order is host-local's (`backend/allocator/allocator.go`, `RangeIter`),
    /// so that a container that is restarted over and over gets another address
    /// each time.
    pub fn rotation(&self, last: Option<IpAddr>) -> Vec<Candidate<'_>> {
        let ranges = self.ranges();
        let start = last.and_then(|ip| {
            let index = ranges.iter().position(|r| r.addresses().contains(ip))?;
            Some((index, ip))
        });
        let whole = |range| (range, None);
        let parts: Vec<(&Range, Option<Interval>)> = match start {
            None => ranges.iter().map(whole).collect(),
            Some((index, ip)) => {
                let range = &ranges[index];
                let (before, after) = range.addresses().around(ip);
                let up_to_last = before.map_or(ip, Interval::first);
                let mut parts = Vec::with_capacity(ranges.len() + 1);
                parts.extend(after.map(|part| (range, Some(part))));
                parts.extend(ranges[index + 1..].iter().map(whole));
                parts.extend(ranges[..index].iter().map(whole));
                parts.push((range, Interval::new(up_to_last, ip)));
                parts
            }
        };
        parts
            .into_iter()
            .flat_map(|(range, part)| {
                let part = part.unwrap_or(range.addresses());
                let (before, after) = part.around(range.gateway());
                before
                    .into_iter()
                    .chain(after)
                    .map(move |addresses| Candidate { addresses, range })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::range_set::tests::set;
    use proptest::prelude::*;

    fn order(set: &RangeSet, last: Option<&str>) -> Vec<String> {
        set.rotation(last.map(|ip| ip.parse().unwrap()))
            .iter()
            .flat_map(|candidate| candidate.addresses.iter())
            .map(|ip| ip.to_string())
            .collect()
    }

    #[test]
    fn the_first_address_is_the_one_after_the_gateway() {
        let set = set("10.0.0.0/29").unwrap();
        assert_eq!(
            order(&set, None),
            ["10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"]
        );
    }

    #[test]
    fn the_last_one_given_is_the_last_to_be_tried() {
        let set = set("10.0.0.0/29 10.0.0.1 10.0.0.5 10.0.0.4").unwrap();
        assert_eq!(
            order(&set, Some("10.0.0.2")),
            ["10.0.0.3", "10.0.0.5", "10.0.0.1", "10.0.0.2"]
        );
        assert_eq!(
            order(&set, Some("10.0.0.5")),
            ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.5"]
        );
        assert_eq!(
            order(&set, Some("10.0.0.4")),
            ["10.0.0.5", "10.0.0.1", "10.0.0.2", "10.0.0.3"]
        );
    }

    #[test]
    fn ranges_are_gone_through_in_a_circle() {
        let set = set("10.0.0.0/30, 10.0.1.0/30 10.0.1.1 10.0.1.2 10.0.9.1, 10.0.2.0/30").unwrap();
        assert_eq!(
            order(&set, Some("10.0.1.1")),
            ["10.0.1.2", "10.0.2.2", "10.0.0.2", "10.0.1.1"]
        );
    }

    #[test]
    fn a_last_one_of_another_set_starts_from_the_start() {
        let set = set("10.0.0.0/30").unwrap();
        assert_eq!(order(&set, Some("10.0.7.7")), ["10.0.0.2"]);
        assert_eq!(order(&set, Some("::1")), ["10.0.0.2"]);
    }

    #[test]
    fn a_range_may_be_all_of_its_family() {
        let set = set("::/0").unwrap();
        let rotation = set.rotation(Some("::5".parse().unwrap()));
        assert_eq!(rotation[0].addresses.first().to_string(), "::6");
    }

    proptest! {
        #[test]
        fn every_address_is_tried_once_and_no_gateway(
            sizes in proptest::collection::vec((1u8..20, 0u8..25), 1..5),
            last in (0u8..5, 0u8..30),
        ) {
            let text: Vec<String> = sizes
                .iter()
                .enumerate()
                .map(|(i, (size, gateway))| format!("10.0.{i}.0/24 10.0.{i}.3 10.0.{i}.{} 10.0.{i}.{gateway}", 3 + size))
                .collect();
            let set = set(&text.join(", ")).unwrap();
            let last = format!("10.0.{}.{}", last.0, last.1);
            let tried = order(&set, Some(&last));
            let mut sorted = tried.clone();
            sorted.sort_unstable();
            let mut expected: Vec<String> = set
                .ranges()
                .iter()
                .flat_map(|r| r.addresses().iter().filter(|ip| *ip != r.gateway()))
                .map(|ip| ip.to_string())
                .collect();
            expected.sort_unstable();
            prop_assert_eq!(sorted, expected);
            prop_assert_eq!(tried.len() as u128, set.capacity());
        }
    }
}
