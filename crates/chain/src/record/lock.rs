//! Acquires an attachment's lock: that of its record's file. Every delegate inherits it, so after
//! a call was killed it is held until all that the call has started has ended.

use std::fmt::Display;
use std::io;
use std::path::Path;
use std::time::Duration;

use cni::{Attachment, Error, code};

use crate::record::attachment_record::AttachmentRecord;
use crate::record::file::RecordFile;
use crate::record::folder::{Lookup, Records};
use crate::record::listing::ListedRecord;
use crate::record::lock_holders::lock_holders;

/// Longest wait for the lock of an attachment. What a killed call has started ends within
/// milliseconds.
pub(crate) const MOST_FOR_LOCK: Duration = Duration::from_secs(2);

/// Treatment of an attachment that is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenBusy {
    /// The call is refused at once.
    Refuse,
    /// The lock is waited for, at most two seconds; then the call is refused.
    Wait,
}

/// A record whose lock this call holds.
pub(crate) struct LockedRecord {
    pub(crate) file: RecordFile,
    /// `None` if nothing has been written yet; else the content, or the reason why it is
    /// damaged.
    pub(crate) content: Option<Result<AttachmentRecord, String>>,
}

/// Treatment of a missing record.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfMissing {
    /// An empty one is made, for its lock.
    Make,
    /// Nothing is made: there is no lock either.
    Leave,
}

/// Opens an attachment's record and locks it.
///
/// # Errors
///
/// Code 11 if the lock is held, or if the record can't be read. Then nothing may be released, and
/// nothing forgotten.
pub(crate) fn acquire(
    records: &Records,
    attachment: &Attachment,
    if_missing: IfMissing,
    when_busy: WhenBusy,
) -> Result<Lookup<LockedRecord>, Error> {
    let unknown = |error: io::Error| unknown(&records.file(attachment), &error);
    loop {
        let found = match if_missing {
            IfMissing::Make => records.create(attachment),
            IfMissing::Leave => records.open(attachment),
        };
        let mut file = match found.map_err(unknown)? {
            Lookup::Found(file) => file,
            Lookup::Missing => return Ok(Lookup::Missing),
            Lookup::Unusable(error) => return Ok(Lookup::Unusable(error)),
        };
        let at_most = match when_busy {
            WhenBusy::Refuse => Duration::ZERO,
            WhenBusy::Wait => MOST_FOR_LOCK,
        };
        match file.lock(at_most) {
            Ok(true) => {
                let content = records.read(&file, attachment).map_err(unknown)?;
                return Ok(Lookup::Found(LockedRecord { file, content }));
            }
            Ok(false) => return Err(held(attachment, &file)),
            // The holder of the lock has removed the file: opened again.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(unknown(error)),
        }
    }
}

/// Runs `work` with the content of a record while its attachment is locked: no ADD, DEL or GC of it runs
/// meanwhile. `None` if the record is gone.
///
/// # Errors
///
/// Code 11 if the lock is held, or if the record can't be read; code 5 if it is damaged.
pub fn with_locked<T>(
    listed: &ListedRecord,
    when_busy: WhenBusy,
    work: impl FnOnce(&AttachmentRecord) -> T,
) -> Result<Option<T>, Error> {
    let unusable = |reason: &str| unusable(&listed.file, reason);
    let (records, attachment) = (listed.siblings(), &listed.attachment);
    let locked = match acquire(&records, attachment, IfMissing::Leave, when_busy)? {
        Lookup::Found(locked) => locked,
        Lookup::Missing => return Ok(None),
        Lookup::Unusable(error) => return Err(unusable(&error.to_string())),
    };
    match &locked.content {
        None => Ok(None),
        Some(Ok(record)) => Ok(Some(work(record))),
        Some(Err(reason)) => Err(unusable(reason)),
    }
}

/// The error of a record that can't be used.
pub(crate) fn unusable(path: &Path, reason: impl Display) -> Error {
    Error::io(format_args!("record {}", path.display()), reason)
}

/// The error of records that can't be read now.
pub(crate) fn unknown(path: &Path, error: &io::Error) -> Error {
    let path = path.display();
    Error::new(code::TRY_AGAIN_LATER, format!("record {path}: {error}"))
}

/// The error of a lock that is held.
fn held(attachment: &Attachment, file: &RecordFile) -> Error {
    let holders = lock_holders(file.journal.file()).unwrap_or_else(|error| {
        tracing::warn!(%error, "/proc doesn't say who holds the attachment's lock");
        Vec::new()
    });
    let who = match holders.as_slice() {
        [] => "its process is not visible in /proc".to_owned(),
        who => format!("process {}", who.join(", ")),
    };
    Error::new(
        code::TRY_AGAIN_LATER,
        format!("an earlier call for {attachment} is still running ({who})"),
    )
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::tests::{attachment, config, until_free};

    #[test]
    fn a_record_that_its_holder_removes_is_made_anew_for_the_one_that_waits() {
        let root = tempfile::tempdir().unwrap();
        let records = Records::new(root.path(), config("").name());
        let make = |when_busy| acquire(&records, &attachment(), IfMissing::Make, when_busy);
        let Ok(Lookup::Found(first)) = make(WhenBusy::Refuse) else {
            panic!("it is not made");
        };
        let refused = make(WhenBusy::Refuse).err().unwrap();
        assert_eq!(refused.code, code::TRY_AGAIN_LATER);
        thread::scope(|scope| {
            let next = scope.spawn(|| match until_free(|| make(WhenBusy::Wait)) {
                Ok(Lookup::Found(next)) => drop(next),
                _ => panic!("it is not made"),
            });
            thread::sleep(Duration::from_millis(100));
            first.file.remove();
            drop(first);
            next.join().unwrap();
        });
        assert!(records.file(&attachment()).exists());
    }
}
