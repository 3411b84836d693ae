//! The outcome of `gc` and `release` for an attachment.

use anyhow::{Result, ensure};
use serde::Serialize;

use super::Way;
use crate::Context;
use crate::inventory::NetworkAttachment;

/// An attachment, and what was done. The keys are documented, and don't change their meaning.
#[derive(Serialize)]
pub(crate) struct Outcome<'a> {
    #[serde(flatten)]
    pub(crate) attachment: &'a NetworkAttachment<'a>,
    #[serde(flatten)]
    pub(crate) done: Done,
}

#[derive(Serialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub(crate) enum Done {
    Released { by: Way },
    WouldRelease,
    Kept { reason: String },
    Failed { reason: String },
}

impl Done {
    pub(crate) fn failed(error: &anyhow::Error) -> Self {
        let reason = format!("{error:#}");
        Self::Failed { reason }
    }
}

impl Outcome<'_> {
    fn text(&self) -> String {
        let done = match &self.done {
            Done::Released { by } => format!("released {}", by.text()),
            Done::WouldRelease => "would be released".to_owned(),
            Done::Kept { reason } => format!("kept: {reason}"),
            Done::Failed { reason } => format!("failed: {reason}"),
        };
        format!("{}: {done}", self.attachment)
    }
}

/// Prints outcomes.
///
/// # Errors
///
/// An I/O error; the number of failures, if there is one.
pub(crate) fn print(outcomes: &[Outcome<'_>], context: &Context<'_>) -> Result<()> {
    let lines = || outcomes.iter().map(Outcome::text);
    context.print(&outcomes, lines)?;
    let is_failure = |outcome: &&Outcome<'_>| matches!(outcome.done, Done::Failed { .. });
    let failed = outcomes.iter().filter(is_failure).count();
    let all = outcomes.len();
    ensure!(failed == 0, "{failed} of {all} could not be released");
    Ok(())
}
