//! Acquires an attachment's lock: that of its record's file. Every delegate inherits it, so
//! it is held until all that an earlier call has started has ended.

use std::io;
use std::path::Path;
use std::time::Duration;

use cni::{Attachment, Error, code};

use crate::context::Context;
use crate::journal::{Journal, Journals, Opened};
use crate::record::Record;

/// Longest wait for the lock. The delegates of a killed call end within milliseconds.
const PATIENCE: Duration = Duration::from_secs(2);

/// The record of an attachment, as it was found.
pub(crate) enum Found {
    /// The record is locked.
    Locked(Box<LockedJournal>),
    /// There is none.
    Missing,
    /// There is none that may be used, for this reason; or none can be made.
    Unusable(io::Error),
}

/// A locked journal, and the record in it.
pub(crate) struct LockedJournal {
    pub(crate) journal: Journal,
    /// `None` if nothing has been written yet; else the record, or the reason why it is
    /// damaged.
    pub(crate) record: Option<Result<Record, String>>,
}

/// What to do if there is no record.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfMissing {
    /// An empty one is made, for its lock.
    Make,
    /// None is made.
    Leave,
}

/// Opens an attachment's journal and locks it. A call that holds the lock is waited for
/// if `waits` is set.
///
/// # Errors
///
/// Code 11 if the lock is held, or if it is not known whether there is a record or what is in
/// it. Then nothing may be released, and nothing forgotten.
pub(crate) fn acquire(
    context: &Context<'_>,
    attachment: &Attachment,
    if_missing: IfMissing,
    waits: bool,
) -> Result<Found, Error> {
    let lock = |journal: &mut Journal| lock(context, journal, waits);
    acquire_in(&context.journals, attachment, if_missing, lock)
}

/// As [`acquire`], for a caller that is no chain: a call that holds the lock is waited for.
///
/// # Errors
///
/// As [`acquire`].
pub(crate) fn acquire_waiting(
    journals: &Journals,
    attachment: &Attachment,
    if_missing: IfMissing,
) -> Result<Found, Error> {
    acquire_in(journals, attachment, if_missing, |journal| {
        journal.lock(PATIENCE)
    })
}

fn acquire_in(
    journals: &Journals,
    attachment: &Attachment,
    if_missing: IfMissing,
    lock: impl Fn(&mut Journal) -> io::Result<bool>,
) -> Result<Found, Error> {
    let path = journals.file(attachment);
    let unknown = |error: io::Error| unknown(&path, &error);
    loop {
        let opened = match if_missing {
            IfMissing::Make => journals.create(attachment),
            IfMissing::Leave => journals.open(attachment),
        };
        let mut journal = match opened.map_err(unknown)? {
            Opened::Journal(journal) => journal,
            Opened::Missing => return Ok(Found::Missing),
            Opened::Unusable(error) => return Ok(Found::Unusable(error)),
        };
        match lock(&mut journal) {
            Ok(true) => {
                let record = journals.read(&journal, attachment);
                let record = record.map_err(unknown)?;
                let locked = LockedJournal { journal, record };
                return Ok(Found::Locked(Box::new(locked)));
            }
            Ok(false) => return Err(held(attachment, &journal)),
            // The holder of the lock has removed the file: opened again.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(unknown(error)),
        }
    }
}

fn lock(context: &Context<'_>, journal: &mut Journal, waits: bool) -> io::Result<bool> {
    if journal.lock(Duration::ZERO)? {
        return Ok(true);
    }
    if !waits {
        return Ok(false);
    }
    tracing::debug!("waiting for the attachment's lock");
    let wait = |most: Duration| journal.lock(most.min(PATIENCE));
    context.overtime.spend(wait)
}

/// The error of a record that can't be read now.
pub(crate) fn unknown(path: &Path, error: &io::Error) -> Error {
    Error::new(
        code::TRY_AGAIN_LATER,
        format!("record {}: {error}", path.display()),
    )
}

/// The error of a lock that is held.
fn held(attachment: &Attachment, journal: &Journal) -> Error {
    let holders = match journal.holders() {
        Ok(holders) => holders,
        Err(error) => {
            tracing::warn!(%error, "/proc doesn't say who holds the attachment's lock");
            Vec::new()
        }
    };
    let who: Vec<String> = holders.iter().map(ToString::to_string).collect();
    let who = match who.as_slice() {
        [] => "it, or a process that it has started, is not in this /proc".to_owned(),
        who => format!("process {}", who.join(", ")),
    };
    Error::new(
        code::TRY_AGAIN_LATER,
        format!("an earlier call for {attachment} is still running ({who})"),
    )
}
