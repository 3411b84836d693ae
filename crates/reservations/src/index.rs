//! Index of a directory of reservations: finds holders and free addresses without
//! reading the directory.
//!
//! One file in the cache folder:
//!
//! | part | content |
//! |---|---|
//! | header (1 KiB) | the directory's identity, path and version; sizes of the tables; a checksum |
//! | log (15 KiB) | changes since the tables were written, each with the version that the directory had after it |
//! | table of holders | hash of the container ID → address, sorted by both |
//! | table of runs | runs of consecutive taken addresses, sorted |
//!
//! The header and the tables are written once, and the file is then renamed into place;
//! a change appends to the log. The checksum of a page starts from that of the header,
//! and that of a log entry from that of the entry before it. So pages and entries of two
//! generations of the file never go together. The index is used only if the version
//! behind the last entry is the one that the directory has (`change_detection`).
//! Otherwise the directory is read, and the index is written anew.

mod entry;
mod log;
mod table;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use ipam::Interval;
use rustix::fs::OFlags;
use state_files::{FileId, StateFolder};

use crate::change_detection::Version;
use entry::{checksum, successor, word};
use log::Change;
use table::{Holders, Runs, Tables};

pub(crate) use entry::{Entry, HolderKey};

/// First word of the file. Another version of the format has another one.
const MAGIC: u64 = u64::from_ne_bytes(*b"ipamidx3");

/// Size of the header, in bytes.
const HEADER: usize = 1024;

/// Words of the header in front of the path: magic, device, inode, version (4), number
/// of holders, of runs, and of shared entries, time of the last reading of all files, length
/// of the path.
const WORDS: usize = 12;

/// Size of header and log.
const HEAD: usize = 16 * 1024;

/// Part of the tables that is read with header and log, in bytes: all, if they are small.
const READ_AHEAD: usize = 2 * table::PAGE;

/// Number of changes that the log has room for.
const MOST_CHANGES: usize = (HEAD - HEADER) / log::SIZE;

/// The index can't be used: it is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unusable;

impl From<io::Error> for Unusable {
    fn from(_: io::Error) -> Self {
        Self
    }
}

/// An open index.
pub(crate) struct Index {
    id: FileId,
    file: File,
    tables: Tables,
    /// Addresses that have changed since the tables were written, with their entries
    /// if they are taken.
    changed: BTreeMap<IpAddr, Option<Entry>>,
    /// Number of entries of another network than the directory's.
    shared: i64,
    /// Time at which all files were read last, in seconds since 1970.
    files_read: i64,
    /// Number of changes in the file's log, and the checksum of the last one.
    logged: usize,
    chain: u64,
    /// Changes that are not in the file yet.
    pending: Vec<Change>,
}

/// Name of the file for this directory.
pub(crate) fn file_name(id: FileId) -> String {
    format!("{}-{}.index", id.device, id.inode)
}

impl Index {
    /// Opens the directory's index, if it is of this version.
    pub(crate) fn open(folder: &StateFolder, id: FileId, version: Version) -> Option<Self> {
        let file = folder.open_file(&file_name(id), OFlags::RDWR).ok()?;
        let mut head = vec![0; HEAD + READ_AHEAD];
        let read = file
            .read_at(&mut head, 0)
            .ok()
            .filter(|read| *read >= HEAD)?;
        head.truncate(read);
        let ahead = head.split_off(HEAD);
        let header = Header::read(&head[..HEADER])?;
        if header.id != id {
            return None;
        }
        let mut it = Self {
            id,
            tables: Tables::new(header.sum, header.holders, header.runs, ahead),
            changed: BTreeMap::new(),
            shared: header.shared,
            files_read: header.files_read,
            logged: 0,
            chain: header.sum,
            pending: Vec::new(),
            file,
        };
        let mut current = header.version;
        for bytes in head[HEADER..].chunks_exact(log::SIZE) {
            let Some((change, sum)) = Change::read(bytes, it.chain) else {
                break;
            };
            current = change.version;
            it.apply(&change);
            it.logged += 1;
            it.chain = sum;
        }
        (current == version).then_some(it)
    }

    /// Writes an index of these entries in place of the one that exists.
    pub(crate) fn build(
        folder: &StateFolder,
        id: FileId,
        path: &Path,
        version: Version,
        files_read: i64,
        mut entries: Vec<Entry>,
    ) -> io::Result<()> {
        let holders = Holders::sorted(&mut entries);
        let runs = Runs::of(&mut entries);
        let header = Header {
            id,
            version,
            holders: holders.len(),
            runs: runs.len(),
            shared: entries.iter().map(|it| i64::from(it.shared)).sum(),
            files_read,
            path: path.to_owned(),
            sum: 0,
        };
        let (mut bytes, sum) = header.bytes();
        bytes.resize(HEAD, 0);
        holders.write(sum, 0, &mut bytes);
        runs.write(sum, table::pages_of_holders(holders.len()), &mut bytes);
        folder.replace(&file_name(id), &bytes)
    }

    /// The addresses that a container of this key may hold.
    pub(crate) fn candidates(&mut self, key: HolderKey) -> Result<Vec<IpAddr>, Unusable> {
        let mut ips = self.tables.candidates(&self.file, key)?;
        ips.retain(|ip| !self.changed.contains_key(ip));
        let changed = self.changed.values().flatten();
        ips.extend(changed.filter(|it| it.holder == key).map(|it| it.ip));
        Ok(ips)
    }

