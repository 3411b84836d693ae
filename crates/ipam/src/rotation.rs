//! The order in which a range set's addresses are tried: round robin from the one given last,
//! or from the place of a sticky key.

use std::net::IpAddr;

use crate::interval::predecessor;
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
        let up_to = |part: &Interval| Interval::new(part.first(), part.last().min(ip));
        let up_to_last = range.given().iter().filter_map(up_to);
        let candidate = |addresses| Candidate { addresses, range };
        after_last
            .map(candidate)
            .chain(ranges[index + 1..].iter().flat_map(whole))
            .chain(ranges[..index].iter().flat_map(whole))
            .chain(up_to_last.map(candidate))
            .collect()
    }

    /// Every address of the set once, as in [`Self::rotation`], beginning at the place of a
    /// sticky key. The place depends only on the key and the set, so it is the same on every
    /// node and in every version.
    pub fn rotation_of_key(&self, key: &str) -> Vec<Candidate<'_>> {
        let Some(first) = self.place_of_key(key) else {
            return Vec::new();
        };
        let mut candidates = self.rotation(Some(first));
        // The rotation ends with the address that it begins after.
        let Some(last) = candidates.pop() else {
            return Vec::new();
        };
        let part = |start, end| {
            let addresses = Interval::new(start, end)?;
            Some(Candidate { addresses, ..last })
        };
        let begin = part(first, first).into_iter();
        let rest = part(last.addresses.first(), predecessor(first));
        begin.chain(candidates).chain(rest).collect()
    }

    /// The address at which the search for a sticky key begins; `None` if the set gives none.
    pub(crate) fn place_of_key(&self, key: &str) -> Option<IpAddr> {
        let place = u128::from(hash(key)).checked_rem(self.capacity())?;
        Interval::nth_of(self.given(), place)
    }
}

/// The first of the candidates that isn't taken. `taken` may be in any order, and is sorted.
pub fn first_free<'a>(
    candidates: &[Candidate<'a>],
    taken: &mut [IpAddr],
) -> Option<(IpAddr, &'a Range)> {
    taken.sort_unstable();
    let is_free = |ip: &IpAddr| taken.binary_search(ip).is_err();
    candidates.iter().find_map(|candidate| {
        let Candidate { addresses, range } = *candidate;
        Some((addresses.iter().find(is_free)?, range))
    })
}

/// FNV-1a, 64 bits: the same in every build, which the standard library's hashes are not.
fn hash(key: &str) -> u64 {
    key.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// All candidates of a range.
fn whole(range: &Range) -> impl Iterator<Item = Candidate<'_>> {
    let candidate = move |addresses: &Interval| Candidate {
        addresses: *addresses,
        range,
    };
    range.given().iter().map(candidate)
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
    fn a_sticky_keys_place_never_changes() {
        let place = |set_of: &str, key: &str| {
            let place = set(set_of).unwrap().place_of_key(key);
            place.map(|ip| ip.to_string())
        };
        // Published test vectors of FNV-1a: "a" is 0xaf63dc4c8601ec8c, "foobar" 0x85944171f73967e8.
        assert_eq!(hash("a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(hash("foobar"), 0x8594_4171_f739_67e8);
        assert_eq!(place("10.0.0.0/16", "foobar").unwrap(), "10.0.177.99");
        assert_eq!(
            place("fd00::/64", "a").unwrap(),
            "fd00::af63:dc4c:8601:ec8e"
        );
        assert_eq!(place("10.0.0.0/29 - - - 10.0.0.0/29", "a"), None);
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
        #[test]
        fn a_sticky_key_begins_at_its_place_and_goes_round(
            key in "[a-z/0-9-]{1,12}",
            sizes in proptest::collection::vec((1u8..20, 0u8..25), 1..4),
        ) {
            let text: Vec<String> = sizes
                .iter()
                .enumerate()
                .map(|(i, (size, gateway))| {
                    format!("10.0.{i}.0/24 10.0.{i}.3 10.0.{i}.{} 10.0.{i}.{gateway}", 3 + size)
                })
                .collect();
            let set = set(&text.join(", ")).unwrap();
            let all = order(&set, None);
            let of_key: Vec<String> = set
                .rotation_of_key(&key)
                .iter()
                .flat_map(|candidate| candidate.addresses.iter())
                .map(|ip| ip.to_string())
                .collect();
            let first = set.place_of_key(&key).map(|ip| ip.to_string());
            let at = all.iter().position(|ip| Some(ip) == first.as_ref()).unwrap_or_default();
            let expected: Vec<String> = all[at..].iter().chain(&all[..at]).cloned().collect();
            prop_assert_eq!(of_key, expected);
        }

        #[test]
        fn the_first_free_address_is_the_first_that_is_not_among_the_taken(
            taken in proptest::collection::vec(0u8..16, 0..40),
            last in 0u8..16,
        ) {
            let set = set("10.0.0.0/29, 10.0.0.8/29 - - - 10.0.0.11").unwrap();
            let candidates = set.rotation(Some(IpAddr::from([10, 0, 0, last])));
            let mut taken: Vec<IpAddr> = taken.iter().map(|n| [10, 0, 0, *n].into()).collect();
            let expected = candidates
                .iter()
                .flat_map(|candidate| candidate.addresses.iter())
                .find(|ip| !taken.contains(ip));
            let found = first_free(&candidates, &mut taken).map(|(ip, _)| ip);
            prop_assert_eq!(found, expected);
        }

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
                    let never = move |ip| Some(ip) == range.gateway() || range.excluded()[..].iter().any(|hole| hole.contains(ip));
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
