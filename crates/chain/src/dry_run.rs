//! Dry run of a chain's first delegates: their answers to ADD, without a record.

use cni::{Attachment, Command, DelegateName};
use serde_json::value::RawValue;

use crate::Outcome;
use crate::context::Context;
use crate::delegates::InstalledDelegates;
use crate::steps::Steps;
use crate::version_negotiation::VersionNegotiation;

/// Runs ADD of the delegates, in order, up to the first that `runs` refuses or that
/// fails. Returns those that ran, each with its outcome.
pub(crate) fn dry_run(
    context: &Context<'_>,
    attachment: &Attachment,
    runs: impl Fn(&DelegateName) -> bool,
) -> Vec<(DelegateName, Outcome)> {
    let installed = InstalledDelegates::new(context, context.environment.clone());
    let mut installed = VersionNegotiation::new(installed);
    let mut steps = Steps::new(&mut installed, Some(attachment));
    let mut prev_result: Option<Box<RawValue>> = None;
    let mut ran = Vec::new();
    let names = context.settings.delegates.iter();
    for name in names.take_while(|name| runs(name)) {
        let outcome = steps.run_one(name, Command::Add, context.config, prev_result.as_deref());
        let answer = match &outcome {
            Outcome::Result(output) => Some(output.json().to_owned()),
            Outcome::Nothing | Outcome::Failed(_) => None,
        };
        ran.push((name.clone(), outcome));
        match answer {
            None => break,
            answer => prev_result = answer,
        }
    }
    ran
}
