//! GC: undoes the recorded attachments that aren't valid any more, so that delegates
//! which know no GC are collected too; then runs the delegates.

use std::collections::HashSet;

use cni::{Attachment, Command, Environment, Error, code};

use crate::call::installed_delegates::InstalledDelegates;
use crate::chain::Chain;
use crate::record::attachment_record::AttachmentRecord;
use crate::record::lock;
use crate::run::failed_delegate::FailedDelegate;
use crate::run::step::Step;
use crate::run::steps::{self, OnFailure};

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
    /// Code 7 without that list; else as DEL.
    pub fn gc(&self) -> Result<(), Error> {
        let valid = match self.config.valid_attachments() {
            Ok(valid) => valid,
            // Without the list, no attachment is known to be stale. Each delegate decides what
            // it does.
            Err(mut refusal) => {
                if let Err(more) = Error::all_as_one(self.gc_of_delegates()) {
                    refusal.msg = format!("{}; {}", refusal.msg, more.msg);
                }
                return Err(refusal);
            }
        };
        let (mut errors, unknown) = self.undo_stale(&valid.into_iter().collect());
        if unknown.is_empty() {
            errors.extend(self.gc_of_delegates());
        }
        Error::all_as_one(unknown.into_iter().chain(errors))
    }

    /// Runs the delegates with GC; returns the errors of the failed ones.
    fn gc_of_delegates(&self) -> Vec<Error> {
        let steps = Step::all(&self.settings.delegates, self.config);
        let mut delegates = InstalledDelegates::new(self, self.environment.clone());
        let goes_on = OnFailure::Continue;
        let failed = steps::run(&mut delegates, Command::Gc, None, &steps, None, goes_on);
        failed.into_iter().map(FailedDelegate::into_error).collect()
    }

    /// Undoes the recorded attachments that aren't valid. Returns the errors of the failed
    /// delegates, and those of attachments with unknown state.
    fn undo_stale(&self, valid: &HashSet<Attachment>) -> (Vec<Error>, Vec<Error>) {
        let (mut failed, mut unknown) = (Vec::new(), Vec::new());
        let stale = || {
            let mut recorded = self.records.attachments()?;
            recorded.retain(|attachment| !valid.contains(attachment));
            Ok(recorded)
        };
        let today = self.config.without_call();
        let mut remaining = HashSet::new();
        let unreadable = |error| lock::unknown(self.records.folder(), &error);
        for attachment in stale().unwrap_or_else(|error| {
            unknown.push(unreadable(error));
            Vec::new()
        }) {
            tracing::debug!(%attachment, "not valid any more: undoing it");
            let environment =
                |record: Option<&AttachmentRecord>| self.parameters(&attachment, record);
            match self.del_with(&attachment, &today, environment) {
                Ok((errors, is_recorded)) => {
                    failed.extend(errors);
                    if !is_recorded {
                        continue;
                    }
                }
                Err(error) => unknown.push(error),
            }
            remaining.insert(attachment);
        }
        // The specification requires of the runtime that no ADD is running. One that is
        // running has a record.
        match stale() {
            Ok(stale) => unknown.extend(
                stale
                    .iter()
                    .filter(|attachment| !remaining.contains(attachment))
                    .map(has_begun),
            ),
            Err(error) => unknown.push(unreadable(error)),
        }
        (failed, unknown)
    }

    /// The environment of a runtime's DEL of the attachment.
    pub(crate) fn parameters(
        &self,
        attachment: &Attachment,
        record: Option<&AttachmentRecord>,
    ) -> Environment {
        self.environment
            .clone()
            .with("CNI_CONTAINERID", attachment.container_id.as_str())
            .with("CNI_IFNAME", attachment.ifname.as_str())
            .with("CNI_NETNS", record.map_or("", |record| &record.netns))
            .with("CNI_ARGS", record.map_or("", |record| &record.args))
    }
}

fn has_begun(attachment: &Attachment) -> Error {
    Error::new(
        code::TRY_AGAIN_LATER,
        format!("an ADD of {attachment} has begun during this GC"),
    )
}
