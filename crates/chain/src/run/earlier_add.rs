//! Prepares an attachment for an ADD: refuses it if it is added already, and undoes an
//! earlier ADD that is not complete.

use cni::{Attachment, Command, Error, code};

use crate::call::installed_delegates::InstalledDelegates;
use crate::chain::Chain;
use crate::record::attachment_record::{AttachmentRecord, RecordState};
use crate::record::file::RecordFile;
use crate::record::folder::Found;
use crate::record::lock::IfMissing;
use crate::run::prev_result::checkable;
use crate::run::step::Step;
use crate::run::steps::{self, OnFailure};

/// An attachment that is ready for an ADD.
pub(crate) struct Cleared {
    /// The file of the attachment's record, locked and empty; `None` if it can't be opened.
    pub(crate) file: Option<RecordFile>,
    /// True if an earlier ADD was undone.
    pub(crate) has_undone: bool,
}

/// Prepares the attachment: an earlier ADD that is not complete, or is known to be from
/// before the last boot, is undone.
///
/// # Errors
///
/// Code 110 if the attachment is on the network; code 11 if another call is running, or if
/// it is unknown whether there is a record; otherwise the error of the DEL that undoes the
/// earlier ADD.
pub(crate) fn clear(chain: &Chain<'_>, attachment: &Attachment) -> Result<Cleared, Error> {
    let path = chain.records.file(attachment);
    let locked = match chain.lock_record(attachment, IfMissing::Make)? {
        Found::Record(locked) => locked,
        Found::Unusable(error) => {
            tracing::warn!(path = %path.display(), %error, "the attachment is not recorded");
            return Ok(Cleared {
                file: None,
                has_undone: false,
            });
        }
    };
    let file = locked.file;
    let is_new = locked.content.is_none();
    let mut has_undone = false;
    match locked.content {
        None => {}
        Some(Err(reason)) => {
            tracing::warn!(path = %path.display(), reason, "replacing a record that can't be used");
        }
        Some(Ok(record)) if is_complete(chain, &record) => {
            refuse_unless_lost(chain, attachment, &record, &file)?;
            tracing::warn!(
                "the record says that the attachment is added, and CHECK says otherwise: adding it"
            );
        }
        Some(Ok(record)) => {
            tracing::warn!(
                "undoing an earlier ADD, which was not complete or was before the last boot"
            );
            undo(chain, attachment, &record, &file)?;
            has_undone = true;
        }
    }
    if !is_new {
        file.clear();
    }
    Ok(Cleared {
        file: Some(file),
        has_undone,
    })
}

/// True unless the ADD of the record has not succeeded, or a DEL has begun, or the ADD is
/// known to be from before the last boot.
fn is_complete(chain: &Chain<'_>, record: &AttachmentRecord) -> bool {
    if record.state != RecordState::Added {
        return false;
    }
    let (Some(then), Some(now)) = (&record.boot, chain.boot()) else {
        return true;
    };
    !now.is_after(then, record.added).unwrap_or_else(|error| {
        tracing::warn!(%error, "the start of the last boot is unknown: asking CHECK");
        false
    })
}

/// Undoes the ADD of a record.
fn undo(
    chain: &Chain<'_>,
    attachment: &Attachment,
    record: &AttachmentRecord,
    file: &RecordFile,
) -> Result<(), Error> {
    let environment = chain.environment.clone();
    let environment = match record.state {
        // An ADD before that one, which nobody has recorded, may be in use.
        RecordState::Adding => record.call.mark_rollback(environment),
        RecordState::Added | RecordState::Deleting => environment,
    };
    let delegates = InstalledDelegates::new(chain, environment)
        .holding(Some(file))
        .bounded();
    let failed = chain.del_by_record(attachment, record, file, chain.config, delegates);
    Error::all_as_one(failed).map_err(|error| chain.with_record(attachment, error))
}

/// Refuses the ADD unless CHECK of the recorded delegates, with the recorded result, fails with
/// code 112: the attachment has lost its address, since another program may have undone the ADD.
fn refuse_unless_lost(
    chain: &Chain<'_>,
    attachment: &Attachment,
    record: &AttachmentRecord,
    file: &RecordFile,
) -> Result<(), Error> {
    let config = record.config();
    let config = checkable(config.as_ref().unwrap_or(chain.config));
    let recorded = record.recorded_delegates().into_iter();
    let steps: Vec<Step<'_>> = recorded
        .map(|delegate| Step::recorded(delegate, &config))
        .collect();
    let mut installed =
        InstalledDelegates::new(chain, chain.environment.clone()).holding(Some(file));
    let failed = steps::run(
        &mut installed,
        Command::Check,
        Some(attachment),
        &steps,
        record.answer().map(ToOwned::to_owned),
        OnFailure::Stop,
    );
    let reason = match failed.into_iter().next() {
        None => String::new(),
        // Any other error may be temporary. An attachment in use must not be added again.
        Some(failed) if failed.error.code == code::NOT_RESERVED => return Ok(()),
        Some(failed) => format!("CHECK could not tell: {}", failed.into_error()),
    };
    let (network, path) = (chain.config.name(), chain.records.file(attachment));
    Err(Error::new(
        code::ALREADY_ALLOCATED,
        format!("{attachment} is already on network {network}: another ADD needs a DEL first"),
    )
    .with_line(&format!("recorded in {}", path.display()))
    .with_line(&reason))
}
