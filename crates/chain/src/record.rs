//! The record of an attachment: a journal of its ADD and its DEL, in one file, which is also
//! the attachment's lock.

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

pub use attachment_record::{AttachmentRecord, DelegateAnswer, RecordState};
pub use listing::{ListedRecord, attachments, is_locked, networks, record_of, records, state_dir};
pub use liveness::Liveness;
pub use lock::{WhenBusy, with_locked};
pub use lock_holders::lock_holders;
pub use namespace::{Namespace, is_namespace};
pub use own_record::OwnRecord;

pub(crate) use attachment_record::RecordedDelegate;
pub(crate) use file::RecordFile;
pub(crate) use folder::{Lookup, Records, name};
pub(crate) use line::{FORMAT, Intent, Line};
#[cfg(test)]
pub(crate) use lock::MOST_FOR_LOCK;
pub(crate) use lock::{IfMissing, LockedRecord};
pub(crate) use namespace::NamespaceId;
