//! Finds addresses that two pools give out of separate directories. Two pools with different spaces may.

use std::collections::BTreeMap;

use ipam::Interval;

use crate::check::conflist_check::{CheckedConflist, ConflistCheck};

/// A pool: the index of its conflist, and its own in this conflist.
type PoolIndex = (usize, usize);

/// For each pool, another one that overlaps it and has other reservations, and the shared addresses.
type Overlaps = BTreeMap<PoolIndex, (Interval, PoolIndex)>;

/// The overlaps of all pools.
pub(super) fn overlapping_pools(all: &[CheckedConflist<'_>]) -> Overlaps {
    let mut ranges: Vec<(Interval, PoolIndex)> = Vec::new();
    for (conflist, checked) in all.iter().enumerate() {
        for (pool, placed) in checked.pools.all.iter().enumerate() {
            let own_ranges = placed.pool.ranges.ranges().iter();
            ranges.extend(own_ranges.map(|range| (range.addresses(), (conflist, pool))));
        }
    }
    ranges.sort_by_key(|(interval, _)| interval.first());
    let placed = |(conflist, pool): PoolIndex| &all[conflist].pools.all[pool];
    let mut overlaps = Overlaps::new();
    for (i, (interval, pool)) in ranges.iter().enumerate() {
        let following = ranges[i + 1..].iter();
        let overlapping = following.take_while(|(other, _)| other.first() <= interval.last());
        for (other, other_pool) in overlapping {
            let is_known = overlaps.contains_key(pool) && overlaps.contains_key(other_pool);
            let both = [*pool, *other_pool].map(placed);
            let is_one_directory = both[0].directory == both[1].directory;
            // Networks that never meet may use the same addresses: each pool names a space then, and
            // not the same one.
            let have_spaces = both.iter().all(|placed| placed.pool.space.is_some());
            let are_apart = have_spaces && both[0].pool.space != both[1].pool.space;
            if is_known || is_one_directory || are_apart {
                continue;
            }
            if let Some(both) = interval.intersection(*other) {
                overlaps.entry(*pool).or_insert((both, *other_pool));
                overlaps.entry(*other_pool).or_insert((both, *pool));
            }
        }
    }
    overlaps
}

impl ConflistCheck<'_> {
    pub(super) fn check_overlaps(&mut self, overlaps: &Overlaps) {
        for (i, pool) in self.checked.pools.all.iter().enumerate() {
            if let Some((both, (conflist, theirs))) = overlaps.get(&(self.index, i)) {
                let other = &self.all[*conflist];
                let (theirs, file) = (&other.pools.all[*theirs], other.conflist.file.display());
                let shared = format!("{both} is in {theirs} in {file}, too");
                let instead = "ranges that don't overlap, or one named pool for both networks";
                let problem = format!("{shared}; each address would be given twice");
                self.error(&pool.key_in_conflist(), problem, instead);
            }
        }
    }
}
