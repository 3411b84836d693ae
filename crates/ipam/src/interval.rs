//! Runs of consecutive addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The addresses from a first to a last one, both included, of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Interval {
    first: IpAddr,
    last: IpAddr,
}

impl Interval {
    /// `None` if `last` is before `first`, or of another family.
    pub fn new(first: IpAddr, last: IpAddr) -> Option<Self> {
        (first.is_ipv4() == last.is_ipv4() && first <= last).then_some(Self { first, last })
    }

    /// The lowest address.
    pub fn first(self) -> IpAddr {
        self.first
    }

    /// The highest address.
    pub fn last(self) -> IpAddr {
        self.last
    }

    /// Whether the address is one of these.
    pub fn contains(self, ip: IpAddr) -> bool {
        ip.is_ipv4() == self.first.is_ipv4() && (self.first..=self.last).contains(&ip)
    }

    /// Whether some address is in both.
    pub fn overlaps(self, other: Self) -> bool {
        self.contains(other.first) || other.contains(self.first)
    }

    /// How many addresses these are. All of IPv6 are one more than can be
    /// counted, and count as one less.
    pub fn size(self) -> u128 {
        (bits(self.last) - bits(self.first)).saturating_add(1)
    }

    /// The addresses, in order.
    pub fn iter(self) -> impl Iterator<Item = IpAddr> {
        (bits(self.first)..=bits(self.last)).map(move |b| address(self.first.is_ipv4(), b))
    }

    /// What comes before the address, and what comes after it.
    pub(crate) fn around(self, ip: IpAddr) -> (Option<Self>, Option<Self>) {
        if !self.contains(ip) {
            return (Some(self), None);
        }
        (
            (ip != self.first).then(|| Self {
                last: predecessor(ip),
                ..self
            }),
            (ip != self.last).then(|| Self {
                first: successor(ip),
                ..self
            }),
        )
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
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
            let (before, after) = all.around(all.first());
            assert_eq!(
                (before, after.unwrap().first()),
                (None, successor(all.first()))
            );
            let (before, after) = all.around(all.last());
            assert_eq!(
                (before.unwrap().last(), after),
                (predecessor(all.last()), None)
            );
            assert_eq!(successor(all.last()), all.first());
        }
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
        fn around_takes_out_one_address(first: u16, len in 0u32..40, at in 0u32..50) {
            let first = u32::from(first);
            let it = interval(first, first + len);
            let ip = IpAddr::from(Ipv4Addr::from(first + at));
            let (before, after) = it.around(ip);
            let left: Vec<_> = before.into_iter().chain(after).flat_map(Interval::iter).collect();
            let expected: Vec<_> = it.iter().filter(|a| *a != ip).collect();
            prop_assert_eq!(left, expected);
        }

        #[test]
        fn overlapping_is_sharing_an_address(a in 0u32..30, b in 0u32..9, c in 0u32..30, d in 0u32..9) {
            let (x, y) = (interval(a, a + b), interval(c, c + d));
            prop_assert_eq!(x.overlaps(y), x.iter().any(|ip| y.contains(ip)));
            prop_assert_eq!(x.size(), x.iter().count() as u128);
        }
    }
}
