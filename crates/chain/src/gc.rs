//! GC: undoes the recorded attachments that aren't valid any more, so that delegates
//! which know no GC are collected too; then runs the delegates.

use std::collections::HashSet;

use cni::{Attachment, Command, Environment, Error};

use crate::context::Context;
use crate::del;
use crate::delegates::InstalledDelegates;
use crate::failure::{self, FailedDelegate};
use crate::record::Record;
use crate::steps::{OnFailure, Step, Steps};
use crate::version_negotiation::VersionNegotiation;

/// Runs GC, past all failures.
pub(crate) fn gc(context: &Context<'_>) -> Result<(), Error> {
    let (mut errors, refusal) = match context.config.valid_attachments() {
        Ok(valid) => (undo_stale(context, valid), None),
        // Without the list, no attachment is known to be stale. The delegates decide for
        // themselves.
        Err(error) => (Vec::new(), Some(error)),
    };
    let steps = Step::all(&context.settings.delegates, context.config);
    let delegates = InstalledDelegates::new(context, context.environment.clone());
    let mut delegates = VersionNegotiation::new(delegates);
    let failed =
        Steps::new(&mut delegates, None).run(Command::Gc, &steps, None, OnFailure::Continue);
    errors.extend(failed.into_iter().map(FailedDelegate::into_error));
    match (refusal, failure::of_all(errors)) {
        (None, None) => Ok(()),
        (Some(error), None) | (None, Some(error)) => Err(error),
        (Some(refusal), Some(more)) => Err(Error {
            msg: format!("{}; {}", refusal.msg, more.msg),
            ..refusal
        }),
    }
}

fn undo_stale(context: &Context<'_>, valid: Vec<Attachment>) -> Vec<Error> {
    let valid: HashSet<Attachment> = valid.into_iter().collect();
    let today = context.config.without_call();
    let recorded = context.journals.attachments().into_iter();
    let stale = recorded.filter(|attachment| !valid.contains(attachment));
    stale
        .flat_map(|attachment| {
            tracing::debug!(%attachment, "not valid any more: undoing it");
            let environment = |record: Option<&Record>| parameters(context, &attachment, record);
            del::attachment(context, &attachment, &today, environment)
        })
        .collect()
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
