//! The state in which an ADD finds its attachment: new, added already, or not complete.

use cni::{Attachment, Command, Error, NetworkConfig, SpecVersion, code};

use crate::attachment_lock::{self, Locked, RunningCall};
use crate::context::Context;
use crate::delegates::InstalledDelegates;
use crate::journal::Journal;
use crate::record::Record;
use crate::steps::{OnFailure, Step, Steps};
use crate::version_negotiation::VersionNegotiation;
use crate::{del, failure};

/// An attachment that can be added.
pub(crate) struct Cleared {
    /// Its journal, locked and empty; `None` if there can't be one.
    pub(crate) journal: Option<Journal>,
    /// Whether an earlier call was undone.
    pub(crate) has_undone: bool,
}

/// Clears the way for an ADD: an earlier call that is not complete, or is from before the
/// last boot, is undone.
///
/// # Errors
///
/// Code 110 if the attachment is on the network; code 11 if another call is running;
/// otherwise the error of the undoing.
pub(crate) fn clear(context: &Context<'_>, attachment: &Attachment) -> Result<Cleared, Error> {
    let locked = match attachment_lock::acquire(context, attachment, true, RunningCall::Respected) {
        Err(error) if error.code == code::IO => {
            tracing::warn!(%error, "the attachment is not recorded");
            return Ok(Cleared {
                journal: None,
                has_undone: false,
            });
        }
        other => other?,
    };
    let Locked { journal, record } = locked.expect("a missing journal is made");
    let is_new = record.is_none();
    let has_undone = match record {
        None => false,
        Some(Err(reason)) => {
            let path = context.journals.file(attachment);
            tracing::warn!(path = %path.display(), reason, "replacing a record that can't be used");
            false
        }
        Some(Ok(record)) if record.stands() && is_of_this_boot(context, &record) => {
            refuse_if_true(context, attachment, &record, &journal)?;
            tracing::warn!(
                "the record says that the attachment is added, and CHECK says otherwise: adding it"
            );
            false
        }
        Some(Ok(record)) => {
            tracing::warn!(
                "undoing an earlier ADD, which was not complete or was before the last boot"
            );
            let failed = del::by_record(
                context,
                attachment,
                &record,
                &journal,
                context.config,
                context.environment.clone(),
            );
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

fn is_of_this_boot(context: &Context<'_>, record: &Record) -> bool {
    match (&record.intent.boot, context.boot()) {
        (Some(then), Some(now)) => then == now,
        _ => true,
    }
}

/// Refuses the ADD unless CHECK of the recorded delegates, with the recorded result, says
/// that the record isn't true any more: another program may have undone the ADD.
fn refuse_if_true(
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
            ..Step::new(recorded.name, &config)
        })
        .collect();
    let installed = InstalledDelegates::new(context, context.environment.clone());
    let mut installed = VersionNegotiation::new(installed.holding(journal.lock_fd()));
    let answer = record.answer().map(ToOwned::to_owned);
    let failed = Steps::new(&mut installed, Some(attachment)).run(
        Command::Check,
        &steps,
        answer,
        OnFailure::Stop,
    );
    match failed.into_iter().next() {
        None => refusal(String::new()),
        Some(failed) if says_otherwise(failed.error.code) => Ok(()),
        Some(failed) => refusal(format!("\nCHECK could not tell: {}", failed.into_error())),
    }
}

/// Whether an error of this code is a delegate's own statement about the attachment, and
/// not one about the call, the node or the moment.
fn says_otherwise(code: u64) -> bool {
    const OF_A_DELEGATE: std::ops::RangeInclusive<u64> =
        code::DELEGATE_NOT_FOUND..=code::INTERRUPTED;
    code >= 100 && code != code::INTERNAL && !OF_A_DELEGATE.contains(&code)
}

/// The configuration in a version that has CHECK.
fn checkable(config: &NetworkConfig) -> NetworkConfig {
    if config.version() >= Command::Check.since() {
        return config.clone();
    }
    let newer = config.in_version(SpecVersion::V0_4_0, None);
    NetworkConfig::parse(newer).unwrap_or_else(|_| config.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_delegates_own_statement_says_that_a_record_is_not_true() {
        // Ours, and host-local's.
        for code in [code::NOT_RESERVED, 999] {
            assert!(says_otherwise(code), "{code}");
        }
        for code in [1, 4, 5, 7, 11, 50, 51, 100, 102, 105, 106, 199] {
            assert!(!says_otherwise(code), "{code}");
        }
    }
}
