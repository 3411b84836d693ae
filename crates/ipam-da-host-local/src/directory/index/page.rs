//! Pages of a file: records of one size, counted, under a checksum.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::Unusable;

/// The size of a page, in bytes.
pub(super) const SIZE: usize = 4096;

/// Checksum, count, and what keeps the records aligned, in bytes.
const HEAD: usize = 16;

/// How many records of this size fit into a page.
pub(super) const fn capacity(record: usize) -> usize {
    (SIZE - HEAD) / record
}

/// A page in memory.
#[derive(Clone)]
pub(super) struct Page {
    bytes: Box<[u8; SIZE]>,
    record: usize,
    /// Whether it differs from the file's.
    changed: bool,
}

impl Page {
    /// A page without records, for records of this size.
    pub(super) fn empty(record: usize) -> Self {
        Self {
            bytes: Box::new([0; SIZE]),
            record,
            changed: true,
        }
    }

    /// Reads the page of this number; fails if it isn't what was written.
    pub(super) fn read(file: &File, number: u64, record: usize) -> Result<Self, Unusable> {
        let mut page = Self::empty(record);
        file.read_exact_at(&mut page.bytes[..], number * SIZE as u64)?;
        if word(&page.bytes[..8]) != checksum(number, &page.bytes[8..])
            || page.count() > capacity(record)
        {
            return Err(Unusable);
        }
        page.changed = false;
        Ok(page)
    }

    /// Writes it as the page of this number, if it has changed.
    pub(super) fn write(&mut self, file: &File, number: u64) -> io::Result<()> {
        if self.changed {
            file.write_all_at(self.sealed(number), number * SIZE as u64)?;
            self.changed = false;
        }
        Ok(())
    }

    /// Its bytes, as the page of this number.
    pub(super) fn sealed(&mut self, number: u64) -> &[u8] {
        let sum = checksum(number, &self.bytes[8..]);
        self.bytes[..8].copy_from_slice(&sum.to_ne_bytes());
        &self.bytes[..]
    }

    /// The records, in no order.
    pub(super) fn records(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes[HEAD..]
            .chunks_exact(self.record)
            .take(self.count())
    }

    /// The place of the record that starts with this.
    pub(super) fn find(&self, start: &[u8]) -> Option<usize> {
        self.records().position(|record| record.starts_with(start))
    }

    /// The record at this place, to be changed.
    pub(super) fn record_mut(&mut self, at: usize) -> &mut [u8] {
        self.changed = true;
        let start = HEAD + at * self.record;
        &mut self.bytes[start..start + self.record]
    }

    /// Adds a record; fails if no more fits.
    pub(super) fn push(&mut self, record: &[u8]) -> Result<(), Unusable> {
        let count = self.count();
        if count == capacity(self.record) {
            return Err(Unusable);
        }
        self.record_mut(count).copy_from_slice(record);
        self.set_count(count + 1);
        Ok(())
    }

    /// Takes the record at this place out; the last one takes its place.
    pub(super) fn remove(&mut self, at: usize) {
        let last = self.count() - 1;
        let moved = self.record_mut(last).to_vec();
        self.record_mut(at).copy_from_slice(&moved);
        self.set_count(last);
    }

    fn count(&self) -> usize {
        usize::from(u16::from_ne_bytes([self.bytes[8], self.bytes[9]]))
    }

    fn set_count(&mut self, count: usize) {
        let count = u16::try_from(count).expect("a page has fewer records than that");
        self.bytes[8..10].copy_from_slice(&count.to_ne_bytes());
    }
}

/// A checksum against accidents, not against malice: FNV-1a over words of 64 bits.
pub(super) fn checksum(seed: u64, bytes: &[u8]) -> u64 {
    bytes
        .chunks_exact(8)
        .fold(0xcbf2_9ce4_8422_2325 ^ seed, |sum, bytes| {
            (sum ^ word(bytes))
                .wrapping_mul(0x0000_0100_0000_01b3)
                .rotate_left(23)
        })
}

/// The number that 8 bytes are.
pub(super) fn word(bytes: &[u8]) -> u64 {
    u64::from_ne_bytes(bytes.try_into().expect("8 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_added_and_taken_out() {
        let mut page = Page::empty(4);
        for i in 0u32..5 {
            page.push(&i.to_ne_bytes()).unwrap();
        }
        page.remove(1);
        page.remove(3);
        let left: Vec<&[u8]> = page.records().collect();
        assert_eq!(left, [0u32, 4, 2].map(u32::to_ne_bytes));
        assert_eq!(page.find(&4u32.to_ne_bytes()), Some(1));
    }

    #[test]
    fn a_full_page_takes_no_more() {
        let mut page = Page::empty(272);
        for _ in 0..capacity(272) {
            page.push(&[7; 272]).unwrap();
        }
        assert_eq!(page.push(&[7; 272]), Err(Unusable));
    }

    #[test]
    fn a_page_reads_back_and_only_where_it_was_written() {
        let file = tempfile::tempfile().unwrap();
        let mut page = Page::empty(4);
        page.push(&[1, 2, 3, 4]).unwrap();
        page.write(&file, 1).unwrap();
        let back = Page::read(&file, 1, 4).unwrap();
        assert_eq!(back.records().collect::<Vec<_>>(), [[1, 2, 3, 4]]);
        assert!(Page::read(&file, 0, 4).is_err());
        assert!(Page::read(&file, 2, 4).is_err());
    }

    #[test]
    fn any_changed_byte_is_noticed() {
        let file = tempfile::tempfile().unwrap();
        let mut page = Page::empty(4);
        page.push(&[1, 2, 3, 4]).unwrap();
        page.write(&file, 0).unwrap();
        for at in 0..SIZE as u64 {
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
            assert!(Page::read(&file, 0, 4).is_err(), "byte {at}");
            file.write_all_at(&byte, at).unwrap();
        }
        assert!(Page::read(&file, 0, 4).is_ok());
    }
}
