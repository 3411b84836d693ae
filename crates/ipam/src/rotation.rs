//! The order in which a range set's addresses are tried: round robin from the one
//! given last.

use std::net::IpAddr;

use crate::{Interval, Range, RangeSet};

/// Addresses to try, lowest first, and the range that they are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate<'a> {
    /// The addresses: neither the gateway nor excluded ones.
    pub addresses: Interval,
    /// The range that they are of.
    pub range: &'a Range,
}

impl RangeSet {
    /// Every address of the set once, without gateways and excluded addresses: from
    /// the one after `last` to the end of its range, through the other ranges, and
    /// from the start of that range to `last` itself. From the start of the first
    /// range, if `last` is none of the set's.
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
        let Some((index, ip)) = start else {
            return ranges.iter().flat_map(whole).collect();
        };
        let range = &ranges[index];
        let after_last = range.given().iter().filter_map(|part| part.after(ip));
        let up_to_last = range.given().iter().filter_map(|part| up_to(*part, ip));
        let candidate = |addresses| Candidate { addresses, range };
        after_last
            .map(candidate)
            .chain(ranges[index + 1..].iter().flat_map(whole))
            .chain(ranges[..index].iter().flat_map(whole))
            .chain(up_to_last.map(candidate))
            .collect()
    }
}

/// All candidates of a range.
fn whole(range: &Range) -> impl Iterator<Item = Candidate<'_>> {
    let candidate = move |addresses: &Interval| Candidate {
        addresses: *addresses,
        range,
    };
    range.given().iter().map(candidate)
}

/// The addresses that aren't after `ip`.
fn up_to(part: Interval, ip: IpAddr) -> Option<Interval> {
    Interval::new(part.first(), part.last().min(ip))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::set;
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

    #[test]
    fn what_is_excluded_is_passed_over_even_after_it_was_requested() {
        let set = set("10.0.0.0/29 - - - 10.0.0.3 10.0.0.5-10.0.0.6").unwrap();
        assert_eq!(order(&set, None), ["10.0.0.2", "10.0.0.4"]);
        assert_eq!(order(&set, Some("10.0.0.3")), ["10.0.0.4", "10.0.0.2"]);
        assert_eq!(order(&set, Some("10.0.0.6")), ["10.0.0.2", "10.0.0.4"]);
    }

    proptest! {
        /// The order is said as host-local's iterator has it, one address at a time:
        /// the next one of the range or the first one of the next range, until it
        /// has come round.
        #[test]
        fn each_address_is_followed_by_the_next_one_in_a_circle(
            sizes in proptest::collection::vec((1u8..20, 0u8..25, 0u8..25), 1..5),
            last in (0u8..5, 0u8..30),
        ) {
            let text: Vec<String> = sizes
                .iter()
                .enumerate()
                .map(|(i, (size, gateway, excluded))| {
                    format!("10.0.{i}.0/24 10.0.{i}.3 10.0.{i}.{} 10.0.{i}.{gateway} 10.0.{i}.{excluded}", 3 + size)
                })
                .collect();
            let set = set(&text.join(", ")).unwrap();
            let all: Vec<(IpAddr, bool)> = set
                .ranges()
                .iter()
                .flat_map(|range| {
                    let never = move |ip| ip == range.gateway() || range.excluded()[..].iter().any(|hole| hole.contains(ip));
                    range.addresses().iter().map(move |ip| (ip, !never(ip)))
                })
                .collect();
            let last = format!("10.0.{}.{}", last.0, last.1);
            let at = all.iter().position(|(ip, _)| ip.to_string() == last);
            let turned = at.map_or(0, |at| at + 1);
            let expected: Vec<String> = all[turned..]
                .iter()
                .chain(&all[..turned])
                .filter(|(_, given)| *given)
                .map(|(ip, _)| ip.to_string())
                .collect();
            prop_assert_eq!(&order(&set, Some(&last)), &expected);
            prop_assert_eq!(expected.len() as u128, set.capacity());
        }
    }
}
