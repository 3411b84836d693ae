//! The two sorted tables of an index: holders, and runs of taken addresses.
//!
//! A page is 4 KiB: a checksum, then records. Pages are read one by one, as a search needs
//! them. The size of the tables is at most proportional to the number of entries, however
//! addresses and holders are distributed.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Place;
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use serde::{Deserialize, Serialize};

use super::checked::checksum;
use super::entry::{Entry, HolderKey, bits_of, ip_of, successor};

/// Size of a page, in bytes.
pub(super) const PAGE: usize = 4096;

/// Four words. Of a holder: key, family, address (2). Of a run: family, first address (2), number
/// of further addresses.
type Record = [u64; 4];

/// Number of records that a page holds.
const PER_PAGE: usize = (PAGE - 8) / size_of::<Record>();

/// Number of pages of a table.
fn pages_of(records: usize) -> usize {
    records.div_ceil(PER_PAGE)
}

/// Sizes of the tables: number of records.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Sizes {
    holders: usize,
    runs: usize,
}

impl Sizes {
    /// Size of the tables, in bytes.
    pub(super) fn bytes(self) -> usize {
        (pages_of(self.holders) + pages_of(self.runs)) * PAGE
    }
}

/// The records of both tables, before they are written.
pub(super) struct Records {
    holders: Vec<Record>,
    runs: Vec<Record>,
}

impl Records {
    pub(super) fn of(mut entries: Vec<Entry>) -> Self {
        let record = |(ip, holder): &Entry| {
            let (family, bits) = bits_of(*ip);
            let [high, low] = halves(bits);
            [holder.0, family, high, low]
        };
        let mut holders: Vec<Record> = entries.iter().map(record).collect();
        holders.sort_unstable();
        entries.sort_unstable();
        let mut runs: Vec<Record> = Vec::new();
        let mut last = None;
        for (ip, _) in entries {
            match runs.last_mut() {
                Some(run) if last.and_then(successor) == Some(ip) => run[3] += 1,
                _ => {
                    let (family, bits) = bits_of(ip);
                    let [high, low] = halves(bits);
                    runs.push([family, high, low, 0]);
                }
            }
            last = Some(ip);
        }
        Self { holders, runs }
    }

    pub(super) fn sizes(&self) -> Sizes {
        Sizes {
            holders: self.holders.len(),
            runs: self.runs.len(),
        }
    }

    /// The pages of both tables.
    pub(super) fn to_bytes(&self, seed: u64) -> Vec<u8> {
        let pages = self.holders.chunks(PER_PAGE);
        let pages = pages.chain(self.runs.chunks(PER_PAGE));
        let mut bytes = Vec::new();
        for (number, records) in (0..).zip(pages) {
            let mut page: Vec<u8> = vec![0; 8];
            page.extend(records.iter().flatten().flat_map(|word| word.to_ne_bytes()));
            page.resize(PAGE, 0);
            let sum = checksum(seed.wrapping_add(number), &page[8..]);
            page[..8].copy_from_slice(&sum.to_ne_bytes());
            bytes.append(&mut page);
        }
        bytes
    }
}

fn halves(bits: u128) -> [u64; 2] {
    let half = |shift: u32| u64::try_from((bits >> shift) & u128::from(u64::MAX));
    [64, 0].map(|shift| half(shift).unwrap_or_default())
}

/// Both tables in a file.
pub(super) struct Tables {
    /// The pages' checksums start with it.
    seed: u64,
    sizes: Sizes,
    /// Offset of the tables in the file.
    start: usize,
    /// The beginning of the file, as far as it was read already.
    beginning: Vec<u8>,
    /// Pages that have been read and are whole.
    pages: BTreeMap<usize, Box<[u8; PAGE]>>,
}

impl Tables {
    /// The tables at this offset of a file, of which the beginning was read already.
    pub(super) fn new(seed: u64, sizes: Sizes, start: usize, beginning: Vec<u8>) -> Self {
        Self {
            seed,
            sizes,
            start,
            beginning,
            pages: BTreeMap::new(),
        }
    }

    /// The addresses of the entries with this key.
    pub(super) fn candidates(&mut self, file: &File, key: HolderKey) -> io::Result<Vec<IpAddr>> {
        let mut ips = Vec::new();
        for at in self.first_of(file, key)?..self.sizes.holders {
            let (ip, holder) = self.entry(file, at)?;
            if holder != key {
                break;
            }
            ips.push(ip);
        }
        Ok(ips)
    }

