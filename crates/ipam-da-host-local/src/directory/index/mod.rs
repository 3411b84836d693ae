//! A cache of a directory of reservations: who holds what, and what is free,
//! without reading the directory.
//!
//! It is one file, kept elsewhere, and of use only while the directory bears the
//! stamp that the index was saved with (`stamp.rs`), and as long as its checksums
//! are right. Otherwise the directory is read, and the index is built anew: the
//! files are the truth.

mod page;
mod tables;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Place;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::iter::successors;
use std::net::IpAddr;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use ipam::Interval;

use crate::directory::stamp::{Identity, Stamp};
use page::{Page, SIZE, checksum, word};
use tables::{Layout, Pages, Tables};

pub(crate) use tables::{Entry, HolderKey};

/// What the file begins with. Another version has another text here.
const MAGIC: u64 = u64::from_ne_bytes(*b"ipamidx1");

/// The header, in words of 64 bits: the text above; device and inode of the
/// directory; its stamp's seconds and nanoseconds; the pages of each table; a
/// checksum. It has the first page for itself.
const HEADER: usize = 8;

/// The index can't be used: it is torn, or no more fits into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unusable;

impl From<io::Error> for Unusable {
    fn from(_: io::Error) -> Self {
        Self
    }
}

/// An open index.
pub(crate) struct Index {
    identity: Identity,
    tables: Tables<InFile>,
}

impl Index {
    /// The index in this file, if it is of the directory as it is now.
    pub(crate) fn open(path: &Path, identity: Identity, stamp: Stamp) -> Option<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path).ok()?;
        let mut bytes = [0; HEADER * 8];
        file.read_exact_at(&mut bytes, 0).ok()?;
        let mut words = bytes.chunks_exact(8).map(word);
        let words: [u64; HEADER] = std::array::from_fn(|_| words.next().unwrap_or_default());
        let layout = Layout {
            held: u32::try_from(words[5]).ok()?,
            bits: u32::try_from(words[6]).ok()?,
        };
        (words == header(identity, stamp, layout)).then_some(Self {
            identity,
            tables: Tables {
                layout,
                pages: InFile {
                    file,
                    layout,
                    loaded: BTreeMap::new(),
                },
            },
        })
    }

    /// Writes an index of these reservations in place of what is there.
    pub(crate) fn build(
        path: &Path,
        identity: Identity,
        stamp: Stamp,
        entries: &[Entry],
    ) -> io::Result<()> {
        // Keys that crowd together need more pages than others; what needs very
        // many more has no index.
        let layouts = successors(Some(Layout::for_entries(entries)), |it| Some(it.larger()));
        let (layout, mut tables) = layouts
            .take(6)
            .find_map(|layout| Some((layout, filled(layout, entries).ok()?)))
            .ok_or(io::ErrorKind::StorageFull)?;
        let mut bytes = header_page(identity, stamp, layout);
        for (number, page) in (1..).zip(&mut tables.pages.0) {
            bytes.extend_from_slice(page.sealed(number));
        }
        let unfinished = path.with_extension("tmp");
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&unfinished)?
            .write_all(&bytes)
            .and_then(|()| fs::rename(&unfinished, path))
            .inspect_err(|_| {
                let _ = fs::remove_file(&unfinished);
            })
    }

    /// The addresses that a holder of this key may hold.
    pub(crate) fn candidates(&mut self, key: HolderKey) -> Result<Vec<IpAddr>, Unusable> {
        self.tables.candidates(key)
    }

    /// The lowest address of the interval that is not taken.
    pub(crate) fn first_free(&mut self, interval: Interval) -> Result<Option<IpAddr>, Unusable> {
        self.tables.first_free(interval)
    }

    /// Takes note of a reservation.
    pub(crate) fn insert(&mut self, entry: Entry) -> Result<(), Unusable> {
        self.tables.insert(entry)
    }

    /// Takes note of a release.
    pub(crate) fn remove(&mut self, entry: Entry) -> Result<(), Unusable> {
        self.tables.remove(entry)
    }

    /// Writes what has changed. From now on, the index is of the directory with
    /// this stamp.
    pub(crate) fn save(&mut self, stamp: Stamp) -> io::Result<()> {
        let InFile { file, loaded, .. } = &mut self.tables.pages;
        for (number, page) in loaded {
            page.write(file, *number)?;
        }
        let page = header_page(self.identity, stamp, self.tables.layout);
        file.write_all_at(&page[..HEADER * 8], 0)
    }
}

fn filled(layout: Layout, entries: &[Entry]) -> Result<Tables<InMemory>, Unusable> {
    let mut tables = Tables {
        layout,
        pages: InMemory::empty(layout),
    };
    for entry in entries {
        tables.insert(*entry)?;
    }
    Ok(tables)
}

fn header(identity: Identity, stamp: Stamp, layout: Layout) -> [u64; HEADER] {
    let [dev, ino] = identity.words();
    let [seconds, nanoseconds] = stamp.words();
    let (held, bits) = (layout.held.into(), layout.bits.into());
    let words = [MAGIC, dev, ino, seconds, nanoseconds, held, bits];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let sum = checksum(0, &bytes);
    [MAGIC, dev, ino, seconds, nanoseconds, held, bits, sum]
}

fn header_page(identity: Identity, stamp: Stamp, layout: Layout) -> Vec<u8> {
    let words = header(identity, stamp, layout);
    let mut page: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    page.resize(SIZE, 0);
    page
}

/// Pages of the file, behind the header's, read when they are needed.
struct InFile {
    file: File,
    layout: Layout,
    loaded: BTreeMap<u64, Page>,
}

impl Pages for InFile {
    fn page(&mut self, number: u64) -> Result<&mut Page, Unusable> {
        match self.loaded.entry(number + 1) {
            Place::Occupied(page) => Ok(page.into_mut()),
            Place::Vacant(place) => {
                let page = Page::read(&self.file, number + 1, self.layout.record(number))?;
                Ok(place.insert(page))
            }
        }
    }
}

/// All pages, while an index is built.
struct InMemory(Vec<Page>);

impl InMemory {
    fn empty(layout: Layout) -> Self {
        let pages = (0..layout.pages()).map(|number| Page::empty(layout.record(number)));
        Self(pages.collect())
    }
}

impl Pages for InMemory {
    fn page(&mut self, number: u64) -> Result<&mut Page, Unusable> {
        let at = usize::try_from(number).map_err(|_| Unusable)?;
        self.0.get_mut(at).ok_or(Unusable)
    }
}
