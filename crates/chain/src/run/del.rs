//! DEL of an attachment: by its record, or by today's configuration.

use cni::{Attachment, Command, Error, NetworkConfig};
use serde_json::value::RawValue;

use crate::call::InstalledDelegates;
use crate::chain::Chain;
use crate::record::{
    AttachmentRecord, IfMissing, Line, LockedRecord, Lookup, RecordFile, RecordState, WhenBusy,
    lock,
};
use crate::run::steps::{self, FailedDelegate, OnFailure, Step};

/// Outcome of the DEL of an attachment.
pub(crate) struct Undone {
    /// The errors of the failed delegates.
    pub(crate) failed: Vec<Error>,
    /// True if there may still be a record: a delegate has failed, or the record can't be changed.
    pub(crate) is_recorded: bool,
}

impl Chain<'_> {
    /// DEL: by the attachment's record alone, with its delegates, configuration, `CNI_ARGS` and
    /// results. Without a record, the delegates of today's configuration run.
    ///
    /// # Errors
    ///
    /// The first failed delegate's code and all of their messages, after all have run; code 11
    /// if another call, or a process that it has left, holds the attachment's lock, or if its
    /// record can't be read now.
    pub fn del(&self, attachment: &Attachment) -> Result<(), Error> {
        let undone = self.undo(attachment, &self.config);
        let failed = undone.map_or_else(|not_begun| vec![not_begun], |undone| undone.failed);
        Error::all_as_one(failed).map_err(|error| self.with_record(attachment, error))
    }

    /// Runs DEL for an attachment: by its record, which is then removed, or by `today`'s
    /// configuration.
    ///
    /// # Errors
    ///
    /// Code 11 if no delegate has run: the attachment is locked, or its record can't be read
    /// now; code 5 if nobody knows what to release.
    pub(crate) fn undo(
        &self,
        attachment: &Attachment,
        today: &NetworkConfig,
    ) -> Result<Undone, Error> {
        let found = lock::acquire(&self.records, attachment, IfMissing::Leave, WhenBusy::Wait)?;
        self.undo_found(attachment, today, found)
    }

    /// As [`Self::undo`], for an attachment whose record was looked for and locked.
    ///
    /// # Errors
    ///
    /// Code 5 if nobody knows what to release.
    pub(crate) fn undo_found(
        &self,
        attachment: &Attachment,
        today: &NetworkConfig,
        found: Lookup<LockedRecord>,
    ) -> Result<Undone, Error> {
        let is_missing = matches!(found, Lookup::Missing);
        let locked = match found {
            Lookup::Found(locked) => Some(locked),
            Lookup::Missing => None,
            Lookup::Unusable(error) => {
                self.go_on_without_record(attachment, &error.to_string())?;
                None
            }
        };
        let failed = self.undo_locked(attachment, today, locked.as_ref());
        let is_removed = failed.is_empty() && locked.is_some_and(|locked| locked.file.remove());
        Ok(Undone {
            failed,
            is_recorded: !is_missing && !is_removed,
        })
    }

    /// Runs DEL for an attachment whose record is locked, if it has one. The record is not
    /// removed. Returns the errors of the failed delegates.
    pub(crate) fn undo_locked(
        &self,
        attachment: &Attachment,
        today: &NetworkConfig,
        locked: Option<&LockedRecord>,
    ) -> Vec<Error> {
        let file = locked.map(|locked| &locked.file);
        match locked.and_then(|locked| locked.content.as_ref()) {
            None => {}
            Some(Err(reason)) => {
                if let Err(error) = self.go_on_without_record(attachment, reason) {
                    return vec![error];
                }
            }
            Some(Ok(record)) => {
                let environment = self.environment_of(attachment, Some(record));
                let delegates = InstalledDelegates::new(self, environment).holding(file);
                let given = today.raw_prev_result();
                return self.undo_recorded(attachment, record, file, given, delegates);
            }
        }
        let delegates = InstalledDelegates::new(self, self.environment_of(attachment, None));
        let steps = Step::all(&self.settings.delegates, today);
        run(attachment, delegates.holding(file), &steps, None)
    }

    /// Runs DEL for an attachment by its record alone, with these delegates. `given` is the
    /// runtime's `prevResult`, for a record without a result of the chain. The record is not
    /// removed. Returns the errors of the failed delegates.
    pub(crate) fn undo_recorded(
        &self,
        attachment: &Attachment,
        record: &AttachmentRecord,
        file: Option<&RecordFile>,
        given: Option<&RawValue>,
        delegates: InstalledDelegates<'_, '_>,
    ) -> Vec<Error> {
        if record.is_callers {
            return vec![record.refusal(attachment)];
        }
        tracing::debug!(added_by_trace = record.trace, "undoing what is recorded");
        let config = match record.config() {
            // The recorded results count, not a `prevResult` that an older version has recorded.
            Ok(config) => config.without_prev_result().into_owned(),
            Err(damaged) => return vec![damaged],
        };
        match file {
            Some(file) if record.state == RecordState::Deleting => file.touch(),
            Some(file) => file.append(&[Line::deleting()]),
            None => {}
        }
        let recorded = record.recorded_delegates().into_iter();
        let steps: Vec<Step<'_>> = recorded
            .map(|delegate| Step::recorded(delegate, &config))
            .collect();
        let prev_result = record.answer().or(given).map(ToOwned::to_owned);
        run(attachment, delegates.timed_as(&config), &steps, prev_result)
    }

    /// Logs that the record can't be used, and that the delegates of today's configuration run.
    ///
    /// # Errors
    ///
    /// Code 5 if today's configuration has no usable delegates: nobody knows what to release.
    fn go_on_without_record(&self, attachment: &Attachment, reason: &str) -> Result<(), Error> {
        let path = self.records.file(attachment);
        let path = path.display();
        if self.settings.delegates.is_empty() {
            let record = format_args!("ipam.delegates can't be used, nor the record {path}");
            return Err(Error::io(record, reason));
        }
        tracing::warn!(%path, reason, "the record can't be used: doing what the configuration says");
        Ok(())
    }
}

fn run(
    attachment: &Attachment,
    mut delegates: InstalledDelegates<'_, '_>,
    steps: &[Step<'_>],
    prev_result: Option<Box<RawValue>>,
) -> Vec<Error> {
    let failed = steps::run(
        &mut delegates,
        Command::Del,
        Some(attachment),
        steps,
        prev_result,
        OnFailure::Continue,
    );
    failed.into_iter().map(FailedDelegate::into_error).collect()
}
