//! An interval tree of the ranges of all pools: finds overlaps without comparing all pairs.

use std::net::IpAddr;
use std::ops::ControlFlow;

use ipam::Interval;

use crate::check::checked::Checked;

/// A range of a pool.
struct Entry {
    addresses: Interval,
    /// The number of its conflist.
    conflist: usize,
    /// The number of its pool in this conflist.
    pool: usize,
}

/// All ranges, as a binary tree: the middle one of a slice is its root.
pub(crate) struct RangeIndex {
    /// In the order of their first addresses.
    entries: Vec<Entry>,
    /// The last address of the ranges in the subtree that has this root.
    last: Vec<IpAddr>,
}

impl RangeIndex {
    pub(crate) fn of(all: &[Checked<'_>]) -> Self {
        let mut entries: Vec<Entry> = Vec::new();
        for (conflist, checked) in all.iter().enumerate() {
            for (pool, placed) in checked.pools.iter().enumerate() {
                let ranges = placed.pool.ranges.ranges().iter();
                entries.extend(ranges.map(|range| Entry {
                    addresses: range.addresses(),
                    conflist,
                    pool,
                }));
            }
        }
        entries.sort_by_key(|entry| entry.addresses.first());
        let mut index = Self {
            last: entries.iter().map(|entry| entry.addresses.last()).collect(),
            entries,
        };
        index.fill(0, index.entries.len());
        index
    }

    fn fill(&mut self, from: usize, to: usize) -> Option<IpAddr> {
        if from == to {
            return None;
        }
        let root = usize::midpoint(from, to);
        let below = [self.fill(from, root), self.fill(root + 1, to)];
        let last = below.into_iter().flatten().chain([self.last[root]]).max()?;
        self.last[root] = last;
        Some(last)
    }

    /// Hands what these addresses share with each range that overlaps them to `f`, in the order
    /// of the ranges, with the numbers of its conflist and its pool, until `f` breaks.
    pub(crate) fn overlapping(
        &self,
        addresses: Interval,
        mut f: impl FnMut(Interval, usize, usize) -> ControlFlow<()>,
    ) {
        let _ = self.visit(0, self.entries.len(), addresses, &mut f);
    }

    fn visit(
        &self,
        from: usize,
        to: usize,
        addresses: Interval,
        f: &mut impl FnMut(Interval, usize, usize) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let root = usize::midpoint(from, to);
        if from == to || self.last[root] < addresses.first() {
            return ControlFlow::Continue(());
        }
        self.visit(from, root, addresses, f)?;
        let entry = &self.entries[root];
        if entry.addresses.first() > addresses.last() {
            return ControlFlow::Continue(());
        }
        if let Some(both) = entry.addresses.intersection(addresses) {
            f(both, entry.conflist, entry.pool)?;
        }
        self.visit(root + 1, to, addresses, f)
    }
}
