//! A record of an attachment, and the state that it says.

use chain::record::{AttachmentRecord, ListedRecord, RecordState};
use cni::NetworkName;
use serde::{Serialize, Serializer};

/// A record, and its network.
#[derive(Debug)]
pub(crate) struct NetworkRecord {
    pub(crate) network: NetworkName,
    pub(crate) listed: ListedRecord,
}

impl NetworkRecord {
    /// The content; `None` if it can't be used.
    pub(crate) fn content(&self) -> Option<&AttachmentRecord> {
        self.listed.content.as_ref().ok()
    }

    /// The state that the record says.
    pub(crate) fn state(&self) -> HeldState {
        match self.content().map(|content| content.state) {
            Some(RecordState::Adding) => HeldState::Adding,
            Some(RecordState::Added) => HeldState::Added,
            Some(RecordState::Deleting) => HeldState::Deleting,
            None => HeldState::BrokenRecord,
        }
    }
}

/// State of a held address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum HeldState {
    /// The record says: ADD has begun.
    Adding,
    /// The record says: ADD has succeeded.
    Added,
    /// The record says: DEL has begun.
    Deleting,
    /// The record can't be used.
    BrokenRecord,
    /// Reserved without a record: by host-local, or the record is lost.
    Reserved,
    /// The file is empty or cut off, and young: a process may be writing it.
    BeingWritten,
    /// The file is empty or cut off: free.
    Torn,
    /// The file or the key can't be read: reserved, to an unknown holder.
    Unreadable,
}

impl HeldState {
    /// The state as it is printed, also in JSON.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Adding => "adding",
            Self::Added => "added",
            Self::Deleting => "deleting",
            Self::BrokenRecord => "broken-record",
            Self::Reserved => "reserved",
            Self::BeingWritten => "being-written",
            Self::Torn => "torn",
            Self::Unreadable => "unreadable",
        }
    }
}

impl Serialize for HeldState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
