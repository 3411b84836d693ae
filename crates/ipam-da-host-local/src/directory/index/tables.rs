//! The index's two tables: from a holder to addresses, and from an address to
//! whether it is taken.
//!
//! Both are hash tables of pages. A record is in the one page that its key leads
//! to; a page that is full makes the index unusable, and it is built anew, larger.

use std::net::{IpAddr, Ipv6Addr};

use ipam::{Holder, Interval};

use super::Unusable;
use super::page::{self, Page};

/// A record of the first table: a holder's key, and an address.
const HELD: usize = 4 + 16;

/// How many addresses a record of the second table is about.
const CHUNK: u128 = 2048;

/// A record of the second table: a chunk's number, and a bit for each address.
const BITS: usize = 16 + CHUNK as usize / 8;

/// A holder, as the index knows it: a hash. Whoever is led by it to an address
/// reads the reservation's file to be sure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HolderKey(u32);

impl HolderKey {
    /// The key of this holder, if it is one.
    pub(crate) fn of(holder: &Holder) -> Option<Self> {
        match holder {
            Holder::Attachment {
                container_id,
                ifname,
            } => Some(Self::hash(&Holder::content(container_id, ifname))),
            Holder::Container(container_id) => Some(Self::hash(container_id.as_bytes())),
            Holder::Torn => None,
        }
    }

    /// FNV-1a, 32 bits: the same in every build, which the standard library's
    /// hashes need not be.
    fn hash(text: &[u8]) -> Self {
        Self(text.iter().fold(0x811c_9dc5, |hash, byte| {
            (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
        }))
    }
}

/// A reservation, as the index knows it: an address that is taken, and whoever
/// holds it, if that is known.
pub(crate) type Entry = (Option<HolderKey>, IpAddr);

/// How many pages each table has: a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) held: u32,
    pub(super) bits: u32,
}

impl Layout {
    /// For these reservations, with room to spare, so that pages rarely overflow:
    /// the fewer records fit into one, the more.
    pub(super) fn for_entries(entries: &[Entry]) -> Self {
        let mut chunks: Vec<u128> = entries.iter().map(|(_, ip)| encoded(*ip) / CHUNK).collect();
        chunks.sort_unstable();
        chunks.dedup();
        let pages = |records: usize, size: usize| {
            let spare = if size == HELD { 2 } else { 4 };
            let pages = (records * spare).div_ceil(page::capacity(size)).max(4);
            u32::try_from(pages.next_power_of_two()).expect("fewer than all IPv4 addresses")
        };
        Self {
            held: pages(entries.len(), HELD),
            bits: pages(chunks.len(), BITS),
        }
    }

    /// Twice the size.
    pub(super) fn larger(self) -> Self {
        Self {
            held: self.held * 2,
            bits: self.bits * 2,
        }
    }

    /// How many pages there are in all.
    pub(super) fn pages(self) -> u64 {
        u64::from(self.held) + u64::from(self.bits)
    }

    /// The size of the records in the page of this number.
    pub(super) fn record(self, page: u64) -> usize {
        if page < u64::from(self.held) {
            HELD
        } else {
            BITS
        }
    }

    fn page_of_holder(self, key: HolderKey) -> u64 {
        spread(key.0.into(), self.held)
    }

    fn page_of_chunk(self, chunk: u128) -> u64 {
        u64::from(self.held) + spread(chunk, self.bits)
    }
}

/// One of so many pages, a power of two, for a key of any form: numbers that
/// follow one another, that differ in a few bits in the middle, at random.
fn spread(key: u128, pages: u32) -> u64 {
    // Knuth's multiplicative hashing, twice, so that all bits of the key reach the
    // ones that are taken.
    const GOLDEN_RATIO: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
    let mixed = key.wrapping_mul(GOLDEN_RATIO);
    let mixed = (mixed ^ (mixed >> 64)).wrapping_mul(GOLDEN_RATIO);
    u64::try_from(mixed >> 64).unwrap_or_default() % u64::from(pages)
}

/// Where pages are kept.
pub(super) trait Pages {
    /// The page of this number.
    fn page(&mut self, number: u64) -> Result<&mut Page, Unusable>;
}

/// Both tables, in pages that are kept somewhere.
pub(super) struct Tables<P> {
    pub(super) layout: Layout,
    pub(super) pages: P,
}

