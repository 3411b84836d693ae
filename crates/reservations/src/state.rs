//! State of an address, from the content and the age of its file.

use std::fs::Metadata;
use std::time::{Duration, SystemTime};

use crate::reservation::Reservation;

/// Age from which a torn file is given out again. A younger one may be a file that
/// host-local is writing just now.
pub const TORN_AGE: Duration = Duration::from_secs(10);

/// State of an address that has a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Reserved.
    Reserved(Reservation),
    /// Empty or cut off, and younger than [`TORN_AGE`] (or, by a clock that was set
    /// back, from the future): somebody may be writing it.
    BeingWritten,
    /// Empty or cut off by a crash: free.
    Torn,
    /// The file can't be read: reserved, to an unknown holder.
    Unreadable,
}

impl State {
    /// The state of an address whose file has this content and metadata.
    pub(crate) fn of(content: &[u8], metadata: &Metadata) -> Self {
        if let Some(reservation) = Reservation::parse(content) {
            return Self::Reserved(reservation);
        }
        // The modification time is the time at which the file was made or emptied.
        let modified = metadata.modified().ok();
        let age = modified.and_then(|modified| SystemTime::now().duration_since(modified).ok());
        if age.is_some_and(|age| age >= TORN_AGE) {
            Self::Torn
        } else {
            Self::BeingWritten
        }
    }

    /// True if a network may release an address in this state: one of its reservations, or a
    /// torn file in the directory that is named after it (`own`).
    pub(crate) fn is_releasable_by(&self, network: &str, own: bool) -> bool {
        match self {
            Self::Reserved(reservation) => reservation.is_of(own, network),
            Self::Torn => own,
            Self::BeingWritten | Self::Unreadable => false,
        }
    }
}
