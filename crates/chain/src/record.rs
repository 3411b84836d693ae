//! The record of an attachment: a journal of its ADD and its DEL, in one file, which is also
//! the attachment's lock.

pub(crate) mod attachment_record;
pub(crate) mod file;
pub(crate) mod folder;
pub(crate) mod line;
mod listing;
pub(crate) mod lock;
pub(crate) mod lock_holders;
pub(crate) mod own_record;

pub use attachment_record::{AttachmentRecord, DelegateAnswer, RecordState};
pub use listing::{ListedRecord, attachments, is_locked, networks, record_of, records, state_dir};
