//! GC: undoes the recorded attachments that aren't valid any more, so that delegates
//! which know no GC are collected too; then runs the delegates.

use std::collections::HashSet;

use cni::{Attachment, Command, Environment, Error, code};

use crate::context::Context;
use crate::del;
use crate::delegates::InstalledDelegates;
use crate::failure::{self, FailedDelegate};
use crate::record::Record;
use crate::steps::{OnFailure, Step, Steps};
use crate::version_negotiation::VersionNegotiation;

/// Runs GC, past all failures.
///
/// The delegates don't run with GC while an attachment that isn't valid is locked, or can't be
/// read: an ADD that the list doesn't know may be running, and they would release its address.
pub(crate) fn gc(context: &Context<'_>) -> Result<(), Error> {
    let valid = match context.config.valid_attachments() {
        Ok(valid) => valid,
        // Without the list, no attachment is known to be stale. The delegates decide for
        // themselves.
        Err(refusal) => {
            return Err(match failure::of_all(delegates(context)) {
                None => refusal,
                Some(more) => Error {
                    msg: format!("{}; {}", refusal.msg, more.msg),
                    ..refusal
                },
            });
        }
    };
    let (mut errors, unknown) = undo_stale(context, &valid.into_iter().collect());
    if unknown.is_empty() {
        errors.extend(delegates(context));
    }
    failure::of_all(unknown.into_iter().chain(errors).collect()).map_or(Ok(()), Err)
}

/// Runs the delegates with GC; returns the errors of the failed ones.
fn delegates(context: &Context<'_>) -> Vec<Error> {
    let steps = Step::all(&context.settings.delegates, context.config);
    let delegates = InstalledDelegates::new(context, context.environment.clone());
    let mut delegates = VersionNegotiation::new(delegates);
    Steps::new(&mut delegates, None)
        .run(Command::Gc, &steps, None, OnFailure::Continue)
        .into_iter()
        .map(FailedDelegate::into_error)
        .collect()
}

/// Undoes the recorded attachments that aren't valid. Returns the errors of the failed
/// delegates, and those of attachments of which it is not known what they hold.
fn undo_stale(context: &Context<'_>, valid: &HashSet<Attachment>) -> (Vec<Error>, Vec<Error>) {
    let (mut failed, mut unknown) = (Vec::new(), Vec::new());
    let stale = || match context.journals.attachments() {
        Ok(mut recorded) => {
            recorded.retain(|attachment| !valid.contains(attachment));
            Ok(recorded)
        }
        Err(error) => Err(context.journals.unknown(&error)),
    };
    let today = context.config.without_call();
    let mut remaining = HashSet::new();
    match stale() {
        Err(error) => unknown.push(error),
        Ok(stale) => {
            for attachment in stale {
                tracing::debug!(%attachment, "not valid any more: undoing it");
                let environment =
                    |record: Option<&Record>| parameters(context, &attachment, record);
                match del::attachment(context, &attachment, &today, environment) {
                    Ok(errors) if errors.is_empty() => {}
                    Ok(errors) => {
                        failed.extend(errors);
                        remaining.insert(attachment);
                    }
                    Err(error) => {
                        unknown.push(error);
                        remaining.insert(attachment);
                    }
                }
            }
        }
    }
    // The specification has the runtime see to it that no ADD is running. One that is has
    // a record. What is known to be no record was logged above.
    match stale() {
        Ok(stale) => unknown.extend(
            stale
                .iter()
                .filter(|attachment| !remaining.contains(attachment))
                .filter(|attachment| !context.journals.is_no_record(attachment))
                .map(has_begun),
        ),
        Err(error) if unknown.is_empty() => unknown.push(error),
        Err(_) => {}
    }
    (failed, unknown)
}

fn has_begun(attachment: &Attachment) -> Error {
    Error::new(
        code::TRY_AGAIN_LATER,
        format!("an ADD of {attachment} has begun during this GC"),
    )
}

/// The environment of a runtime's DEL of the attachment.
pub(crate) fn parameters(
    context: &Context<'_>,
    attachment: &Attachment,
    record: Option<&Record>,
) -> Environment {
    let intent = record.map(|it| &it.intent);
    context
        .environment
        .clone()
        .with("CNI_CONTAINERID", attachment.container_id.as_str())
        .with("CNI_IFNAME", attachment.ifname.as_str())
        .with("CNI_NETNS", intent.map_or("", |it| &it.netns))
        .with("CNI_ARGS", intent.map_or("", |it| &it.args))
}
