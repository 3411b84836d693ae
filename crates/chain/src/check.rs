//! CHECK and STATUS: every delegate until one fails.

use cni::{Attachment, Command, Error};

use crate::context::Context;
use crate::delegates::InstalledDelegates;
use crate::record::{Record, RecordedDelegate};
use crate::steps::{OnFailure, Step, Steps};
use crate::version_negotiation::VersionNegotiation;

/// Runs CHECK for an attachment. What a selector chose on ADD is taken from the record, if
/// there is one.
///
/// # Errors
///
/// The failed delegate's.
pub(crate) fn attachment(context: &Context<'_>, attachment: &Attachment) -> Result<(), Error> {
    let record = record(context, attachment);
    let recorded = record.as_ref().map(Record::delegates).unwrap_or_default();
    until_failure(context, Command::Check, Some(attachment), &recorded)
}

/// The record of an attachment, read without its lock: CHECK changes nothing.
fn record(context: &Context<'_>, attachment: &Attachment) -> Option<Record> {
    let journal = context.journals.open(attachment).ok()??;
    context.journals.read(&journal, attachment).ok()?
}

/// Runs STATUS.
///
/// # Errors
///
/// The failed delegate's.
pub(crate) fn status(context: &Context<'_>) -> Result<(), Error> {
    until_failure(context, Command::Status, None, &[])
}

fn until_failure(
    context: &Context<'_>,
    command: Command,
    attachment: Option<&Attachment>,
    recorded: &[RecordedDelegate<'_>],
) -> Result<(), Error> {
    let mut steps = Step::all(&context.settings.delegates, context.config);
    for at in 0..steps.len() {
        let name = steps[at].name;
        // A delegate may stand in a chain twice.
        let earlier = steps[..at].iter().filter(|it| it.name == name).count();
        let of_step = recorded.iter().filter(|it| it.name == name).nth(earlier);
        steps[at].chosen = of_step.and_then(RecordedDelegate::chosen);
    }
    let delegates = InstalledDelegates::new(context, context.environment.clone());
    let mut delegates = VersionNegotiation::new(delegates);
    let failed = Steps::new(&mut delegates, attachment).run(command, &steps, None, OnFailure::Stop);
    let first = failed.into_iter().next();
    first.map_or(Ok(()), |failed| Err(failed.into_error()))
}