    /// The lowest free address of the interval.
    pub(crate) fn first_free(&mut self, interval: Interval) -> Result<Option<IpAddr>, Unusable> {
        let last = interval.last();
        let mut ip = interval.first();
        loop {
            let end = match self.changed.get(&ip) {
                Some(None) => return Ok(Some(ip)),
                Some(Some(_)) => ip,
                None => match self.tables.end_of_run(&self.file, ip)? {
                    None => return Ok(Some(ip)),
                    Some(end) => {
                        let end = end.min(last);
                        let released = self.changed.range(ip..=end).find(|(_, it)| it.is_none());
                        if let Some((ip, _)) = released {
                            return Ok(Some(*ip));
                        }
                        end
                    }
                },
            };
            if end >= last {
                return Ok(None);
            }
            ip = successor(end).ok_or(Unusable)?;
        }
    }

    /// Time at which all files were read last, in seconds since 1970.
    pub(crate) fn files_read(&self) -> i64 {
        self.files_read
    }

    /// True if the directory holds reservations of other networks than its own.
    pub(crate) fn has_shared(&self) -> bool {
        self.shared > 0
    }

    /// Takes note of a reservation; the directory then has this version.
    pub(crate) fn insert(&mut self, entry: Entry, version: Version) {
        self.note(Change::insert(entry, version));
    }

    /// Takes note of a release.
    pub(crate) fn remove(&mut self, entry: Entry, version: Version) {
        self.note(Change::remove(entry, version));
    }

    /// Takes note of a change that is about no reservation.
    pub(crate) fn renew(&mut self, version: Version) {
        self.note(Change::other(version));
    }

    fn note(&mut self, change: Change) {
        self.apply(&change);
        self.pending.push(change);
    }

    fn apply(&mut self, change: &Change) {
        let Some(entry) = change.entry else { return };
        let shared = i64::from(entry.shared);
        self.shared += if change.taken { shared } else { -shared };
        self.changed.insert(entry.ip, change.taken.then_some(entry));
    }

    /// Leaves the index for the next call.
    pub(crate) fn save(mut self, folder: &StateFolder, path: &Path) -> io::Result<()> {
        let Some(last) = self.pending.last() else {
            return Ok(());
        };
        let version = last.version;
        if self.logged + self.pending.len() > MOST_CHANGES {
            let damaged = |Unusable| io::Error::other("the index is damaged");
            let entries = self.entries().map_err(damaged)?;
            return Self::build(folder, self.id, path, version, self.files_read, entries);
        }
        let mut bytes = Vec::with_capacity(self.pending.len() * log::SIZE);
        for change in &self.pending {
            self.chain = change.write(self.chain, &mut bytes);
        }
        let at = HEADER + self.logged * log::SIZE;
        self.file.write_all_at(&bytes, at as u64)
    }

    fn entries(&mut self) -> Result<Vec<Entry>, Unusable> {
        let mut entries = self.tables.entries(&self.file)?;
        entries.retain(|entry| !self.changed.contains_key(&entry.ip));
        entries.extend(self.changed.values().flatten());
        Ok(entries)
    }
}

/// The path of the directory that the index in this file is of.
pub(crate) fn path_in(file: &File) -> Option<PathBuf> {
    let mut bytes = [0; HEADER];
    file.read_exact_at(&mut bytes, 0).ok()?;
    Some(Header::read(&bytes)?.path)
}

struct Header {
    id: FileId,
    version: Version,
    holders: usize,
    runs: usize,
    shared: i64,
    files_read: i64,
    /// Empty if it is too long for the header.
    path: PathBuf,
    sum: u64,
}

impl Header {
    fn read(bytes: &[u8]) -> Option<Self> {
        let (content, sum) = bytes.split_at_checked(HEADER - 8)?;
        let sum = word(sum);
        if sum != checksum(0, content) {
            return None;
        }
        let mut words = content.chunks_exact(8).map(word);
        let words: [u64; WORDS] = std::array::from_fn(|_| words.next().unwrap_or_default());
        if words[0] != MAGIC {
            return None;
        }
        let path_end = usize::try_from(words[11]).ok()?.checked_add(WORDS * 8)?;
        let path = content.get(WORDS * 8..path_end)?;
        Some(Self {
            id: FileId {
                device: words[1],
                inode: words[2],
            },
            version: Version(std::array::from_fn(|i| words[3 + i].cast_signed())),
            holders: usize::try_from(words[7]).ok()?,
            runs: usize::try_from(words[8]).ok()?,
            shared: words[9].cast_signed(),
            files_read: words[10].cast_signed(),
            path: PathBuf::from(std::ffi::OsStr::from_bytes(path)),
            sum,
        })
    }

    /// The header's bytes, and their checksum.
    fn bytes(&self) -> (Vec<u8>, u64) {
        let path = self.path.as_os_str().as_bytes();
        let path = if path.len() <= HEADER - 8 - WORDS * 8 {
            path
        } else {
            &[]
        };
        let version = self.version.0.map(i64::cast_unsigned);
        let words = [MAGIC, self.id.device, self.id.inode]
            .into_iter()
            .chain(version)
            .chain([self.holders as u64, self.runs as u64])
            .chain([self.shared, self.files_read].map(i64::cast_unsigned))
            .chain([path.len() as u64]);
        let mut bytes: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
        bytes.extend_from_slice(path);
        bytes.resize(HEADER - 8, 0);
        let sum = checksum(0, &bytes);
        bytes.extend_from_slice(&sum.to_ne_bytes());
        (bytes, sum)
    }
}

#[cfg(test)]
mod tests;
