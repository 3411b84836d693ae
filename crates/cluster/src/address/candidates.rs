//! Chooses candidate addresses of a pool, and the free one to request: pure functions.

use std::net::IpAddr;

use ipam::{Interval, RangeSet};

/// Candidate addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Candidates {
    /// The next addresses in the rotation, in its order.
    pub(crate) next: Vec<IpAddr>,
    /// Other addresses, in random order.
    pub(crate) random: Vec<IpAddr>,
}

impl Candidates {
    /// Up to `most` addresses of the pool: a third of them follow `last`, the others are random.
    /// In a small pool, all addresses follow `last`.
    pub(crate) fn of(ranges: &RangeSet, last: Option<IpAddr>, most: usize) -> Self {
        let capacity = ranges.capacity();
        let last = last.or_else(|| {
            let given: Vec<Interval> = ranges.given().collect();
            random_address(&given, capacity)
        });
        let rotation = ranges.rotation(last);
        let rotated = rotation.iter().flat_map(|range| range.addresses.iter());
        if capacity <= most as u128 {
            return Self {
                next: rotated.collect(),
                random: Vec::new(),
            };
        }
        let next: Vec<IpAddr> = rotated.take(most / 3).collect();
        let mut random = Self::at_random(ranges, most - next.len());
        random.retain(|ip| !next.contains(ip));
        Self { next, random }
    }

    /// Up to `most` addresses of the pool that follow `last`.
    pub(crate) fn next(ranges: &RangeSet, last: Option<IpAddr>, most: usize) -> Self {
        Self {
            next: next_free(ranges, &[], last, most),
            random: Vec::new(),
        }
    }

    /// Up to `most` addresses of the pool, at random, each once.
    pub(crate) fn at_random(ranges: &RangeSet, most: usize) -> Vec<IpAddr> {
        some_of(&ranges.given().collect::<Vec<_>>(), most)
    }

    /// The given addresses, all as random ones.
    pub(crate) fn only_random(ips: impl IntoIterator<Item = IpAddr>) -> Self {
        Self {
            next: Vec::new(),
            random: ips.into_iter().collect(),
        }
    }

    /// All candidates.
    pub(crate) fn all(&self) -> impl Iterator<Item = IpAddr> {
        self.next.iter().chain(&self.random).copied()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.next.is_empty() && self.random.is_empty()
    }

    /// Removes the candidates that aren't free.
    pub(crate) fn retain(&mut self, is_free: impl Fn(IpAddr) -> bool) {
        self.next.retain(|ip| is_free(*ip));
        self.random.retain(|ip| is_free(*ip));
    }

    /// Takes the address to request. In the rotation, it is one of the first half of `next`, so
    /// that the last given address comes last. If other callers request addresses as well, it is
    /// any candidate.
    pub(crate) fn take(&mut self, in_rotation: bool) -> Option<IpAddr> {
        if in_rotation && !self.next.is_empty() {
            let at = fastrand::usize(..self.next.len().div_ceil(2));
            return Some(self.next.remove(at));
        }
        // Random candidates first, because other callers request the next ones.
        let from = if self.random.is_empty() {
            &mut self.next
        } else {
            &mut self.random
        };
        let at = (!from.is_empty()).then(|| fastrand::usize(..from.len()))?;
        Some(from.swap_remove(at))
    }
}

/// Up to `most` free addresses of a pool that follow `last`. `taken` is merged.
pub(crate) fn next_free(
    ranges: &RangeSet,
    taken: &[Interval],
    last: Option<IpAddr>,
    most: usize,
) -> Vec<IpAddr> {
    let rotation = ranges.rotation(last);
    let free = rotation
        .iter()
        .flat_map(|range| range.addresses.without(taken));
    free.flat_map(Interval::iter).take(most).collect()
}

/// Up to `most` free addresses of a pool, at random. `taken` is merged.
pub(crate) fn some_free(ranges: &RangeSet, taken: &[Interval], most: usize) -> Vec<IpAddr> {
    let free = ranges.given().flat_map(|given| given.without(taken));
    some_of(&free.collect::<Vec<_>>(), most)
}

/// Up to `most` addresses of these intervals, at random, each once.
fn some_of(intervals: &[Interval], most: usize) -> Vec<IpAddr> {
    let size = size(intervals);
    if size <= most as u128 {
        return intervals
            .iter()
            .flat_map(|interval| interval.iter())
            .collect();
    }
    let mut chosen: Vec<IpAddr> = Vec::with_capacity(most);
    // Duplicates are dropped, so fewer than `most` may be returned.
    for _ in 0..most {
        if let Some(ip) = random_address(intervals, size)
            && !chosen.contains(&ip)
        {
            chosen.push(ip);
        }
    }
    chosen
}

fn size(intervals: &[Interval]) -> u128 {
    let sizes = intervals.iter().map(|interval| interval.size());
    sizes.fold(0, u128::saturating_add)
}

