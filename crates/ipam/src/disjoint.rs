//! Detection of overlaps between range sets, in the time that sorting takes.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::{Interval, RangeSet};

/// Intervals that share no address, each with its owner: the index of a range, of
/// a range set or of a pool.
#[derive(Clone, Debug, Default)]
pub struct Disjoint {
    by_first: BTreeMap<IpAddr, (Interval, usize)>,
}

impl Disjoint {
    /// Adds the ranges of a set, unless they overlap with an interval that was added
    /// before.
    ///
    /// # Errors
    ///
    /// The lowest owner of the intervals that the set overlaps with; nothing is added.
    pub fn add(&mut self, set: &RangeSet, owner: usize) -> Result<(), usize> {
        let intervals = || set.ranges().iter().map(|range| range.addresses());
        let overlapping = intervals().filter_map(|interval| self.overlapping(interval));
        if let Some(earlier) = overlapping.min() {
            return Err(earlier);
        }
        intervals().for_each(|interval| self.insert(interval, owner));
        Ok(())
    }

    /// The owner of the interval that the address is in.
    pub fn owner(&self, ip: IpAddr) -> Option<usize> {
        let (_, (interval, owner)) = self.by_first.range(..=ip).next_back()?;
        interval.contains(ip).then_some(*owner)
    }

    /// The lowest owner of the intervals that this one overlaps with.
    pub(crate) fn overlapping(&self, interval: Interval) -> Option<usize> {
        // They don't overlap each other: the last one to start ends last.
        self.by_first
            .range(..=interval.last())
            .rev()
            .take_while(|(_, (other, _))| other.overlaps(interval))
            .map(|(_, (_, owner))| *owner)
            .min()
    }

    /// Adds an interval that overlaps with none.
    pub(crate) fn insert(&mut self, interval: Interval, owner: usize) {
        self.by_first.insert(interval.first(), (interval, owner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::set;
    use proptest::prelude::*;
    use std::net::Ipv4Addr;

    #[test]
    fn sets_overlap_if_some_of_their_ranges_do() {
        let mut disjoint = Disjoint::default();
        let mut add = |text: &str, owner| disjoint.add(&set(text).unwrap(), owner);
        assert_eq!(
            add("10.0.0.0/24 10.0.0.10 10.0.0.19, 10.1.0.0/24", 0),
            Ok(())
        );
        assert_eq!(add("10.1.0.0/16", 1), Err(0));
        assert_eq!(add("10.0.0.0/24 10.0.0.20 10.0.0.29", 2), Ok(()));
        assert_eq!(add("fd00::/64", 3), Ok(()));
        // The lowest of several owners, whatever the order of their addresses.
        assert_eq!(add("10.0.0.0/8", 4), Err(0));
        assert_eq!(add("10.0.0.0/24 10.0.0.20 10.0.0.20", 5), Err(2));
        assert_eq!(disjoint.owner("10.0.0.25".parse().unwrap()), Some(2));
        assert_eq!(disjoint.owner("10.0.0.30".parse().unwrap()), None);
        assert_eq!(disjoint.owner("fe00::1".parse().unwrap()), None);
    }

    proptest! {
        #[test]
        fn the_first_overlap_is_the_one_that_comparing_all_pairs_finds(
            all in proptest::collection::vec((0u32..200, 0u32..12), 0..30),
        ) {
            let all: Vec<Interval> = all
                .iter()
                .map(|(at, len)| {
                    Interval::new(Ipv4Addr::from(*at).into(), Ipv4Addr::from(at + len).into()).unwrap()
                })
                .collect();
            let mut disjoint = Disjoint::default();
            let mut kept: Vec<usize> = Vec::new();
            for (i, interval) in all.iter().enumerate() {
                let expected = kept.iter().copied().find(|j| all[*j].overlaps(*interval));
                prop_assert_eq!(disjoint.overlapping(*interval), expected);
                if expected.is_none() {
                    disjoint.insert(*interval, i);
                    kept.push(i);
                }
            }
        }
    }
}
