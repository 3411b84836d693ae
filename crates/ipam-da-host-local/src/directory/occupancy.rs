//! Which addresses of a directory are reserved, and to whom, as its files say.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipam::{Holder, Interval};

/// The reservations of one directory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Occupancy {
    /// `None` where the file can't be read: somebody's, nobody knows whose.
    reserved: BTreeMap<IpAddr, Option<Holder>>,
}

impl Occupancy {
    /// Takes note of a reservation.
    pub(crate) fn insert(&mut self, ip: IpAddr, holder: Option<Holder>) {
        self.reserved.insert(ip, holder);
    }

    /// Takes note of a release.
    pub(crate) fn remove(&mut self, ip: IpAddr) {
        self.reserved.remove(&ip);
    }

    /// All reservations, lowest address first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (IpAddr, Option<&Holder>)> {
        self.reserved
            .iter()
            .map(|(ip, holder)| (*ip, holder.as_ref()))
    }

    /// The addresses that are reserved to exactly this holder.
    pub(crate) fn held_by(&self, holder: &Holder) -> Vec<IpAddr> {
        self.iter()
            .filter(|(_, h)| *h == Some(holder))
            .map(|(ip, _)| ip)
            .collect()
    }

    /// The lowest address of the interval that nobody holds.
    pub(crate) fn first_free(&self, interval: Interval) -> Option<IpAddr> {
        let mut free = interval.iter();
        let held = self
            .reserved
            .range(interval.first()..=interval.last())
            .filter(|(_, holder)| **holder != Some(Holder::Torn));
        for (ip, _) in held {
            let candidate = free.next()?;
            if candidate != *ip {
                return Some(candidate);
            }
        }
        free.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::net::Ipv4Addr;

    #[test]
    fn a_torn_reservation_is_nobodys_and_an_unreadable_one_somebodys() {
        let ip = "10.0.0.2".parse().unwrap();
        let alone = Interval::new(ip, ip).unwrap();
        let mut it = Occupancy::default();
        it.insert(ip, Some(Holder::Torn));
        assert_eq!(it.first_free(alone), Some(ip));
        it.insert(ip, None);
        assert_eq!(it.first_free(alone), None);
    }

    proptest! {
        #[test]
        fn the_first_free_address_is_free_and_the_first(
            held: BTreeSet<u8>,
            ends: (u8, u8),
        ) {
            let ip = |b: u8| IpAddr::from(Ipv4Addr::new(10, 0, 0, b));
            let (first, last) = (ends.0.min(ends.1), ends.0.max(ends.1));
            let interval = Interval::new(ip(first), ip(last)).unwrap();
            let mut it = Occupancy::default();
            for b in &held {
                it.insert(ip(*b), Some(Holder::Container("c".into())));
            }
            let expected = (first..=last).find(|b| !held.contains(b)).map(ip);
            prop_assert_eq!(it.first_free(interval), expected);
        }
    }
}
