//! The record of an attachment: a journal of its ADD and its DEL, in one file, which is also
//! the attachment's lock.
//!
//! A call acquires the lock (`lock::acquire`), reads the [`AttachmentRecord`], and appends a
//! `Line` for each step to the `RecordFile`; [`OwnRecord`] is the same for a caller that runs
//! its plugins itself. Tools list [`records`] without a lock. Nothing here runs a plugin.

mod attachment_record;
mod file;
mod folder;
mod line;
mod listing;
mod liveness;
pub(crate) mod lock;
mod lock_holders;
mod namespace;
mod own_record;
mod state_dir;
mod unfinished;

pub use attachment_record::{AttachmentRecord, RecordState, RecordedDelegate};
pub use listing::{ListedRecord, attachments, is_locked, networks, record_of, records};
pub use liveness::Liveness;
pub use lock::{WhenBusy, with_locked};
pub use lock_holders::lock_holders;
pub use namespace::{Namespace, is_namespace};
pub use own_record::OwnRecord;
pub use state_dir::{STATE_DIR, state_dir};
pub use unfinished::{has_unfinished, is_unfinished};

pub(crate) use file::RecordFile;
pub(crate) use folder::{Lookup, Records};
pub(crate) use line::{Intent, Line};
#[cfg(test)]
pub(crate) use lock::MOST_FOR_LOCK;
pub(crate) use lock::{IfMissing, LockedRecord};
