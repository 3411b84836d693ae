//! Acquires an attachment's lock: that of its record's file. Every delegate inherits it, so
//! it is held until all that an earlier call has started has ended.

use std::io;
use std::path::Path;
use std::time::Duration;

use cni::{Attachment, Error, code};

use crate::overtime::Overtime;
use crate::record::attachment_record::AttachmentRecord;
use crate::record::file::RecordFile;
use crate::record::folder::{Found, Records};
use crate::record::lock_holders::lock_holders;

/// Longest wait for the lock. The delegates of a killed call end within milliseconds.
const PATIENCE: Duration = Duration::from_secs(2);

/// A locked record.
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
    /// None is made.
    Leave,
}

/// Opens an attachment's record and locks it. A call that holds the lock is waited for, at
/// most two seconds of `wait`; without it, not at all.
///
/// # Errors
///
/// Code 11 if the lock is held, or if the record can't be read. Then nothing may be released, and
/// nothing forgotten.
pub(crate) fn acquire(
    records: &Records,
    attachment: &Attachment,
    if_missing: IfMissing,
    wait: Option<&Overtime>,
) -> Result<Found<LockedRecord>, Error> {
    let unknown = |error: io::Error| unknown(&records.file(attachment), &error);
    loop {
        let found = match if_missing {
            IfMissing::Make => records.create(attachment),
            IfMissing::Leave => records.open(attachment),
        };
        let mut file = match found.map_err(unknown)? {
            Found::Record(file) => file,
            Found::Unusable(error) => return Ok(Found::Unusable(error)),
        };
        match lock(&mut file, wait) {
            Ok(true) => {
                let content = records.read(&file, attachment).map_err(unknown)?;
                return Ok(Found::Record(LockedRecord { file, content }));
            }
            Ok(false) => return Err(held(attachment, &file)),
            // The holder of the lock has removed the file: opened again.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(unknown(error)),
        }
    }
}

fn lock(file: &mut RecordFile, wait: Option<&Overtime>) -> io::Result<bool> {
    if file.lock(Duration::ZERO)? {
        return Ok(true);
    }
    let Some(overtime) = wait else {
        return Ok(false);
    };
    tracing::debug!("waiting for the attachment's lock");
    overtime.spend(|most| file.lock(most.min(PATIENCE)))
}

/// The error of records that can't be read now.
pub(crate) fn unknown(path: &Path, error: &io::Error) -> Error {
    let path = path.display();
    Error::new(code::TRY_AGAIN_LATER, format!("record {path}: {error}"))
}

/// The error of a lock that is held.
fn held(attachment: &Attachment, file: &RecordFile) -> Error {
    let holders = lock_holders(file.file()).unwrap_or_else(|error| {
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
    use crate::tests::{attachment, config};

    #[test]
    fn a_record_that_its_holder_removes_is_made_anew_for_the_one_that_waits() {
        let root = tempfile::tempdir().unwrap();
        let records = Records::new(root.path(), config("").name());
        let make =
            |wait: Option<&Overtime>| acquire(&records, &attachment(), IfMissing::Make, wait);
        let Ok(Found::Record(first)) = make(None) else {
            panic!("it is not made");
        };
        let refused = make(None).err().unwrap();
        assert_eq!(refused.code, code::TRY_AGAIN_LATER);
        thread::scope(|scope| {
            let next = scope.spawn(|| match make(Some(&Overtime::new(true))) {
                Ok(Found::Record(next)) => drop(next),
                _ => panic!("it is not made"),
            });
            thread::sleep(Duration::from_millis(100));
            first.file.remove();
            next.join().unwrap();
        });
        assert!(records.file(&attachment()).exists());
    }
}
