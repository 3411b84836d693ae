//! Prepares an attachment for an ADD: refuses it if it is added already, and undoes an
//! earlier ADD that is not complete.

use cni::{Attachment, Command, Error, code};

use crate::attachment_lock::{self, Found, IfMissing, LockedJournal};
use crate::context::Context;
use crate::delegates::InstalledDelegates;
use crate::journal::Journal;
use crate::record::Record;
use crate::steps::{OnFailure, Step, Steps, checkable};
use crate::version_negotiation::VersionNegotiation;
use crate::{del, failure};

/// An attachment that is ready for an ADD.
pub(crate) struct Cleared {
    /// The attachment's journal, locked and empty; `None` if it can't be opened.
    pub(crate) journal: Option<Journal>,
    /// True if an earlier ADD was undone.
    pub(crate) has_undone: bool,
}

/// Prepares the attachment: an earlier ADD that is not complete, or is known to be from
/// before the last boot, is undone.
///
/// # Errors
///
/// Code 110 if the attachment is on the network; code 11 if another call is running, or if
/// it is not known whether there is a record;
/// otherwise the error of the DEL that undoes the earlier ADD.
pub(crate) fn clear(context: &Context<'_>, attachment: &Attachment) -> Result<Cleared, Error> {
    let locked = match attachment_lock::acquire(context, attachment, IfMissing::Make, true)? {
        Found::Locked(locked) => locked,
        Found::Missing => unreachable!("a missing journal is made"),
        Found::Unusable(error) => {
            let path = context.journals.file(attachment);
            tracing::warn!(path = %path.display(), %error, "the attachment is not recorded");
            return Ok(Cleared {
                journal: None,
                has_undone: false,
            });
        }
    };
    let LockedJournal { journal, record } = *locked;
    let is_new = record.is_none();
    let has_undone = match record {
        None => false,
        Some(Err(reason)) => {
            let path = context.journals.file(attachment);
            tracing::warn!(path = %path.display(), reason, "replacing a record that can't be used");
            false
        }
        Some(Ok(record)) if record.stands() && !is_before_boot(context, &record) => {
            refuse_unless_lost(context, attachment, &record, &journal)?;
            tracing::warn!(
                "the record says that the attachment is added, and CHECK says otherwise: adding it"
            );
            false
        }
        Some(Ok(record)) => {
            tracing::warn!(
                "undoing an earlier ADD, which was not complete or was before the last boot"
            );
            let environment = context.environment.clone();
            let environment = if record.is_whole_attachment() {
                environment
            } else {
                // An ADD before that one, which nobody has recorded, may be in use.
                record.intent.call.id.mark_rollback(environment)
            };
            let delegates = InstalledDelegates::new(context, environment)
                .holding(Some(&journal))
                .bounded();
            let today = context.config;
            let failed = del::by_record(context, attachment, &record, &journal, today, delegates);
            if let Some(error) = failure::of_all(failed) {
                return Err(context.with_record(attachment, error));
            }
            true
        }
    };
    if !is_new {
        journal.clear();
    }
    Ok(Cleared {
        journal: Some(journal),
        has_undone,
    })
}

/// True if the ADD of the record is known to be from before the last boot.
fn is_before_boot(context: &Context<'_>, record: &Record) -> bool {
    let (Some(then), Some(now)) = (&record.intent.boot, context.boot()) else {
        return false;
    };
    now.is_after(then, record.intent.call.id.started())
        .unwrap_or_else(|error| {
            tracing::warn!(%error, "the start of the last boot is unknown: asking CHECK");
            false
        })
}

/// Refuses the ADD unless CHECK of the recorded delegates, with the recorded result, says
/// with code 112 that the attachment has lost its address: another program may have
/// undone the ADD.
fn refuse_unless_lost(
    context: &Context<'_>,
    attachment: &Attachment,
    record: &Record,
    journal: &Journal,
) -> Result<(), Error> {
    let path = context.journals.file(attachment);
    let refusal = |reason: String| {
        let network = context.config.name();
        Err(Error::new(
            code::ALREADY_ALLOCATED,
            format!("{attachment} is on network {network} already; a second ADD without a DEL is refused"),
        )
        .with_details(format!("recorded in {}{reason}", path.display())))
    };
    let config = record.config();
    let config = checkable(config.as_ref().unwrap_or(context.config));
    let delegates = record.delegates();
    let steps: Vec<Step<'_>> = delegates
        .iter()
        .map(|recorded| Step {
            recorded: Some(*recorded),
            chosen: recorded.chosen(),
            ..Step::new(recorded.name, &config)
        })
        .collect();
    let installed = InstalledDelegates::new(context, context.environment.clone());
    let mut installed = VersionNegotiation::new(installed.holding(Some(journal)));
    let answer = record.answer().map(ToOwned::to_owned);
    let failed = Steps::new(&mut installed, Some(attachment)).run(
        Command::Check,
        &steps,
        answer,
        OnFailure::Stop,
    );
    match failed.into_iter().next() {
        None => refusal(String::new()),
        // Any other error may be temporary. An attachment in use must not be added again.
        Some(failed) if failed.error.code == code::NOT_RESERVED => Ok(()),
        Some(failed) => refusal(format!("\nCHECK could not tell: {}", failed.into_error())),
    }
}
