//! Release of one attachment by a tool: DEL by the record, which leaves a call that is
//! running alone.

use cni::{Attachment, Error, code};

use crate::attachment_lock::{self, Found, IfMissing};
use crate::context::Context;
use crate::del;
use crate::failure;
use crate::gc;
use crate::tools::AttachmentRecord;

/// Treatment of an attachment that is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenBusy {
    /// The release is refused at once.
    Refuse,
    /// The lock is waited for, at most two seconds; then the release is refused.
    Wait,
}

/// What a release has come to, if nothing failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Released {
    /// The delegates have run.
    Done,
    /// Nothing was done, for this reason.
    Refused(String),
}

/// Runs DEL for an attachment, unless a call for it is running, or `refuse` returns a
/// reason. `refuse` gets the record, and is asked while the attachment is locked: nothing
/// changes between its answer and the DEL.
pub(crate) fn release(
    context: &Context<'_>,
    attachment: &Attachment,
    when_busy: WhenBusy,
    refuse: impl FnOnce(Option<&AttachmentRecord>) -> Option<String>,
) -> Result<Released, Error> {
    // Without a record, the lock's file is made, so that an ADD waits.
    let waits = when_busy == WhenBusy::Wait;
    let (journal, record) =
        match attachment_lock::acquire(context, attachment, IfMissing::Make, waits) {
            Err(error) if error.code == code::TRY_AGAIN_LATER => {
                return Ok(Released::Refused(error.msg));
            }
            Err(error) => return Err(error),
            Ok(Found::Locked(locked)) => (Some(locked.journal), locked.record),
            // No ADD has a record there, and none waits.
            Ok(Found::Missing | Found::Unusable(_)) => (None, None),
        };
    let view = match &record {
        Some(Ok(record)) => Some(AttachmentRecord::from(record.clone())),
        _ => None,
    };
    // Made by this call, or empty: nobody needs it.
    let is_empty = record.is_none();
    if let Some(reason) = refuse(view.as_ref()) {
        if is_empty && let Some(journal) = journal {
            journal.remove();
        }
        return Ok(Released::Refused(reason));
    }
    let today = context.config.without_call();
    let environment = |record: Option<&_>| gc::parameters(context, attachment, record);
    let failed = del::locked(
        context,
        attachment,
        &today,
        (journal.as_ref(), record),
        environment,
    );
    let error = failure::of_all(failed);
    if (error.is_none() || is_empty)
        && let Some(journal) = journal
        && !journal.is_at_work()
    {
        journal.remove();
    }
    match error {
        None => Ok(Released::Done),
        Some(error) if is_empty => Err(error),
        Some(error) => Err(context.with_record(attachment, error)),
    }
}
