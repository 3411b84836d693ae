//! An interval of consecutive addresses, and arithmetic on them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use derive_more::Display;
use ipnet::IpNet;

/// The addresses from a first to a last one, both included, of one family.
///
/// Kept as numbers, so that thousands of them are compared quickly.
#[derive(Clone, Copy, Debug, Display, PartialEq, Eq, Hash)]
#[display("{}-{}", self.first(), self.last())]
pub struct Interval {
    v4: bool,
    first: u128,
    last: u128,
}

impl Interval {
    /// `None` if `last` is before `first`, or of another family.
    pub fn new(first: IpAddr, last: IpAddr) -> Option<Self> {
        let v4 = first.is_ipv4();
        let interval = Self {
            v4,
            first: bits(first),
            last: bits(last),
        };
        (v4 == last.is_ipv4() && interval.first <= interval.last).then_some(interval)
    }

    /// The lowest address.
    pub fn first(self) -> IpAddr {
        address(self.v4, self.first)
    }

    /// The highest address.
    pub fn last(self) -> IpAddr {
        address(self.v4, self.last)
    }

    /// True if the address is one of these.
    pub fn contains(self, ip: IpAddr) -> bool {
        ip.is_ipv4() == self.v4 && (self.first..=self.last).contains(&bits(ip))
    }

    /// True if some address is in both.
    pub fn overlaps(self, other: Self) -> bool {
        self.v4 == other.v4 && self.first <= other.last && other.first <= self.last
    }

    /// Number of addresses. That of the whole of IPv6 exceeds `u128` by one and is given
    /// as `u128::MAX`.
    pub fn size(self) -> u128 {
        (self.last - self.first).saturating_add(1)
    }

    /// Number of addresses of several intervals, which don't overlap.
    pub(crate) fn total<'a>(intervals: impl Iterator<Item = &'a Self>) -> u128 {
        intervals.fold(0, |sum, interval| sum.saturating_add(interval.size()))
    }

    /// The addresses, in order.
    pub fn iter(self) -> impl Iterator<Item = IpAddr> {
        (self.first..=self.last).map(move |bits| address(self.v4, bits))
    }

    /// The addresses that are in both.
    pub fn intersection(self, other: Self) -> Option<Self> {
        self.overlaps(other).then(|| Self {
            v4: self.v4,
            first: self.first.max(other.first),
            last: self.last.min(other.last),
        })
    }

    /// The addresses after `ip`, which is of this family; `ip` itself not included.
    pub fn after(self, ip: IpAddr) -> Option<Self> {
        self.behind(bits(ip))
    }

    fn until(self, end: u128) -> Option<Self> {
        (self.first < end).then(|| Self {
            last: self.last.min(end - 1),
            ..self
        })
    }

    fn behind(self, start: u128) -> Option<Self> {
        (start < self.last).then(|| Self {
            first: self.first.max(start + 1),
            ..self
        })
    }

    /// The address so many after the lowest; `None` behind the highest.
    pub fn nth(self, n: u128) -> Option<IpAddr> {
        let bits = self
            .first
            .checked_add(n)
            .filter(|bits| *bits <= self.last)?;
        Some(address(self.v4, bits))
    }

    /// The address with so many of these intervals' before it; `None` behind the last one.
    pub fn nth_of(intervals: impl IntoIterator<Item = Self>, mut n: u128) -> Option<IpAddr> {
        for interval in intervals {
            if let Some(ip) = interval.nth(n) {
                return Some(ip);
            }
            n -= interval.size();
        }
        None
    }

    /// The addresses that are in none of `holes`, which are in ascending order and
    /// don't overlap.
    pub fn without(self, holes: &[Self]) -> Vec<Self> {
        let mut left = Vec::with_capacity(holes.len() + 1);
        let mut rest = Some(self);
        for hole in holes.iter().filter(|hole| hole.overlaps(self)) {
            left.extend(rest.and_then(|rest| rest.until(hole.first)));
            rest = rest.and_then(|rest| rest.behind(hole.last));
        }
        left.extend(rest);
        left
    }

    /// The same addresses in ascending order, and as few intervals as possible.
    pub fn merged(mut intervals: Vec<Self>) -> Vec<Self> {
        // Most lists are written in order.
        if !intervals.is_sorted_by_key(|interval| interval.order()) {
            intervals.sort_unstable_by_key(|interval| interval.order());
        }
        let mut merged: Vec<Self> = Vec::with_capacity(intervals.len());
        for next in intervals {
            match merged.last_mut() {
                // It starts within the last one, or right after it.
                Some(last) if last.v4 == next.v4 && next.first <= last.last.saturating_add(1) => {
                    last.last = last.last.max(next.last);
                }
                _ => merged.push(next),
            }
        }
        merged
    }

    /// IPv4 first, then by the lowest address, as `IpAddr` is ordered.
    fn order(&self) -> (bool, u128) {
        (!self.v4, self.first)
    }

    /// The same addresses, read beside addresses of a family ([`in_family`]).
    pub(crate) fn in_family(self, v4: bool) -> Option<Self> {
        if self.v4 == v4 {
            return Some(self);
        }
        Self::new(in_family(v4, self.first()), in_family(v4, self.last()))
    }
}

impl From<IpNet> for Interval {
    /// All addresses of a subnet, those of the network and of broadcasts included.
    fn from(subnet: IpNet) -> Self {
        Self {
            v4: subnet.addr().is_ipv4(),
            first: bits(subnet.network()),
            last: bits(subnet.broadcast()),
        }
    }
}

