//! Attachments that the runtime has let go of, and that nobody else undoes: a DEL that has failed
//! is often not repeated, and an ADD that was killed not undone.

use std::io;
use std::path::Path;
use std::time::Duration;

use crate::record::attachment_record::RecordState;
use crate::record::listing::{ListedRecord, networks, records};

/// The time without a change after which an ADD that isn't running won't be undone by its caller.
const ABANDONED: Duration = Duration::from_secs(10 * 60);

/// True if a folder of records has an unfinished one ([`is_unfinished`]).
///
/// # Errors
///
/// An I/O error: a folder can't be listed.
pub fn has_unfinished(state_dir: &Path) -> io::Result<bool> {
    for network in networks(state_dir)? {
        if records(state_dir, &network)?.iter().any(is_unfinished) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// True if the runtime has let go of the attachment of this record, and only a tool undoes it: its
/// DEL has begun, or its ADD didn't end and hasn't changed the record for ten minutes. A call may
/// work on it now, which the record's lock tells.
pub fn is_unfinished(listed: &ListedRecord) -> bool {
    let record = listed.usable().filter(|record| !record.is_undone_by_caller);
    match record.map(|record| record.state) {
        None | Some(RecordState::Added) => false,
        Some(RecordState::Deleting) => true,
        Some(RecordState::Adding) => {
            let unchanged = listed.changed.and_then(|changed| changed.elapsed().ok());
            unchanged.is_some_and(|unchanged| unchanged >= ABANDONED)
        }
    }
}
