//! The order in which the addresses of a pool are tried: pure functions.

use std::iter;
use std::net::IpAddr;

use ipam::{Interval, RangeSet};

/// The free addresses of a pool, as far as this call knows.
#[derive(Clone, Debug)]
pub(crate) struct Choice<'p> {
    ranges: &'p RangeSet,
    sticky: Option<&'p str>,
    /// Merged; what was found taken isn't chosen again before a list says that it is free.
    taken: Vec<Interval>,
}

impl<'p> Choice<'p> {
    /// All addresses that the ranges give. With a sticky key, the search begins at the place of the
    /// key's hash, else at any place.
    pub(crate) fn new(ranges: &'p RangeSet, sticky: Option<&'p str>) -> Self {
        Self {
            ranges,
            sticky,
            taken: Vec::new(),
        }
    }

    /// Notes addresses that are taken.
    pub(crate) fn note_taken(&mut self, ips: impl IntoIterator<Item = IpAddr>) {
        let noted = ips.into_iter().filter_map(|ip| Interval::new(ip, ip));
        self.taken.extend(noted);
        self.taken = Interval::merged(std::mem::take(&mut self.taken));
    }

    /// Replaces what was noted by a list of what is taken.
    pub(crate) fn replace_taken(&mut self, ips: impl IntoIterator<Item = IpAddr>) {
        self.taken.clear();
        self.note_taken(ips);
    }

    /// Some free addresses, in the order in which they are tried.
    pub(crate) fn candidates(&self, number: usize) -> Vec<IpAddr> {
        let mut rest = self.clone();
        let next = || {
            let ip = rest.candidate()?;
            rest.note_taken([ip]);
            Some(ip)
        };
        iter::from_fn(next).take(number).collect()
    }

    /// The next address to try; `None` if all are taken.
    pub(crate) fn candidate(&self) -> Option<IpAddr> {
        match self.sticky {
            Some(key) => self.first_from(self.ranges.place_of_key(key)?),
            None => self.any(),
        }
    }

    /// The first free address from this one on, in the rotation's order.
    fn first_from(&self, place: IpAddr) -> Option<IpAddr> {
        let is_taken = |ip: IpAddr| self.taken.iter().any(|interval| interval.contains(ip));
        if !is_taken(place) {
            return Some(place);
        }
        let rotation = self.ranges.rotation(Some(place));
        let free = rotation
            .iter()
            .flat_map(|candidate| candidate.addresses.without(&self.taken));
        free.map(Interval::first).next()
    }

    /// A free address, each as likely as any other.
    fn any(&self) -> Option<IpAddr> {
        let given = self.ranges.given();
        let free: Vec<Interval> = given
            .flat_map(|interval| interval.without(&self.taken))
            .collect();
        let number = free
            .iter()
            .fold(0, |sum: u128, interval| sum.saturating_add(interval.size()));
        let index = (number > 0).then(|| fastrand::u128(..number))?;
        address_at(free, index)
    }
}

/// The address at this index of the intervals.
fn address_at(intervals: impl IntoIterator<Item = Interval>, mut index: u128) -> Option<IpAddr> {
    for interval in intervals {
        if let Some(ip) = interval.nth(index) {
            return Some(ip);
        }
        index -= interval.size();
    }
    None
}
