//! The two sorted tables of an index: holders, and runs of taken addresses.
//!
//! A page is 4 KiB: a checksum, then records of one size. Pages are read one by one, as
//! a search needs them. The size of the tables is that of the entries; no spare room, no
//! dependence on how addresses or holders are distributed.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Place;
use std::fs::File;
use std::net::IpAddr;
use std::os::unix::fs::FileExt;

use super::entry::{Entry, HolderKey, checksum, ip_of, successor, word, words_of};
use super::{HEAD, Unusable};

/// Size of a page, in bytes.
pub(super) const PAGE: usize = 4096;

/// Words of a holder's record: key, shared, address (3).
const HOLDER: usize = 5;

/// Words of a run's record: first address (3), last address (3).
const RUN: usize = 6;

/// Number of records of `record` words that a page holds.
const fn per_page(record: usize) -> usize {
    (PAGE - 8) / (record * 8)
}

/// Number of pages of the table of holders.
pub(super) fn pages_of_holders(entries: usize) -> usize {
    entries.div_ceil(per_page(HOLDER))
}

/// A table before it is written: its records, sorted.
pub(super) struct Records<const N: usize>(Vec<[u64; N]>);

/// The table of holders.
pub(super) type Holders = Records<HOLDER>;

/// The table of runs.
pub(super) type Runs = Records<RUN>;

impl Holders {
    /// The table of these entries, which are then in its order.
    pub(super) fn sorted(entries: &mut [Entry]) -> Self {
        entries.sort_unstable_by_key(|it| (it.holder, it.ip));
        let record = |it: &Entry| {
            let [family, high, low] = words_of(it.ip);
            [it.holder.0, it.shared.into(), family, high, low]
        };
        Self(entries.iter().map(record).collect())
    }
}

impl Runs {
    /// The table of these entries, which are then in the order of addresses.
    pub(super) fn of(entries: &mut [Entry]) -> Self {
        entries.sort_unstable_by_key(|it| it.ip);
        let mut runs: Vec<(IpAddr, IpAddr)> = Vec::new();
        for Entry { ip, .. } in entries {
            match runs.last_mut() {
                Some((_, last)) if *last == *ip || successor(*last) == Some(*ip) => *last = *ip,
                _ => runs.push((*ip, *ip)),
            }
        }
        let record = |(first, last): &(IpAddr, IpAddr)| {
            let [f, h, l] = words_of(*first);
            let [g, i, m] = words_of(*last);
            [f, h, l, g, i, m]
        };
        Self(runs.iter().map(record).collect())
    }
}

impl<const N: usize> Records<N> {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Appends the pages, from this number on.
    pub(super) fn write(&self, seed: u64, first_page: usize, bytes: &mut Vec<u8>) {
        for (number, records) in (first_page..).zip(self.0.chunks(per_page(N))) {
            let mut page = [0; PAGE];
            let words = records.iter().flatten();
            for (place, word) in page[8..].chunks_exact_mut(8).zip(words) {
                place.copy_from_slice(&word.to_ne_bytes());
            }
            let sum = checksum(seed.wrapping_add(number as u64), &page[8..]);
            page[..8].copy_from_slice(&sum.to_ne_bytes());
            bytes.extend_from_slice(&page);
        }
    }
}

/// Both tables of an open index.
pub(super) struct Tables {
    /// Start of the pages' checksums: the header's.
    seed: u64,
    holders: usize,
    runs: usize,
    /// The first pages, as they were read with the header.
    ahead: Vec<u8>,
    /// Pages that have been read and are whole.
    pages: BTreeMap<usize, Box<[u8; PAGE]>>,
}

impl Tables {
    pub(super) fn new(seed: u64, holders: usize, runs: usize, ahead: Vec<u8>) -> Self {
        Self {
            seed,
            holders,
            runs,
            ahead,
            pages: BTreeMap::new(),
        }
    }

    /// The addresses of the entries with this key.
    pub(super) fn candidates(
        &mut self,
        file: &File,
        key: HolderKey,
    ) -> Result<Vec<IpAddr>, Unusable> {
        let mut at = self.first_of(file, key)?;
        let mut ips = Vec::new();
        while at < self.holders {
            let entry = self.entry(file, at)?;
            if entry.holder != key {
                break;
            }
            ips.push(entry.ip);
            at += 1;
        }
        Ok(ips)
    }

