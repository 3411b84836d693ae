//! Entries of an index's log: changes of the directory, in order.

use super::entry::{Entry, HolderKey, checksum, ip_of, word, words_of};
use crate::change_detection::Version;

/// Words of an entry: kind, holder, address (3), version (4), checksum.
const WORDS: usize = 10;

/// Size of an entry, in bytes.
pub(super) const SIZE: usize = WORDS * 8;

/// Kinds of changes. None is 0, so that a log's unused rest is no change.
const OTHER: u64 = 1;
const INSERT: u64 = 2;
const REMOVE: u64 = 3;

/// Added to the kind if the reservation names its network.
const SHARED: u64 = 0x100;

/// One change of the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// The address that it is about, if it is about one.
    pub(super) entry: Option<Entry>,
    /// True if the address is taken from now on.
    pub(super) taken: bool,
    /// The directory's version after it.
    pub(super) version: Version,
}

impl Change {
    pub(super) fn insert(entry: Entry, version: Version) -> Self {
        Self {
            entry: Some(entry),
            taken: true,
            version,
        }
    }

    pub(super) fn remove(entry: Entry, version: Version) -> Self {
        Self {
            entry: Some(entry),
            taken: false,
            version,
        }
    }

    pub(super) fn other(version: Version) -> Self {
        Self {
            entry: None,
            taken: false,
            version,
        }
    }

    /// Reads a change behind one with the checksum `before`; returns its own, too.
    pub(super) fn read(bytes: &[u8], before: u64) -> Option<(Self, u64)> {
        let (content, sum) = bytes.split_at_checked(SIZE - 8)?;
        let sum = word(sum);
        let mut words = content.chunks_exact(8).map(word);
        let words: [u64; WORDS - 1] = std::array::from_fn(|_| words.next().unwrap_or_default());
        let kind = words[0] & !SHARED;
        if kind == 0 || sum != checksum(before, content) {
            return None;
        }
        let entry = match kind {
            OTHER => None,
            INSERT | REMOVE => Some(Entry {
                ip: ip_of([words[2], words[3], words[4]])?,
                holder: HolderKey(words[1]),
                shared: words[0] & SHARED != 0,
            }),
            _ => return None,
        };
        let version = Version(std::array::from_fn(|i| words[5 + i].cast_signed()));
        let taken = kind == INSERT;
        Some((
            Self {
                entry,
                taken,
                version,
            },
            sum,
        ))
    }

    /// Appends its bytes; returns their checksum.
    pub(super) fn write(&self, before: u64, bytes: &mut Vec<u8>) -> u64 {
        let start = bytes.len();
        let kind = match (self.entry, self.taken) {
            (None, _) => OTHER,
            (Some(_), true) => INSERT,
            (Some(_), false) => REMOVE,
        };
        let shared = self.entry.is_some_and(|it| it.shared);
        let holder = self.entry.map_or(0, |it| it.holder.0);
        let ip = self.entry.map_or([0; 3], |it| words_of(it.ip));
        let words = [kind | if shared { SHARED } else { 0 }, holder]
            .into_iter()
            .chain(ip)
            .chain(self.version.0.map(i64::cast_unsigned));
        bytes.extend(words.flat_map(u64::to_ne_bytes));
        let sum = checksum(before, &bytes[start..]);
        bytes.extend_from_slice(&sum.to_ne_bytes());
        sum
    }
}