/// The address, read beside addresses of a family: an IPv4 address that is written
/// as IPv6 (`::ffff:10.0.0.1`) is an IPv4 address beside IPv4, and stays an IPv6
/// address beside IPv6.
pub fn in_family(v4: bool, ip: IpAddr) -> IpAddr {
    if v4 { ip.to_canonical() } else { ip }
}

/// The address as a number.
pub(crate) fn bits(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(v4) => v4.to_bits().into(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// The address of a number; wraps around in IPv4's 32 bits.
fn address(v4: bool, bits: u128) -> IpAddr {
    if v4 {
        #[expect(clippy::cast_possible_truncation, reason = "IPv4 has 32 bits")]
        Ipv4Addr::from_bits(bits as u32).into()
    } else {
        Ipv6Addr::from_bits(bits).into()
    }
}

/// The next address; the lowest after the highest.
pub(crate) fn successor(ip: IpAddr) -> IpAddr {
    address(ip.is_ipv4(), bits(ip).wrapping_add(1))
}

/// The address before; the highest before the lowest.
pub(crate) fn predecessor(ip: IpAddr) -> IpAddr {
    address(ip.is_ipv4(), bits(ip).wrapping_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn interval(first: u32, last: u32) -> Interval {
        Interval::new(Ipv4Addr::from(first).into(), Ipv4Addr::from(last).into()).unwrap()
    }

    #[test]
    fn the_ends_of_both_families_are_addresses_like_others() {
        for all in [
            "0.0.0.0-255.255.255.255",
            "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        ] {
            let (first, last) = all.split_once('-').unwrap();
            let all = Interval::new(first.parse().unwrap(), last.parse().unwrap()).unwrap();
            assert_eq!(all.after(all.last()), None);
            let ends = [all.first(), all.last()].map(|ip| Interval::new(ip, ip).unwrap());
            let [inner] = all.without(&ends)[..] else {
                panic!("{all}")
            };
            assert_eq!(inner.first(), successor(all.first()));
            assert_eq!(inner.last(), predecessor(all.last()));
            assert_eq!(successor(all.last()), all.first());
            assert_eq!(all.without(&[all]), []);
            assert_eq!(Interval::merged(vec![all, inner, all]), [all]);
        }
    }

    #[test]
    fn addresses_are_counted_from_the_lowest() {
        let two = interval(5, 6);
        let nth = [0, 1, 2, u128::MAX].map(|n| two.nth(n));
        assert_eq!(nth, [Some(two.first()), Some(two.last()), None, None]);
    }

    #[test]
    fn ipv4_comes_first() {
        let [v4, v6] = ["10.0.0.1", "::1"].map(|ip| {
            let ip = ip.parse().unwrap();
            Interval::new(ip, ip).unwrap()
        });
        assert_eq!(Interval::merged(vec![v6, v4]), [v4, v6]);
    }

    #[test]
    fn an_interval_has_one_family_and_a_direction() {
        let (one, two) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        assert!(Interval::new(two, one).is_none());
        assert!(Interval::new(one, "::1".parse().unwrap()).is_none());
        assert!(
            !Interval::new(one, two)
                .unwrap()
                .contains("::1".parse().unwrap())
        );
    }

    proptest! {
        #[test]
        fn without_holes_the_other_addresses_are_left(
            (first, len) in (10u32..40, 0u32..30),
            holes in proptest::collection::vec((0u32..80, 0u32..6), 0..6),
        ) {
            let tested = interval(first, first + len);
            let holes: Vec<Interval> = holes.iter().map(|(at, len)| interval(*at, at + len)).collect();
            let left = tested.without(&Interval::merged(holes.clone()));
            let got: Vec<_> = left.iter().flat_map(|part| part.iter()).collect();
            let expected: Vec<_> = tested
                .iter()
                .filter(|ip| !holes.iter().any(|hole| hole.contains(*ip)))
                .collect();
            prop_assert_eq!(got, expected);
        }

        #[test]
        fn merging_keeps_every_address_and_leaves_gaps_between_intervals(
            all in proptest::collection::vec((0u32..60, 0u32..9), 0..9),
        ) {
            let all: Vec<Interval> = all.iter().map(|(at, len)| interval(*at, at + len)).collect();
            let merged = Interval::merged(all.clone());
            let mut expected: Vec<_> = all.iter().flat_map(|interval| interval.iter()).collect();
            expected.sort_unstable();
            expected.dedup();
            prop_assert_eq!(merged.iter().flat_map(|interval| interval.iter()).collect::<Vec<_>>(), expected);
            for pair in merged.windows(2) {
                prop_assert!(successor(pair[0].last()) < pair[1].first());
            }
        }

        #[test]
        fn overlapping_is_sharing_an_address(a in 0u32..30, b in 0u32..9, c in 0u32..30, d in 0u32..9) {
            let (x, y) = (interval(a, a + b), interval(c, c + d));
            let shared: Vec<_> = x.iter().filter(|ip| y.contains(*ip)).collect();
            prop_assert_eq!(x.overlaps(y), !shared.is_empty());
            prop_assert_eq!(x.intersection(y).into_iter().flat_map(Interval::iter).collect::<Vec<_>>(), shared);
            prop_assert_eq!(x.size(), x.iter().count() as u128);
        }
    }
}