impl<P: Pages> Tables<P> {
    /// The addresses that a holder of this key may hold.
    pub(super) fn candidates(&mut self, key: HolderKey) -> Result<Vec<IpAddr>, Unusable> {
        let page = self.pages.page(self.layout.page_of_holder(key))?;
        let start = key.0.to_ne_bytes();
        let records = page.records().filter(|record| record.starts_with(&start));
        Ok(records
            .map(|record| decoded(number(&record[4..])))
            .collect())
    }

    /// The lowest address of the interval that is not taken.
    pub(super) fn first_free(&mut self, interval: Interval) -> Result<Option<IpAddr>, Unusable> {
        let last = encoded(interval.last());
        let mut at = encoded(interval.first());
        loop {
            let (chunk, first) = (at / CHUNK, at % CHUNK);
            let page = self.pages.page(self.layout.page_of_chunk(chunk))?;
            let Some(record) = page.records().find(|r| r.starts_with(&chunk.to_ne_bytes())) else {
                return Ok(Some(decoded(at)));
            };
            let free = (first..CHUNK).find(|bit| !is_set(&record[16..], *bit));
            let start = chunk * CHUNK;
            match free.map(|bit| start + bit) {
                Some(ip) => return Ok(Some(ip).filter(|ip| *ip <= last).map(decoded)),
                None if last - start < CHUNK => return Ok(None),
                None => at = start + CHUNK,
            }
        }
    }

    /// Takes note of a reservation.
    pub(super) fn insert(&mut self, (key, ip): Entry) -> Result<(), Unusable> {
        if let Some(key) = key {
            let page = self.pages.page(self.layout.page_of_holder(key))?;
            let record = held(key, ip);
            if page.find(&record).is_none() {
                page.push(&record)?;
            }
        }
        let (chunk, bit) = (encoded(ip) / CHUNK, encoded(ip) % CHUNK);
        let page = self.pages.page(self.layout.page_of_chunk(chunk))?;
        let start = chunk.to_ne_bytes();
        let at = match page.find(&start) {
            Some(at) => at,
            None => {
                let mut record = [0; BITS];
                record[..16].copy_from_slice(&start);
                page.push(&record)?;
                page.find(&start).ok_or(Unusable)?
            }
        };
        let (byte, mask) = place(bit);
        page.record_mut(at)[16 + byte] |= mask;
        Ok(())
    }

    /// Takes note of a release.
    pub(super) fn remove(&mut self, (key, ip): Entry) -> Result<(), Unusable> {
        if let Some(key) = key {
            let page = self.pages.page(self.layout.page_of_holder(key))?;
            if let Some(at) = page.find(&held(key, ip)) {
                page.remove(at);
            }
        }
        let (chunk, bit) = (encoded(ip) / CHUNK, encoded(ip) % CHUNK);
        let page = self.pages.page(self.layout.page_of_chunk(chunk))?;
        if let Some(at) = page.find(&chunk.to_ne_bytes()) {
            let (byte, mask) = place(bit);
            let record = page.record_mut(at);
            record[16 + byte] &= !mask;
            if record[16..].iter().all(|byte| *byte == 0) {
                page.remove(at);
            }
        }
        Ok(())
    }
}

fn held(key: HolderKey, ip: IpAddr) -> [u8; HELD] {
    let mut record = [0; HELD];
    record[..4].copy_from_slice(&key.0.to_ne_bytes());
    record[4..].copy_from_slice(&encoded(ip).to_ne_bytes());
    record
}

/// The byte and the bit in it.
fn place(bit: u128) -> (usize, u8) {
    let bit = usize::try_from(bit).expect("a bit of a chunk");
    (bit / 8, 1 << (bit % 8))
}

fn is_set(bits: &[u8], bit: u128) -> bool {
    let (byte, mask) = place(bit);
    bits[byte] & mask != 0
}

fn number(bytes: &[u8]) -> u128 {
    u128::from_ne_bytes(bytes.try_into().expect("16 bytes"))
}

