//! Which addresses of a directory are reserved, and to whom.

use std::collections::BTreeMap;
use std::net::IpAddr;

use cni::Attachment;
use ipam::{Holder, Interval, RangeSet};

/// The reservations of one directory, as they were when it was read.
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

    /// All reservations, lowest address first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (IpAddr, Option<&Holder>)> {
        self.reserved
            .iter()
            .map(|(ip, holder)| (*ip, holder.as_ref()))
    }

    /// What an attachment holds: the addresses that are reserved to it, or,
    /// if there are none, those that an old host-local reserved to its container
    /// without an interface.
    pub(crate) fn of(&self, attachment: &Attachment) -> Vec<IpAddr> {
        let Attachment {
            container_id,
            ifname,
        } = attachment;
        let exact = self.matching(|h| h.is_attachment(container_id.as_str(), ifname.as_str()));
        if exact.is_empty() {
            self.matching(|h| h.is_container(container_id.as_str()))
        } else {
            exact
        }
    }

    /// An address of these ranges that the attachment or its container holds.
    pub(crate) fn holds_one_of(
        &self,
        attachment: &Attachment,
        ranges: &RangeSet,
    ) -> Option<IpAddr> {
        let Attachment {
            container_id,
            ifname,
        } = attachment;
        self.matching(|h| {
            h.is_attachment(container_id.as_str(), ifname.as_str())
                || h.is_container(container_id.as_str())
        })
        .into_iter()
        .find(|ip| ranges.contains(*ip))
    }

    fn matching(&self, matches: impl Fn(&Holder) -> bool) -> Vec<IpAddr> {
        self.iter()
            .filter(|(_, holder)| holder.is_some_and(&matches))
            .map(|(ip, _)| ip)
            .collect()
    }

    /// The lowest address of the interval that nobody holds.
    pub(crate) fn first_free(&self, interval: Interval) -> Option<IpAddr> {
        let mut free = interval.iter();
        for ip in self.held(interval) {
            let candidate = free.next()?;
            if candidate != ip {
                return Some(candidate);
            }
        }
        free.next()
    }

    /// How many addresses of the interval somebody holds.
    pub(crate) fn count(&self, interval: Interval) -> u128 {
        self.held(interval).count() as u128
    }

    fn held(&self, interval: Interval) -> impl Iterator<Item = IpAddr> {
        self.reserved
            .range(interval.first()..=interval.last())
            .filter(|(_, holder)| **holder != Some(Holder::Torn))
            .map(|(ip, _)| *ip)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::net::Ipv4Addr;

    fn attachment(container_id: &str, ifname: &str) -> Attachment {
        Attachment {
            container_id: container_id.parse().unwrap(),
            ifname: ifname.parse().unwrap(),
        }
    }

    fn occupancy(reservations: &[(&str, &str)]) -> Occupancy {
        let mut it = Occupancy::default();
        for (ip, content) in reservations {
            it.insert(ip.parse().unwrap(), Some(Holder::parse(content.as_bytes())));
        }
        it
    }

    fn of(it: &Occupancy, container_id: &str, ifname: &str) -> Vec<String> {
        it.of(&attachment(container_id, ifname))
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn a_containers_old_reservations_count_where_the_interface_has_none() {
        let it = occupancy(&[
            ("10.0.0.2", "c1\r\neth0"),
            ("10.0.0.3", "c1"),
            ("10.0.0.4", "c2\r\neth0"),
        ]);
        assert_eq!(of(&it, "c1", "eth0"), ["10.0.0.2"]);
        assert_eq!(of(&it, "c1", "eth1"), ["10.0.0.3"]);
        assert!(of(&it, "c", "eth0").is_empty());
    }

    #[test]
    fn a_torn_reservation_is_nobodys() {
        let it = occupancy(&[("10.0.0.2", ""), ("10.0.0.3", "c1\r\neth0")]);
        let all = Interval::new("10.0.0.2".parse().unwrap(), "10.0.0.3".parse().unwrap()).unwrap();
        assert_eq!(it.first_free(all), Some(all.first()));
        assert_eq!(it.count(all), 1);
    }

    #[test]
    fn a_reservation_that_cant_be_read_is_somebodys() {
        let mut it = Occupancy::default();
        let ip = "10.0.0.2".parse().unwrap();
        it.insert(ip, None);
        assert_eq!(it.first_free(Interval::new(ip, ip).unwrap()), None);
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
            prop_assert_eq!(it.count(interval), held.range(first..=last).count() as u128);
        }
    }
}
