//! GC: undoes the recorded attachments that aren't valid any more, so that delegates
//! which know no GC are collected too; then runs the delegates.
//!
//! The list is of one runtime, and several may use the network: what lives by its network namespace
//! is kept, whoever doesn't list it.

use std::borrow::Cow;
use std::collections::HashSet;

use cni::{Attachment, Command, Error, NetworkConfig, code};

use crate::chain::Chain;
use crate::chain::del::Undone;
use crate::record::{AttachmentRecord, IfMissing, Liveness, LockedRecord, Lookup, WhenBusy, lock};
use crate::run::steps::{self, Step};

impl Chain<'_> {
    /// GC: undoes each recorded attachment that `cni.dev/valid-attachments` doesn't list,
    /// and runs the delegates, past all failures. One whose network namespace is there, or may be,
    /// is kept: the delegates get it as a valid one.
    ///
    /// The delegates don't run with GC while an attachment that isn't valid is locked, or can't
    /// be read: an ADD that the list doesn't know may be running, and they would release its
    /// address.
    ///
    /// # Errors
    ///
    /// Code 7 without that list: nothing is known to be stale; else as DEL.
    pub fn gc(&self) -> Result<(), Error> {
        let valid = self.config.valid_attachments()?;
        let valid = valid.into_iter().collect();
        let mut stale = Stale::default();
        let remaining = self.undo_stale(&valid, &mut stale);
        // The specification requires of the runtime that no ADD is running. Another runtime's has a
        // record, or waits with it until the delegates have ended.
        let _held_back = self.records.hold_back().unwrap_or_else(|error| {
            stale
                .unknown
                .push(lock::unknown(&self.records.folder, &error));
            None
        });
        let now = self.stale(&valid, &mut stale.unknown);
        let begun = now.iter().filter(|stale| !remaining.contains(stale));
        stale.unknown.extend(begun.map(|attachment| {
            let why = format!("an ADD of {attachment} has begun during this GC");
            Error::new(code::TRY_AGAIN_LATER, why)
        }));
        if stale.unknown.is_empty() {
            let config = match stale.kept.as_slice() {
                [] => Cow::Borrowed(&*self.config),
                kept => Cow::Owned(self.config.with_more_valid(kept)?),
            };
            let steps = Step::all(&self.settings.delegates, &config);
            let delegates = self.delegates(self.environment.clone(), None);
            let errors = steps::errors(&delegates, Command::Gc, &steps, None);
            stale.failed.extend(errors);
        }
        Error::all_as_one(stale.unknown.into_iter().chain(stale.failed))
    }

    /// Undoes the recorded attachments that aren't valid. Returns those that still have a record.
    fn undo_stale(&self, valid: &HashSet<Attachment>, result: &mut Stale) -> HashSet<Attachment> {
        let today = self.config.without_call();
        let mut remaining = HashSet::new();
        for attachment in self.stale(valid, &mut result.unknown) {
            match self.undo_unless_alive(&attachment, &today) {
                Ok(None) => result.kept.push(attachment.clone()),
                Ok(Some(undone)) => {
                    result.failed.extend(undone.failed);
                    if !undone.is_recorded {
                        continue;
                    }
                }
                Err(error) => result.unknown.push(error),
            }
            remaining.insert(attachment);
        }
        remaining
    }

    /// Undoes an attachment that no list names; `None` if it is kept, which is logged.
    ///
    /// # Errors
    ///
    /// As [`Self::undo`]; code 11 if the attachment is locked, or its record can't be read now.
    fn undo_unless_alive(
        &self,
        attachment: &Attachment,
        today: &NetworkConfig,
    ) -> Result<Option<Undone>, Error> {
        let found = lock::acquire(&self.records, attachment, IfMissing::Leave, WhenBusy::Wait)?;
        if let Some(reason) = reason_to_keep(&found) {
            let path = self.records.file(attachment);
            tracing::warn!(
                %attachment,
                record = %path.display(),
                reason,
                "kept, though it is not among the valid attachments"
            );
            return Ok(None);
        }
        if let Lookup::Missing = found {
            // Its DEL has ended since the records were listed. An ADD may begin at any time.
            return Ok(Some(Undone::default()));
        }
        tracing::debug!(%attachment, "not valid any more: undoing it");
        self.undo(attachment, today, found).map(Some)
    }

    /// The recorded attachments that aren't valid; none if they can't be listed.
    fn stale(&self, valid: &HashSet<Attachment>, unknown: &mut Vec<Error>) -> Vec<Attachment> {
        let mut recorded = self.records.attachments().unwrap_or_else(|error| {
            unknown.push(lock::unknown(&self.records.folder, &error));
            Vec::new()
        });
        recorded.retain(|attachment| !valid.contains(attachment));
        recorded
    }
}

/// Outcome of the DELs of attachments that aren't valid.
#[derive(Default)]
struct Stale {
    /// Those that are alive, or may be.
    kept: Vec<Attachment>,
    /// The errors of the failed delegates.
    failed: Vec<Error>,
    /// The errors of attachments whose state is unknown.
    unknown: Vec<Error>,
}

/// The reason to keep an attachment that a list doesn't name.
fn reason_to_keep(found: &Lookup<LockedRecord>) -> Option<String> {
    let content = match found {
        Lookup::Found(locked) => locked.content.as_ref()?,
        Lookup::Missing => return None,
        Lookup::Unusable(error) => return Some(format!("its record can't be used: {error}")),
    };
    match content.as_ref().map(AttachmentRecord::liveness) {
        Ok(Liveness::Alive(reason)) => Some(reason),
        Ok(Liveness::Unknown(reason)) => Some(format!("whether it is alive is unknown: {reason}")),
        Ok(Liveness::Gone(_) | Liveness::LetGo(_) | Liveness::Unproven(_)) => None,
        Err(reason) => Some(format!("its record can't be used: {reason}")),
    }
}
