//! What `gc` and `release` have done with an attachment, and how they print it.

use anyhow::{Result, ensure};
use serde::Serialize;

use super::Way;
use crate::Context;
use crate::inventory::NetworkAttachment;

/// An attachment, and what was done. The keys are documented, and don't change their meaning.
#[derive(Serialize)]
pub(crate) struct AttachmentOutcome<'a> {
    #[serde(flatten)]
    pub(crate) attachment: &'a NetworkAttachment<'a>,
    #[serde(flatten)]
    pub(crate) result: Outcome,
}

#[derive(Serialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub(crate) enum Outcome {
    Released { by: Way },
    WouldRelease,
    Kept { reason: String },
    Failed { reason: String },
}

impl Outcome {
    pub(crate) fn failed(error: &anyhow::Error) -> Self {
        let reason = format!("{error:#}");
        Self::Failed { reason }
    }
}

impl AttachmentOutcome<'_> {
    fn text(&self) -> String {
        let done = match &self.result {
            Outcome::Released { by } => format!("released {}", by.text()),
            Outcome::WouldRelease => "would be released".to_owned(),
            Outcome::Kept { reason } => format!("kept: {reason}"),
            Outcome::Failed { reason } => format!("failed: {reason}"),
        };
        format!("{}: {done}", self.attachment)
    }
}

/// Prints outcomes.
///
/// # Errors
///
/// An I/O error; the number of failures, if there is one.
pub(crate) fn print(outcomes: &[AttachmentOutcome<'_>], context: &Context<'_>) -> Result<()> {
    let lines = || outcomes.iter().map(AttachmentOutcome::text);
    context.print(&outcomes, lines)?;
    let is_failure = |one: &&AttachmentOutcome<'_>| matches!(one.result, Outcome::Failed { .. });
    let failed = outcomes.iter().filter(is_failure).count();
    let all = outcomes.len();
    ensure!(failed == 0, "{failed} of {all} could not be released");
    Ok(())
}