/// An address of either family as one number: IPv4 as the IPv6 address that it is
/// mapped to, which is no address of its own here.
fn encoded(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

fn decoded(bits: u128) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from_bits(bits)).to_canonical()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::index::InMemory;
    use crate::directory::occupancy::Occupancy;
    use proptest::prelude::*;

    fn tables(layout: Layout) -> Tables<InMemory> {
        Tables {
            layout,
            pages: InMemory::empty(layout),
        }
    }

    fn holder(n: u16) -> Holder {
        Holder::parse(&Holder::content(&format!("c{n}"), "eth0"))
    }

    /// Addresses of both families, near each other and far apart, and at the ends.
    fn address() -> impl Strategy<Value = IpAddr> {
        prop_oneof![
            (0u32..6000).prop_map(|n| IpAddr::from(std::net::Ipv4Addr::from(0x0a00_0000 + n))),
            (0u128..6000).prop_map(|n| IpAddr::from(Ipv6Addr::from(0xfd00_u128 << 112 | n))),
            (0u128..9).prop_map(|n| IpAddr::from(Ipv6Addr::from(u128::MAX - n))),
            (0u32..9).prop_map(|n| IpAddr::from(std::net::Ipv4Addr::from(u32::MAX - n))),
        ]
    }

    proptest! {
        /// The index says what a plain list of all reservations says.
        #[test]
        fn the_tables_agree_with_the_directory(
            steps in proptest::collection::vec((address(), 0u16..40, any::<bool>()), 0..300),
            asked in proptest::collection::vec((address(), address()), 20),
        ) {
            let mut tables = tables(Layout { held: 4, bits: 4 });
            let mut truth = Occupancy::default();
            for (ip, n, reserve) in steps {
                let held = truth.iter().find(|(i, _)| *i == ip).and_then(|(_, h)| h.cloned());
                match (held, reserve) {
                    (None, true) => {
                        tables.insert((HolderKey::of(&holder(n)), ip)).unwrap();
                        truth.insert(ip, Some(holder(n)));
                    }
                    (Some(holder), false) => {
                        tables.remove((HolderKey::of(&holder), ip)).unwrap();
                        truth.remove(ip);
                    }
                    _ => {}
                }
            }
            for (a, b) in asked {
                if let Some(interval) = Interval::new(a.min(b), a.max(b)) {
                    prop_assert_eq!(tables.first_free(interval).unwrap(), truth.first_free(interval));
                }
            }
            for n in 0..40 {
                let mut candidates = tables.candidates(HolderKey::of(&holder(n)).unwrap()).unwrap();
                candidates.sort_unstable();
                let held: Vec<IpAddr> =
                    truth.iter().filter(|(_, h)| *h == Some(&holder(n))).map(|(ip, _)| ip).collect();
                prop_assert_eq!(candidates, held);
            }
        }
    }

    #[test]
    fn a_full_run_of_addresses_has_none_free() {
        let ip = |n: u32| IpAddr::from(std::net::Ipv4Addr::from(0x0a00_0000 + n));
        let entries: Vec<Entry> = (0..10_000).map(|n| (None, ip(n))).collect();
        let mut tables = tables(Layout::for_entries(&entries));
        for entry in entries {
            tables.insert(entry).unwrap();
        }
        let free = |tables: &mut Tables<InMemory>, a, b| {
            tables
                .first_free(Interval::new(ip(a), ip(b)).unwrap())
                .unwrap()
        };
        assert_eq!(free(&mut tables, 0, 9_999), None);
        assert_eq!(free(&mut tables, 5, 9_999), None);
        assert_eq!(free(&mut tables, 0, 10_000), Some(ip(10_000)));
        tables.remove((None, ip(7_000))).unwrap();
        assert_eq!(free(&mut tables, 0, 9_999), Some(ip(7_000)));
        assert_eq!(free(&mut tables, 7_001, 9_999), None);
    }

    #[test]
    fn keys_of_every_form_are_spread() {
        let forms: [fn(u128) -> u128; 4] = [
            |n| n,
            |n| n << 21,
            |n| (n << 64) | (0xfd00 << 112),
            |n| (n * n * n) ^ (n << 90),
        ];
        for form in forms {
            let mut pages = [0; 64];
            for n in 0..64 * 8 {
                pages[usize::try_from(spread(form(n), 64)).unwrap()] += 1;
            }
            assert!(pages.iter().all(|count| *count <= 3 * 8), "{pages:?}");
        }
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let mut tables = tables(Layout { held: 1, bits: 1 });
        let ips = (0u128..).map(|n| IpAddr::from(Ipv6Addr::from(n * CHUNK)));
        assert!(ips.take(100).any(|ip| tables.insert((None, ip)).is_err()));
    }
}
