//! The order in which the addresses of a pool are tried. Nothing here asks the store.

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

    /// The next addresses to try, at most this number, in this order; none if all are taken.
    pub(crate) fn candidates(&self, number: usize) -> Vec<IpAddr> {
        let Some(key) = self.sticky else {
            return self.any(number);
        };
        let rotation = self.ranges.rotation_of_key(key).into_iter();
        let free = rotation.flat_map(|candidate| candidate.addresses.without(&self.taken));
        free.flat_map(|free| free.iter()).take(number).collect()
    }

    /// Some free addresses, each as likely as any other.
    fn any(&self, number: usize) -> Vec<IpAddr> {
        let given = self.ranges.given();
        let free = given.flat_map(|interval| interval.without(&self.taken));
        let free: Vec<Interval> = free.collect();
        let sizes = free.iter().map(|interval| interval.size());
        let size = sizes.fold(0, u128::saturating_add);
        let mut chosen = Vec::new();
        while (chosen.len() as u128) < size.min(number as u128) {
            let ip = Interval::nth_of(free.iter().copied(), fastrand::u128(..size));
            chosen.extend(ip.filter(|ip| !chosen.contains(ip)));
        }
        chosen
    }
}
