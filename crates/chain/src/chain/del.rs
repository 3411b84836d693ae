//! DEL of an attachment: by its record, or by today's configuration.

use cni::{Attachment, Command, Error, NetworkConfig};
use serde_json::value::RawValue;

use crate::call::{CommonVersions, Delegates};
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
        let versions = &mut CommonVersions::default();
        let found = lock::acquire(&self.records, attachment, IfMissing::Leave, WhenBusy::Wait);
        let undone = found.and_then(|found| self.undo(attachment, &self.config, found, versions));
        let failed = undone.map_or_else(|not_begun| vec![not_begun], |undone| undone.failed);
        Error::all_as_one(failed).map_err(|error| self.with_record(attachment, error))
    }

    /// Runs DEL for an attachment whose record was looked for and locked: by the record, which is
    /// then removed, or by `today`'s configuration.
    ///
    /// # Errors
    ///
    /// Code 5 if nobody knows what to release: no delegate has run.
    pub(super) fn undo(
        &self,
        attachment: &Attachment,
        today: &NetworkConfig,
        found: Lookup<LockedRecord>,
        versions: &mut CommonVersions,
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
        let failed = self.undo_locked(attachment, today, locked.as_ref(), versions);
        let is_removed = failed.is_empty() && locked.is_some_and(|locked| locked.file.remove());
        Ok(Undone {
            failed,
            is_recorded: !is_missing && !is_removed,
        })
    }

    /// Runs DEL for an attachment whose record is locked, if it has one. The record is not
    /// removed. Returns the errors of the failed delegates.
    pub(super) fn undo_locked(
        &self,
        attachment: &Attachment,
        today: &NetworkConfig,
        locked: Option<&LockedRecord>,
        versions: &mut CommonVersions,
    ) -> Vec<Error> {
        let file = locked.map(|locked| &locked.file);
        match locked.map(|locked| (&locked.file, &locked.content)) {
            Some((_, Some(Err(reason)))) => {
                if let Err(error) = self.go_on_without_record(attachment, reason) {
                    return vec![error];
                }
            }
            Some((file, Some(Ok(record)))) => {
                let environment = self.environment_of(attachment, Some(record));
                let delegates = self.delegates(environment, Some(file));
                let given = today.raw_prev_result();
                return undo_recorded(attachment, record, file, given, delegates, versions);
            }
            Some((_, None)) | None => {}
        }
        let delegates = self.delegates(self.environment_of(attachment, None), file);
        let steps = Step::all(&self.settings.delegates, today);
        let attachment = Some(attachment);
        steps::errors(&delegates, versions, Command::Del, attachment, &steps, None)
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
    versions: &mut CommonVersions,
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
    let (del, attachment) = (Command::Del, Some(attachment));
    steps::errors(&delegates, versions, del, attachment, &steps, prev_result)
}
