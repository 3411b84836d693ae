//! DEL of an attachment: by its record, or by today's configuration.

use cni::{
    Attachment, Command, DelegateName, Environment, Error, IpamResult, NetworkConfig, Object, code,
};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::attachment_lock::{self, Found, IfMissing};
use crate::context::Context;
use crate::delegates::InstalledDelegates;
use crate::failure::FailedDelegate;
use crate::journal::Journal;
use crate::record::Record;
use crate::record_line::Line;
use crate::steps::{OnFailure, Step, Steps, completed};
use crate::version_negotiation::VersionNegotiation;

/// Runs DEL for an attachment: the delegates of its record, and those that only `today`'s
/// configuration names. Returns the errors of the failed ones. `environment` makes the
/// delegates' environment, from the record if there is one.
///
/// # Errors
///
/// Code 11 if no delegate has run: the attachment is locked, or its record can't be read now.
pub(crate) fn attachment(
    context: &Context<'_>,
    attachment: &Attachment,
    today: &NetworkConfig,
    environment: impl FnOnce(Option<&Record>) -> Environment,
) -> Result<Vec<Error>, Error> {
    let found = attachment_lock::acquire(context, attachment, IfMissing::Leave, true)?;
    let (journal, record) = match found {
        Found::Missing => (None, None),
        Found::Unusable(error) => {
            let path = context.journals.file(attachment);
            tracing::warn!(path = %path.display(), %error, "{WITHOUT_A_RECORD}");
            (None, None)
        }
        Found::Locked(locked) => (Some(locked.journal), locked.record),
    };
    let journal_and_record = (journal.as_ref(), record);
    let failed = locked(context, attachment, today, journal_and_record, environment);
    if failed.is_empty()
        && let Some(journal) = journal
    {
        journal.remove();
    }
    Ok(failed)
}

/// Runs DEL for an attachment whose journal is locked, if it has one. The record is not
/// removed. Returns the errors of the failed delegates.
pub(crate) fn locked(
    context: &Context<'_>,
    attachment: &Attachment,
    today: &NetworkConfig,
    (journal, record): (Option<&Journal>, Option<Result<Record, String>>),
    environment: impl FnOnce(Option<&Record>) -> Environment,
) -> Vec<Error> {
    let delegates = |record: Option<&Record>| {
        InstalledDelegates::new(context, environment(record))
            .holding(journal)
            .until_the_deadline()
    };
    match (journal, record) {
        (Some(journal), Some(Ok(record))) => {
            let delegates = delegates(Some(&record));
            by_record(context, attachment, &record, journal, today, delegates)
        }
        (journal, record) => {
            if let Some(Err(reason)) = record {
                let path = context.journals.file(attachment);
                tracing::warn!(path = %path.display(), reason, "{WITHOUT_A_RECORD}");
            }
            let steps = Step::all(&context.settings.delegates, today);
            run(attachment, delegates(None), journal, &steps, None)
        }
    }
}

const WITHOUT_A_RECORD: &str = "the record can't be used: doing what the configuration says";

/// Runs DEL for an attachment by its record, with these delegates, which hold the journal. The
/// record is not removed.
pub(crate) fn by_record(
    context: &Context<'_>,
    attachment: &Attachment,
    record: &Record,
    journal: &Journal,
    today: &NetworkConfig,
    delegates: InstalledDelegates<'_, '_>,
) -> Vec<Error> {
    tracing::debug!(
        added_by_trace = record.intent.trace,
        "undoing what is recorded"
    );
    // The configuration of the ADD, if it differs from today's.
    let then = record.config().filter(|then| !are_the_same(then, today));
    let recorded = record.delegates();
    let today_names = &context.settings.delegates;
    let mut steps: Vec<Step<'_>> = recorded
        .iter()
        .map(|recorded| {
            let is_named_today = today_names.contains(recorded.name);
            Step {
                name: recorded.name,
                config: then.as_ref().unwrap_or(today),
                // The configuration of the ADD may have a fault that today's has not.
                fallback: Some(today).filter(|_| then.is_some() && is_named_today),
                recorded: Some(*recorded),
                chosen: recorded.chosen(),
                may_be_gone: !is_named_today,
            }
        })
        .collect();
    let is_recorded = |name: &DelegateName| recorded.iter().any(|it| it.name == name);
    let only_today = today_names.iter().filter(|name| !is_recorded(name));
    steps.extend(only_today.map(|name| Step::new(name, today)));

    journal.mend();
    journal.append(&[Line::Deleting(context.recorded_call())]);
    let start = match (today.raw_prev_result(), record.answer()) {
        (Some(given), Some(answer)) if !has_addresses(given) => {
            Some(completed(Some(&without_ips(given)), answer))
        }
        // The `prevResult` in the configuration, unchanged.
        (Some(_), _) if then.is_none() => None,
        (given, answer) => given.or(answer).map(ToOwned::to_owned),
    };
    run(attachment, delegates, Some(journal), &steps, start)
}

