//! Index of a directory of reservations: finds holders and free addresses without
//! reading the directory.
//!
//! One file in the cache folder:
//!
//! | part | content |
//! |---|---|
//! | header, a line | the directory's identity and version; sizes of the tables |
//! | table of holders | hash of the container ID → address, sorted by both |
//! | table of runs | runs of consecutive taken addresses, sorted |
//! | journal | a line for each call since: its changes, and the directory's version after them |
//!
//! Header and tables are written once, and the file is then renamed into place. Each checksum
//! starts from the checksum of the part before it, so header, pages and lines of different
//! generations of the file don't match. The index is used only if the version in the last line
//! is the directory's (`change_detection`). Otherwise the directory is read, and the index is
//! replaced.

mod checked;
mod entry;
mod tables;

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::FileExt;
use std::time::{Duration, SystemTime};

use ipam::Interval;
use serde::{Deserialize, Serialize};
use state_files::{FileId, Journal, StateFolder};

use crate::change_detection::{self, Version};
use crate::state::TORN_AGE;
use checked::{from_line, to_line};
use entry::successor;
use tables::{Records, Sizes, Tables};

pub(crate) use entry::{Entry, HolderKey};

/// Version of the format.
const FORMAT: u32 = 5;

/// A use is noted if the last change or noted use was longer ago: most uses need no write.
const USE_NOTED: Duration = Duration::from_secs(60 * 60);

/// Bytes that are read at once from the start of the file. While few addresses are taken, this
/// is the whole file.
const READ_AT_ONCE: usize = 24 * 1024;

/// Bounds of the journal's largest length, in bytes. Every call reads the whole journal. When it
/// is full, the tables are written again.
const SHORT_JOURNAL: usize = 4 * 1024;
const LONG_JOURNAL: usize = 32 * 1024;

/// An index: read from its file, or made from the directory's files, which were just read.
pub(crate) struct Index {
    stored: Option<Stored>,
    /// Addresses that have changed since the tables were written, with their holders if they
    /// are taken. All entries, if there are no tables.
    changed: BTreeMap<IpAddr, Option<HolderKey>>,
    /// Time at which all files were read last, in seconds since 1970.
    files_read: i64,
    /// Addresses that have changed in this call.
    new: Vec<IpAddr>,
}

/// The file of an index.
struct Stored {
    tables: Tables,
    journal: Journal,
    /// Length of the journal's lines, in bytes.
    length: usize,
    /// Largest length of the journal's lines, in bytes.
    most: usize,
    /// Checksum of the last line.
    sum: u64,
    /// The version of the directory in the last line.
    version: Version,
}

#[derive(Serialize, Deserialize)]
struct Header {
    format: u32,
    directory: (u64, u64),
    version: Version,
    sizes: Sizes,
    files_read: i64,
}

/// A line of the journal: the changes of one call.
#[derive(Serialize, Deserialize)]
struct Line {
    /// The directory's version after the changes.
    version: Version,
    /// Changed addresses: a taken one with its holder, a free one with `None`.
    changes: Vec<(IpAddr, Option<HolderKey>)>,
}

/// Name of the file for this directory.
pub(crate) fn file_name(id: FileId) -> String {
    format!("{}-{}.index", id.device, id.inode)
}

