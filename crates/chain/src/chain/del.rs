//! DEL of an attachment: by its record, or by today's configuration.

use cni::{Attachment, Command, Error, NetworkConfig};
use serde_json::value::RawValue;

use crate::call::Delegates;
use crate::chain::Chain;
use crate::record::{
    AttachmentRecord, IfMissing, Line, LockedRecord, Lookup, RecordFile, RecordState, WhenBusy,
    lock,
};
use crate::run::steps::{self, Step};
use crate::settings;

/// Outcome of the DEL of an attachment.
#[derive(Default)]
pub(super) struct Undone {
    /// The errors of the failed delegates.
    pub(super) failed: Vec<Error>,
    /// True if there may still be a record: a delegate has failed, or the record can't be changed.
    pub(super) is_recorded: bool,
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
        let found = lock::acquire(&self.records, attachment, IfMissing::Leave, WhenBusy::Wait);
        let undone = found.and_then(|found| self.undo(attachment, &self.config, found));
        let released = undone.and_then(|undone| Error::all_as_one(undone.failed));
        released.map_err(|error| self.with_record(attachment, error))
    }

    /// Runs DEL for an attachment whose record was looked for and locked: by the record, which is
    /// then removed, or by `today`'s configuration. A record in which nothing was written is removed
    /// in any case.
    ///
    /// # Errors
    ///
    /// Code 5 if nobody knows what to release: no delegate has run.
    pub(super) fn undo(
        &self,
        attachment: &Attachment,
        today: &NetworkConfig,
        found: Lookup<LockedRecord>,
    ) -> Result<Undone, Error> {
        let is_missing = matches!(found, Lookup::Missing);
        let (file, content) = match found {
            Lookup::Found(LockedRecord { file, content }) => (Some(file), content),
            Lookup::Missing => (None, None),
            Lookup::Unusable(error) => (None, Some(Err(error.to_string()))),
        };
        let is_empty = content.is_none();
        let failed = match (&file, content) {
            (Some(file), Some(Ok(record))) => {
                let given = today.raw_prev_result();
                let environment = self.environment_of(attachment, Some(&record));
                let delegates = self.delegates(environment, Some(file));
                undo_recorded(attachment, &record, file, given, delegates)
            }
            (file, content) => {
                if let Some(Err(reason)) = content {
                    self.go_on_without_record(attachment, &reason)?;
                }
                let environment = self.environment_of(attachment, None);
                let delegates = self.delegates(environment, file.as_ref());
                let steps = Step::all(&self.settings.delegates, today);
                steps::errors(&delegates, Command::Del, &steps, None)
            }
        };
        let is_done = failed.is_empty() || is_empty;
        let is_removed = is_done && file.is_some_and(|file| file.remove());
        Ok(Undone {
            failed,
            is_recorded: !is_missing && !is_removed,
        })
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

/// Runs DEL for an attachment by its record alone, with these delegates. `given` is the
/// runtime's `prevResult`, for a record without a result of the chain. The record is not
/// removed. Returns the errors of the failed delegates.
pub(super) fn undo_recorded(
    attachment: &Attachment,
    record: &AttachmentRecord,
    file: &RecordFile,
    given: Option<&RawValue>,
    mut delegates: Delegates<'_, '_>,
) -> Vec<Error> {
    if record.is_undone_by_caller {
        return vec![record.refusal(attachment)];
    }
    tracing::debug!(added_by_trace = record.trace, "undoing what is recorded");
    let config = match record.config() {
        // The recorded results count, not a `prevResult` that an older version has recorded.
        Ok(config) => config.without_prev_result().into_owned(),
        Err(damaged) => return vec![damaged],
    };
    match record.state {
        RecordState::Deleting => file.touch(),
        _ => file.append(&[Line::deleting()]),
    }
    let ipam = config.ipam().unwrap_or_default();
    delegates.limits.timeout = settings::timeout_to_release(&ipam);
    let recorded = record.delegates.iter();
    let steps: Vec<Step<'_>> = recorded
        .map(|delegate| Step::recorded(delegate, &config))
        .collect();
    let prev_result = record.answer().or(given).map(ToOwned::to_owned);
    steps::errors(&delegates, Command::Del, &steps, prev_result)
}
