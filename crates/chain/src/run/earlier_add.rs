//! Prepares an attachment for an ADD: undoes an earlier ADD that the runtime has let go of, and
//! refuses the attachment if that isn't proven.

use cni::{Attachment, Error, code};

use crate::call::InstalledDelegates;
use crate::chain::Chain;
use crate::record::{
    AttachmentRecord, IfMissing, LockedRecord, Lookup, Namespace, RecordFile, RecordState,
    WhenBusy, lock,
};

/// Prepares an attachment for an ADD: an earlier ADD is undone if it didn't end, if its DEL has begun, or if
/// its network namespace is gone. Returns the file of the attachment's record, locked and empty;
/// `None` if it can't be opened.
///
/// # Errors
///
/// Code 110 if the attachment is on the network; code 11 if another call is running, or if
/// it is unknown whether there is a record; code 5 if the record can't be emptied; otherwise the
/// error of the DEL that undoes the earlier ADD.
pub(crate) fn clear(
    chain: &Chain<'_>,
    attachment: &Attachment,
) -> Result<Option<RecordFile>, Error> {
    let path = chain.records.file(attachment);
    let found = lock::acquire(&chain.records, attachment, IfMissing::Make, WhenBusy::Wait)?;
    let LockedRecord { file, content } = match found {
        Lookup::Found(locked) => locked,
        Lookup::Missing => return Ok(None),
        Lookup::Unusable(error) => {
            tracing::warn!(path = %path.display(), %error, "the attachment is not recorded");
            return Ok(None);
        }
    };
    match content {
        None => return Ok(Some(file)),
        Some(Err(reason)) => {
            tracing::warn!(path = %path.display(), reason, "replacing a record that can't be used");
        }
        Some(Ok(record)) => {
            let reason = reason_to_undo(&record).ok_or_else(|| refusal(chain, attachment))?;
            tracing::warn!(reason, "undoing an earlier ADD");
            undo(chain, attachment, &record, &file)?;
        }
    }
    if !file.clear() {
        let record = format_args!("record {}", path.display());
        return Err(Error::io(
            record,
            "the earlier ADD can't be removed from it",
        ));
    }
    Ok(Some(file))
}

/// The proof that the runtime has let go of the attachment; `None` without one.
fn reason_to_undo(record: &AttachmentRecord) -> Option<String> {
    match record.state {
        RecordState::Adding => Some("it did not end".to_owned()),
        RecordState::Deleting => Some("its DEL has begun".to_owned()),
        RecordState::Added => match record.namespace() {
            Namespace::Gone(reason) => Some(reason),
            Namespace::There | Namespace::Unknown(_) => None,
        },
    }
}

fn refusal(chain: &Chain<'_>, attachment: &Attachment) -> Error {
    let (network, path) = (chain.config.name(), chain.records.file(attachment));
    Error::new(
        code::ALREADY_ALLOCATED,
        format!("{attachment} is already on network {network}: another ADD needs a DEL first"),
    )
    .with_line(&format!("recorded in {}", path.display()))
}

/// Undoes the ADD of a record.
fn undo(
    chain: &Chain<'_>,
    attachment: &Attachment,
    record: &AttachmentRecord,
    file: &RecordFile,
) -> Result<(), Error> {
    let environment = chain.environment_of(attachment, Some(record));
    let delegates = InstalledDelegates::new(chain, environment).holding(Some(file));
    let failed = chain.undo_recorded(attachment, record, Some(file), None, delegates.bounded());
    Error::all_as_one(failed).map_err(|error| chain.with_record(attachment, error))
}