impl Index {
    /// Opens the directory's index, if it is of this version.
    pub(crate) fn open(folder: &StateFolder, id: FileId, version: Version) -> Option<Self> {
        let file = folder.open_file(&file_name(id), Journal::ACCESS).ok()?;
        let mut beginning = vec![0; READ_AT_ONCE];
        let read = file.read_at(&mut beginning, 0).ok()?;
        beginning.truncate(read);
        let start = 1 + beginning.iter().position(|byte| *byte == b'\n')?;
        let (header, sum): (Header, u64) = from_line(0, &beginning[..start])?;
        if header.format != FORMAT || header.directory != (id.device, id.inode) {
            return None;
        }
        let size = header.sizes.bytes();
        let end = start + size;
        let (lines, journal) = if read < READ_AT_ONCE {
            let content = beginning.get(end..)?;
            let lines = state_files::whole_lines(content).to_vec();
            (lines, Journal::already_read(file, end as u64, content))
        } else {
            let journal = Journal::behind(file, end as u64);
            (journal.read().ok()?, journal)
        };
        let mut index = Self {
            stored: None,
            changed: BTreeMap::new(),
            files_read: header.files_read,
            new: Vec::new(),
        };
        let mut stored = Stored {
            tables: Tables::new(sum, header.sizes, start, beginning),
            journal,
            length: lines.len(),
            most: (size / 64).clamp(SHORT_JOURNAL, LONG_JOURNAL),
            sum,
            version: header.version,
        };
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            let (line, sum): (Line, u64) = from_line(stored.sum, line)?;
            (stored.version, stored.sum) = (line.version, sum);
            index.changed.extend(line.changes);
        }
        let is_current = stored.version == version;
        index.stored = Some(stored);
        is_current.then_some(index)
    }

    /// An index of these entries, which have just been read from the directory.
    pub(crate) fn of_files(entries: impl IntoIterator<Item = Entry>) -> Self {
        let entries = entries.into_iter();
        Self {
            stored: None,
            changed: entries.map(|(ip, holder)| (ip, Some(holder))).collect(),
            files_read: change_detection::now(),
            new: Vec::new(),
        }
    }

    /// The addresses that a container of this key may hold.
    pub(crate) fn candidates(&mut self, key: HolderKey) -> io::Result<Vec<IpAddr>> {
        let mut ips = match &mut self.stored {
            Some(stored) => stored.tables.candidates(stored.journal.file(), key)?,
            None => Vec::new(),
        };
        ips.retain(|ip| !self.changed.contains_key(ip));
        let changed = self.changed.iter();
        let of_key = changed.filter(|(_, holder)| **holder == Some(key));
        ips.extend(of_key.map(|(ip, _)| *ip));
        Ok(ips)
    }

    /// The lowest free address of the interval.
    pub(crate) fn first_free(&mut self, interval: Interval) -> io::Result<Option<IpAddr>> {
        let last = interval.last();
        let mut ip = interval.first();
        loop {
            let end = match self.changed.get(&ip) {
                Some(None) => return Ok(Some(ip)),
                Some(Some(_)) => ip,
                None => match self.end_of_run(ip)? {
                    None => return Ok(Some(ip)),
                    Some(end) => {
                        let end = end.min(last);
                        let mut changed = self.changed.range(ip..=end);
                        if let Some((ip, _)) = changed.find(|(_, entry)| entry.is_none()) {
                            return Ok(Some(*ip));
                        }
                        end
                    }
                },
            };
            if end >= last {
                return Ok(None);
            }
            ip = successor(end).ok_or_else(tables::damaged)?;
        }
    }

    fn end_of_run(&mut self, ip: IpAddr) -> io::Result<Option<IpAddr>> {
        match &mut self.stored {
            Some(stored) => stored.tables.end_of_run(stored.journal.file(), ip),
            None => Ok(None),
        }
    }

    /// True if all files were read in this call, or less than [`TORN_AGE`] ago. False if the
    /// clock was set back since an earlier call read them.
    pub(crate) fn has_just_read(&self) -> bool {
        let age = change_detection::now() - self.files_read;
        self.is_new() || (0..TORN_AGE.as_secs().cast_signed()).contains(&age)
    }

    /// Takes note of an address that is taken now, with its holder, or that is free now.
    pub(crate) fn note(&mut self, ip: IpAddr, holder: Option<HolderKey>) {
        self.new.push(ip);
        self.changed.insert(ip, holder);
    }

    /// Notes that the index is used by somebody who writes none, so that it isn't removed by its age
    /// while the directory doesn't change.
    pub(crate) fn note_use(&self) {
        let Some(stored) = &self.stored else { return };
        let file = stored.journal.file();
        let modified = file.metadata().and_then(|metadata| metadata.modified());
        if modified.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > USE_NOTED)) {
            let _ = file.set_modified(SystemTime::now());
        }
    }

    /// True if the index was made from the directory's files, not read from its own file.
    pub(crate) fn is_new(&self) -> bool {
        self.stored.is_none()
    }

    /// Writes the index for the next call. The directory has this version.
    pub(crate) fn save(
        mut self,
        folder: &StateFolder,
        id: FileId,
        version: Version,
    ) -> io::Result<()> {
        if let Some(stored) = &mut self.stored {
            if stored.version == version {
                return Ok(());
            }
            let change = |ip: &IpAddr| (*ip, self.changed.get(ip).copied().flatten());
            let line = Line {
                version,
                changes: self.new.iter().map(change).collect(),
            };
            let (line, _) = to_line(stored.sum, &line)?;
            if stored.length + line.len() <= stored.most {
                return stored.journal.append(&line);
            }
        }
        let records = Records::of(self.entries()?);
        let header = Header {
            format: FORMAT,
            directory: (id.device, id.inode),
            version,
            sizes: records.sizes(),
            files_read: self.files_read,
        };
        let (header, sum) = to_line(0, &header)?;
        let content = [header, records.to_bytes(sum)].concat();
        folder.replace(&file_name(id), &content)
    }

    fn entries(&mut self) -> io::Result<Vec<Entry>> {
        let mut entries = match &mut self.stored {
            Some(stored) => stored.tables.entries(stored.journal.file())?,
            None => Vec::new(),
        };
        entries.retain(|(ip, _)| !self.changed.contains_key(ip));
        let changed = self.changed.iter();
        entries.extend(changed.filter_map(|(ip, holder)| Some((*ip, (*holder)?))));
        Ok(entries)
    }
}

#[cfg(test)]
mod tests;