fn run(
    attachment: &Attachment,
    delegates: InstalledDelegates<'_, '_>,
    journal: Option<&Journal>,
    steps: &[Step<'_>],
    start: Option<Box<RawValue>>,
) -> Vec<Error> {
    let mut delegates = VersionNegotiation::new(delegates);
    let failed = Steps::new(&mut delegates, Some(attachment)).run(
        Command::Del,
        steps,
        start,
        OnFailure::Continue,
    );
    drop(delegates);
    let mut errors: Vec<Error> = failed.into_iter().map(FailedDelegate::into_error).collect();
    if errors.is_empty() && journal.is_some_and(Journal::is_at_work) {
        errors.push(Error::new(
            code::TRY_AGAIN_LATER,
            "a process that a delegate has left behind can't be terminated",
        ));
    }
    errors
}

/// True if a `prevResult` lists addresses. The allocator reads the files of these, even
/// if its index doesn't know them.
fn has_addresses(prev_result: &RawValue) -> bool {
    let result = IpamResult::read("prevResult", prev_result);
    result.is_ok_and(|result| !result.ips.is_empty())
}

/// A `prevResult` without `ips`: the record's `ips` replace an empty list.
fn without_ips(prev_result: &RawValue) -> Box<RawValue> {
    let Ok(mut object) = serde_json::from_str::<Object>(prev_result.get()) else {
        return prev_result.to_owned();
    };
    object.remove("ips");
    to_raw_value(&object).expect("an object is JSON")
}

/// True if two configurations differ only in the keys of one call.
fn are_the_same(one: &NetworkConfig, other: &NetworkConfig) -> bool {
    // A number may be too large for a `Value`; such configurations count as different.
    let value = |config: &NetworkConfig| {
        serde_json::from_slice::<Value>(config.without_call().as_bytes()).ok()
    };
    one.as_bytes() == other.as_bytes() || value(one).is_some_and(|one| value(other) == Some(one))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::config;

    #[test]
    fn configurations_are_the_same_if_they_say_the_same_beside_the_call() {
        let same = |one: &str, other: &str| are_the_same(&config(one), &config(other));
        assert!(same(
            r#","a":1,"b":2"#,
            r#", "b":2, "a":1, "prevResult":{}"#
        ));
        assert!(!same(r#","a":1"#, r#","a":2"#));
        assert!(same(r#","a":1e400"#, r#","a":1e400"#));
        assert!(!same(r#","a":1e400,"b":1"#, r#","a":1e400,"b":2"#));
    }

    #[test]
    fn a_prev_result_without_addresses_is_completed_from_the_record() {
        let raw = |json: &str| RawValue::from_string(json.to_owned()).unwrap();
        let given = raw(r#"{"ips":[],"x":1}"#);
        let answer = raw(r#"{"ips":[{"address":"10.0.0.2/24"}],"x":2}"#);
        assert!(!has_addresses(&given) && has_addresses(&answer));
        assert_eq!(
            completed(Some(&without_ips(&given)), &answer).get(),
            r#"{"x":1,"ips":[{"address":"10.0.0.2/24"}]}"#
        );
    }
}