/// A random address of these intervals; `size` is the number of their addresses.
pub(crate) fn random_address(intervals: &[Interval], size: u128) -> Option<IpAddr> {
    (size > 0).then(|| address_at(intervals, fastrand::u128(..size)))?
}

/// The address at this index of the intervals.
pub(crate) fn address_at(intervals: &[Interval], mut at: u128) -> Option<IpAddr> {
    for interval in intervals {
        if let Some(ip) = interval.nth(at) {
            return Some(ip);
        }
        at -= interval.size();
    }
    None
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use proptest::prelude::*;

    fn ranges(json: &str) -> RangeSet {
        let object = serde_json::from_str(json).unwrap();
        ipam::Pool::read("pool", object).unwrap().ranges
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn merged(ips: &[IpAddr]) -> Vec<Interval> {
        let each = ips.iter().map(|ip| Interval::new(*ip, *ip).unwrap());
        Interval::merged(each.collect())
    }

    #[test]
    fn all_addresses_of_a_small_pool_are_candidates_and_the_last_given_comes_last() {
        let found = Candidates::of(
            &ranges(r#"{"subnet":"10.0.0.0/29"}"#),
            Some(ip("10.0.0.4")),
            96,
        );
        let texts: Vec<String> = found.all().map(|ip| ip.to_string()).collect();
        assert_eq!(
            texts,
            ["10.0.0.5", "10.0.0.6", "10.0.0.2", "10.0.0.3", "10.0.0.4"]
        );
    }

    #[test]
    fn the_last_given_address_is_not_given_next() {
        let ranges = ranges(r#"{"subnet":"10.0.0.0/29"}"#);
        for _ in 0..200 {
            let mut found = Candidates::of(&ranges, Some(ip("10.0.0.4")), 96);
            assert_ne!(found.take(true), Some(ip("10.0.0.4")));
        }
    }

    #[test]
    fn candidates_of_a_large_pool_are_next_in_the_rotation_or_random() {
        for subnet in ["10.0.0.0/8", "fd00::/64"] {
            let ranges = ranges(&format!(r#"{{"subnet":"{subnet}"}}"#));
            let found = Candidates::of(&ranges, None, 96);
            assert_eq!(found.next.len(), 32);
            assert!((33..=64).contains(&found.random.len()));
            assert!(found.all().all(|ip| ranges.gives(ip)));
        }
    }

    #[test]
    fn free_addresses_follow_the_last_one() {
        let ranges = ranges(r#"{"subnet":"10.0.0.0/29","gateway":"10.0.0.1"}"#);
        let last = ip("10.0.0.5");
        let taken = merged(&[ip("10.0.0.6")]);
        let next = next_free(&ranges, &taken, Some(last), 3);
        let expected: [IpAddr; 3] =
            ["10.0.0.2", "10.0.0.3", "10.0.0.4"].map(|ip| ip.parse().unwrap());
        assert_eq!(next, expected);
        assert_eq!(next_free(&ranges, &taken, Some(last), 9)[3], last);
    }

    #[test]
    fn the_last_free_address_is_found() {
        let ranges = ranges(r#"{"subnet":"10.1.0.0/16"}"#);
        let mut taken: Vec<IpAddr> = ranges.given().flat_map(Interval::iter).collect();
        assert_eq!(taken.len(), 65_533);
        let last = taken.remove(40_000);
        assert_eq!(some_free(&ranges, &merged(&taken), 96), [last]);
        assert_eq!(
            next_free(&ranges, &merged(&taken), Some(taken[9]), 96),
            [last]
        );
        assert_eq!(random_address(&[], 0), None);
        taken.insert(40_000, last);
        assert!(some_free(&ranges, &merged(&taken), 96).is_empty());
    }

    proptest! {
        #[test]
        fn free_addresses_are_given_ones_that_nobody_has(
            taken in proptest::collection::btree_set(0u8..40, 0..40),
            excluded in 0u8..40,
            most in 1usize..50,
        ) {
            let json = format!(r#"{{"subnet":"10.0.0.0/27","exclude":["10.0.0.{excluded}"]}}"#);
            let ranges = ranges(&json);
            let taken: Vec<IpAddr> = taken.iter().map(|n| IpAddr::from([10, 0, 0, *n])).collect();
            let free = some_free(&ranges, &merged(&taken), most);
            let expected = (0..32u8)
                .map(|n| IpAddr::from([10, 0, 0, n]))
                .filter(|ip| ranges.gives(*ip) && !taken.contains(ip))
                .count();
            prop_assert!(free.iter().all(|ip| ranges.gives(*ip) && !taken.contains(ip)));
            let distinct: BTreeSet<&IpAddr> = free.iter().collect();
            prop_assert_eq!(distinct.len(), free.len());
            prop_assert_eq!(free.is_empty(), expected == 0);
            if most >= expected {
                prop_assert_eq!(free.len(), expected);
            }
        }
    }
}
