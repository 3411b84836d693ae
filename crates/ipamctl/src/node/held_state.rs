//! State of a held address, by its record or its file.

use std::fmt;

use chain::record::{ListedRecord, RecordState};
use serde::Serialize;

/// State of a held address. The names are documented.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum HeldState {
    /// By the record, ADD has begun.
    Adding,
    /// By the record, ADD has succeeded.
    Added,
    /// By the record, DEL has begun.
    Deleting,
    /// The record can't be used.
    BrokenRecord,
    /// Reserved without a record: by host-local, or the record is lost.
    #[default]
    Reserved,
    /// The file is empty or cut off, and new: a process may be writing it.
    BeingWritten,
    /// The file is empty or cut off: free.
    Torn,
    /// The file or the key can't be read: reserved, to an unknown holder.
    Unreadable,
}

impl HeldState {
    /// The states of records.
    pub(crate) const OF_RECORDS: [Self; 4] = [
        Self::Adding,
        Self::Added,
        Self::Deleting,
        Self::BrokenRecord,
    ];

    /// The state of a record.
    pub(crate) fn of(record: &ListedRecord) -> Self {
        match record.content.as_ref().map(|content| content.state) {
            Ok(RecordState::Adding) => Self::Adding,
            Ok(RecordState::Added) => Self::Added,
            Ok(RecordState::Deleting) => Self::Deleting,
            Err(_) => Self::BrokenRecord,
        }
    }
}

impl fmt::Display for HeldState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}
