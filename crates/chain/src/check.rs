//! CHECK and STATUS: every delegate until one fails.

use std::io;

use cni::{Attachment, Command, Error};

use crate::attachment_lock;
use crate::context::Context;
use crate::delegates::InstalledDelegates;
use crate::journal::Opened;
use crate::record::{Record, RecordedDelegate};
use crate::steps::{OnFailure, Step, Steps};
use crate::version_negotiation::VersionNegotiation;

/// Runs CHECK for an attachment. What a selector chose on ADD is taken from the record, if
/// there is one.
///
/// # Errors
///
/// The failed delegate's; code 11 if it is not known whether there is a record.
pub(crate) fn attachment(context: &Context<'_>, attachment: &Attachment) -> Result<(), Error> {
    let unknown = |error| attachment_lock::unknown(&context.journals.file(attachment), &error);
    let record = record(context, attachment).map_err(unknown)?;
    let recorded = record.as_ref().map(Record::delegates).unwrap_or_default();
    until_failure(context, Command::Check, Some(attachment), &recorded)
}

/// The record of an attachment, read without its lock: CHECK changes nothing. `None` if there
/// is none that can be used.
fn record(context: &Context<'_>, attachment: &Attachment) -> io::Result<Option<Record>> {
    let Opened::Journal(journal) = context.journals.open(attachment)? else {
        return Ok(None);
    };
    let record = context.journals.read(&journal, attachment)?;
    Ok(record.and_then(Result::ok))
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
