//! Reservations of one directory, as its files say: all of them, in memory.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipam::Interval;

use crate::directory::State;

/// The reservations of one directory.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReservationList {
    states: BTreeMap<IpAddr, State>,
}

impl ReservationList {
    /// Takes note of an address's state.
    pub(crate) fn insert(&mut self, ip: IpAddr, state: State) {
        self.states.insert(ip, state);
    }

    /// Takes note of a release.
    pub(crate) fn remove(&mut self, ip: IpAddr) {
        self.states.remove(&ip);
    }

    /// All addresses that have a file, lowest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (IpAddr, &State)> {
        self.states.iter().map(|(ip, state)| (*ip, state))
    }

    /// The addresses that are reserved to this container.
    pub(crate) fn of_container(&self, container_id: &str) -> Vec<IpAddr> {
        let is_its =
            |state: &State| matches!(state, State::Reserved(it) if it.container_id == container_id);
        let its = self.iter().filter(|(_, state)| is_its(state));
        its.map(|(ip, _)| ip).collect()
    }

    /// The lowest free address of the interval.
    pub(crate) fn first_free(&self, interval: Interval) -> Option<IpAddr> {
        let mut candidates = interval.iter();
        let taken = self
            .states
            .range(interval.first()..=interval.last())
            .filter(|(_, state)| **state != State::Torn);
        for (ip, _) in taken {
            let candidate = candidates.next()?;
            if candidate != *ip {
                return Some(candidate);
            }
        }
        candidates.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::net::Ipv4Addr;

    #[test]
    fn only_a_torn_reservation_is_free() {
        let ip = "10.0.0.2".parse().unwrap();
        let alone = Interval::new(ip, ip).unwrap();
        let mut it = ReservationList::default();
        for (state, free) in [
            (State::Torn, Some(ip)),
            (State::Unreadable, None),
            (State::BeingWritten, None),
        ] {
            it.insert(ip, state);
            assert_eq!(it.first_free(alone), free);
        }
    }

    proptest! {
        #[test]
        fn the_first_free_address_is_free_and_the_first(
            taken: BTreeSet<u8>,
            ends: (u8, u8),
        ) {
            let ip = |b: u8| IpAddr::from(Ipv4Addr::new(10, 0, 0, b));
            let (first, last) = (ends.0.min(ends.1), ends.0.max(ends.1));
            let interval = Interval::new(ip(first), ip(last)).unwrap();
            let mut it = ReservationList::default();
            for b in &taken {
                it.insert(ip(*b), State::Unreadable);
            }
            let expected = (first..=last).find(|b| !taken.contains(b)).map(ip);
            prop_assert_eq!(it.first_free(interval), expected);
        }
    }
}
