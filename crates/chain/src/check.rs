//! CHECK and STATUS: every delegate until one fails.

use cni::{Attachment, Command, Error};

use crate::context::Context;
use crate::delegates::InstalledDelegates;
use crate::steps::{OnFailure, Step, Steps};
use crate::version_negotiation::VersionNegotiation;

/// Runs the delegates of the configuration with this command.
///
/// # Errors
///
/// The failed delegate's.
pub(crate) fn until_failure(
    context: &Context<'_>,
    command: Command,
    attachment: Option<&Attachment>,
) -> Result<(), Error> {
    let steps = Step::all(&context.settings.delegates, context.config);
    let delegates = InstalledDelegates::new(context, context.environment.clone());
    let mut delegates = VersionNegotiation::new(delegates);
    let failed = Steps::new(&mut delegates, attachment).run(command, &steps, None, OnFailure::Stop);
    let first = failed.into_iter().next();
    first.map_or(Ok(()), |failed| Err(failed.into_error()))
}