    /// All entries, in the order of holders.
    pub(super) fn entries(&mut self, file: &File) -> io::Result<Vec<Entry>> {
        (0..self.sizes.holders)
            .map(|at| self.entry(file, at))
            .collect()
    }

    /// The last address of the run that the address is in; `None` if it is free.
    pub(super) fn end_of_run(&mut self, file: &File, ip: IpAddr) -> io::Result<Option<IpAddr>> {
        let is_before = |tables: &mut Self, at| Ok(tables.run(file, at)?.1 < ip);
        let at = self.partition_point(0..self.sizes.runs, is_before)?;
        if at == self.sizes.runs {
            return Ok(None);
        }
        let (first, last) = self.run(file, at)?;
        Ok((first <= ip).then_some(last))
    }

    #[cfg(test)]
    pub(super) fn pages_read(&self) -> usize {
        self.pages.len()
    }

    /// The place of the first entry whose key is this or greater.
    ///
    /// Keys are hashes, evenly spread, so their places can be guessed. The search starts
    /// around the guess, and widens until it includes the place.
    fn first_of(&mut self, file: &File, key: HolderKey) -> io::Result<usize> {
        let is_before = |tables: &mut Self, at| Ok(tables.entry(file, at)?.1 < key);
        let end = self.sizes.holders;
        let guess = (u128::from(key.0) * end as u128) >> 64;
        let guess = usize::try_from(guess).unwrap_or_default();
        let mut reach = PER_PAGE;
        loop {
            let (from, to) = (guess.saturating_sub(reach), end.min(guess + reach));
            if (from == 0 || is_before(self, from)?) && (to == end || !is_before(self, to)?) {
                return self.partition_point(from..to, is_before);
            }
            reach *= 4;
        }
    }

    /// The first place of the range for which `is_before` is false; the range's end if none is.
    fn partition_point(
        &mut self,
        range: Range<usize>,
        is_before: impl Fn(&mut Self, usize) -> io::Result<bool>,
    ) -> io::Result<usize> {
        let Range { start, end } = range;
        let (mut from, mut to) = (start, end);
        while from < to {
            let middle = from.midpoint(to);
            if is_before(self, middle)? {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        Ok(from)
    }

    fn entry(&mut self, file: &File, at: usize) -> io::Result<Entry> {
        let [key, family, high, low] = self.record(file, 0, at)?;
        Ok((address(family, high, low)?, HolderKey(key)))
    }

    /// First and last address of a run.
    fn run(&mut self, file: &File, at: usize) -> io::Result<(IpAddr, IpAddr)> {
        let first_page = pages_of(self.sizes.holders);
        let [family, high, low, further] = self.record(file, first_page, at)?;
        let first = address(family, high, low)?;
        let (_, bits) = bits_of(first);
        let last = ip_of(family, bits.saturating_add(further.into()));
        Ok((first, last.ok_or_else(damaged)?))
    }

    /// A record of the table that starts with this page.
    fn record(&mut self, file: &File, first_page: usize, at: usize) -> io::Result<Record> {
        let page = self.page(file, first_page + at / PER_PAGE)?;
        let start = 8 + at % PER_PAGE * size_of::<Record>();
        let mut words = page[start..].chunks_exact(8).map(word);
        Ok(std::array::from_fn(|_| words.next().unwrap_or_default()))
    }

    fn page(&mut self, file: &File, number: usize) -> io::Result<&[u8; PAGE]> {
        match self.pages.entry(number) {
            Place::Occupied(page) => Ok(page.into_mut()),
            Place::Vacant(place) => {
                let mut page = Box::new([0; PAGE]);
                let at = self.start + number * PAGE;
                match self.beginning.get(at..at + PAGE) {
                    Some(read) => page.copy_from_slice(read),
                    None => file.read_exact_at(&mut page[..], at as u64)?,
                }
                if word(&page[..8]) != checksum(self.seed.wrapping_add(number as u64), &page[8..]) {
                    return Err(damaged());
                }
                Ok(place.insert(page))
            }
        }
    }
}

fn address(family: u64, high: u64, low: u64) -> io::Result<IpAddr> {
    let bits = (u128::from(high) << 64) | u128::from(low);
    ip_of(family, bits).ok_or_else(damaged)
}

/// Converts 8 bytes to a number.
fn word(bytes: &[u8]) -> u64 {
    u64::from_ne_bytes(bytes.try_into().expect("8 bytes"))
}

/// The error of an index that can't be used.
pub(super) fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the index is damaged")
}