    #[cfg(test)]
    pub(super) fn pages_read(&self) -> usize {
        self.pages.len()
    }

    /// All entries, in the order of holders.
    pub(super) fn entries(&mut self, file: &File) -> Result<Vec<Entry>, Unusable> {
        (0..self.holders).map(|at| self.entry(file, at)).collect()
    }

    /// The last address of the run that the address is in; `None` if it is free.
    pub(super) fn end_of_run(
        &mut self,
        file: &File,
        ip: IpAddr,
    ) -> Result<Option<IpAddr>, Unusable> {
        // The first run that ends at the address or behind it.
        let (mut from, mut to) = (0, self.runs);
        while from < to {
            let middle = from.midpoint(to);
            if self.run(file, middle)?.1 < ip {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        if from == self.runs {
            return Ok(None);
        }
        let (first, last) = self.run(file, from)?;
        Ok((first <= ip).then_some(last))
    }

    /// The place of the first entry whose key is this or greater.
    ///
    /// Keys are hashes, evenly spread, so their places can be guessed: from the guess,
    /// the search widens in steps that double, and then halves what is left. With many
    /// entries of one key, only the halving takes longer.
    fn first_of(&mut self, file: &File, key: HolderKey) -> Result<usize, Unusable> {
        let spread = (u128::from(key.0) * self.holders as u128) >> 64;
        let guess = usize::try_from(spread).unwrap_or_default();
        let (mut from, mut to) = (0, self.holders);
        let mut step = per_page(HOLDER) / 2;
        if guess < to && self.entry(file, guess)?.holder < key {
            from = guess + 1;
            while from + step < to {
                if self.entry(file, from + step)?.holder >= key {
                    to = from + step;
                    break;
                }
                from += step + 1;
                step *= 2;
            }
        } else {
            to = guess;
            while step < to {
                if self.entry(file, to - step)?.holder < key {
                    from = to - step + 1;
                    break;
                }
                to -= step;
                step *= 2;
            }
        }
        while from < to {
            let middle = from.midpoint(to);
            if self.entry(file, middle)?.holder < key {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        Ok(from)
    }

    fn entry(&mut self, file: &File, at: usize) -> Result<Entry, Unusable> {
        let [key, shared, family, high, low] = self.record::<HOLDER>(file, 0, at)?;
        Ok(Entry {
            ip: ip_of([family, high, low]).ok_or(Unusable)?,
            holder: HolderKey(key),
            shared: shared != 0,
        })
    }

    fn run(&mut self, file: &File, at: usize) -> Result<(IpAddr, IpAddr), Unusable> {
        let first_page = pages_of_holders(self.holders);
        let [f, h, l, g, i, m] = self.record::<RUN>(file, first_page, at)?;
        let ends = ip_of([f, h, l]).zip(ip_of([g, i, m]));
        ends.ok_or(Unusable)
    }

    /// A record of the table that starts with this page.
    fn record<const N: usize>(
        &mut self,
        file: &File,
        first_page: usize,
        at: usize,
    ) -> Result<[u64; N], Unusable> {
        let page = self.page(file, first_page + at / per_page(N))?;
        let start = 8 + at % per_page(N) * N * 8;
        let mut words = page[start..start + N * 8].chunks_exact(8).map(word);
        Ok(std::array::from_fn(|_| words.next().unwrap_or_default()))
    }

    fn page(&mut self, file: &File, number: usize) -> Result<&[u8; PAGE], Unusable> {
        match self.pages.entry(number) {
            Place::Occupied(page) => Ok(page.into_mut()),
            Place::Vacant(place) => {
                let mut page = Box::new([0; PAGE]);
                let at = number * PAGE;
                match self.ahead.get(at..at + PAGE) {
                    Some(bytes) => page.copy_from_slice(bytes),
                    None => file.read_exact_at(&mut page[..], (HEAD + at) as u64)?,
                }
                let sum = checksum(self.seed.wrapping_add(number as u64), &page[8..]);
                if word(&page[..8]) != sum {
                    return Err(Unusable);
                }
                Ok(place.insert(page))
            }
        }
    }
}
