//! GC: undoes the recorded attachments that aren't valid any more, so that delegates
//! which know no GC are collected too; then runs the delegates.

use std::collections::HashSet;

use cni::{Attachment, Command, Error, code};

use crate::call::InstalledDelegates;
use crate::chain::Chain;
use crate::record::lock;
use crate::run::steps::{self, FailedDelegate, OnFailure, Step};

impl Chain<'_> {
    /// GC: undoes each recorded attachment that `cni.dev/valid-attachments` doesn't list,
    /// and runs the delegates, past all failures.
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
        let mut stale = self.undo_stale(&valid.into_iter().collect());
        if stale.unknown.is_empty() {
            let steps = Step::all(&self.settings.delegates, &self.config);
            let mut delegates = InstalledDelegates::new(self, self.environment.clone());
            let goes_on = OnFailure::Continue;
            let failed = steps::run(&mut delegates, Command::Gc, None, &steps, None, goes_on);
            let errors = failed.into_iter().map(FailedDelegate::into_error);
            stale.failed.extend(errors);
        }
        Error::all_as_one(stale.unknown.into_iter().chain(stale.failed))
    }

    /// Undoes the recorded attachments that aren't valid.
    fn undo_stale(&self, valid: &HashSet<Attachment>) -> Stale {
        let mut result = Stale::default();
        let today = self.config.without_call();
        let mut remaining = HashSet::new();
        for attachment in self.stale(valid, &mut result.unknown) {
            tracing::debug!(%attachment, "not valid any more: undoing it");
            match self.undo(&attachment, &today) {
                Ok(undone) => {
                    result.failed.extend(undone.failed);
                    if !undone.is_recorded {
                        continue;
                    }
                }
                Err(error) => result.unknown.push(error),
            }
            remaining.insert(attachment);
        }
        // The specification requires of the runtime that no ADD is running. One that is
        // running has a record.
        let now = self.stale(valid, &mut result.unknown);
        let begun = now.iter().filter(|stale| !remaining.contains(stale));
        result.unknown.extend(begun.map(has_begun));
        result
    }

    /// The recorded attachments that aren't valid; none if they can't be listed.
    fn stale(&self, valid: &HashSet<Attachment>, unknown: &mut Vec<Error>) -> Vec<Attachment> {
        let mut recorded = self.records.attachments().unwrap_or_else(|error| {
            unknown.push(lock::unknown(self.records.folder(), &error));
            Vec::new()
        });
        recorded.retain(|attachment| !valid.contains(attachment));
        recorded
    }
}

/// Outcome of the DELs of attachments that aren't valid.
#[derive(Default)]
struct Stale {
    /// The errors of the failed delegates.
    failed: Vec<Error>,
    /// The errors of attachments whose state is unknown.
    unknown: Vec<Error>,
}

fn has_begun(attachment: &Attachment) -> Error {
    Error::new(
        code::TRY_AGAIN_LATER,
        format!("an ADD of {attachment} has begun during this GC"),
    )
}
