//! DEL of an attachment, by what is remembered of it.

use cni::{Attachment, Command, NetworkConfig};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::chain::{Chain, OnFailure, Turn};
use crate::context::Context;
use crate::delegates::{Delegates, Variable};
use crate::failure::Failed;
use crate::orphans;
use crate::record::{Ran, Record, State};
use crate::records::Found;

/// Runs DEL for the attachment: of the delegates that its record names, and of
/// those that only `today`'s configuration does. Its delegates get these variables
/// besides those that we have received.
pub(crate) fn attachment(
    context: &Context<'_>,
    attachment: &Attachment,
    today: &NetworkConfig,
    variables: impl FnOnce(Option<&Record>) -> Vec<Variable>,
) -> Vec<Failed> {
    let path = context.records.file(attachment);
    match context.records.find(attachment) {
        Found::Record(record) => {
            let variables = variables(Some(&record));
            return recorded(context, attachment, &record, today, variables);
        }
        Found::Nothing => tracing::warn!(
            %attachment,
            "there is no record: doing what today's configuration says"
        ),
        Found::Broken(reason) => tracing::warn!(
            path = %path.display(),
            reason,
            "the record can't be used: doing what today's configuration says"
        ),
    }
    let delegates = &context.settings.delegates;
    let turns: Vec<Turn<'_>> = delegates
        .iter()
        .map(|name| Turn::new(name, today))
        .collect();
    let mut delegates = context.delegates(&context.id, variables(None), None);
    release(
        context,
        attachment,
        Chain::new(&mut delegates, Some(attachment)),
        &turns,
        None,
    )
}

/// Runs DEL of these. If all that hold something have let go, there is nothing to be
/// remembered any more.
fn release<D: Delegates>(
    context: &Context<'_>,
    attachment: &Attachment,
    mut chain: Chain<'_, D>,
    turns: &[Turn<'_>],
    start: Option<Box<RawValue>>,
) -> Vec<Failed> {
    let failures = chain.run_all(Command::Del, turns, start, OnFailure::GoOn);
    if failures.is_empty() {
        context.records.remove(attachment);
    }
    failures
}

/// Runs DEL for the attachment by its record, which goes if all that hold
/// something have let go.
pub(crate) fn recorded(
    context: &Context<'_>,
    attachment: &Attachment,
    record: &Record,
    today: &NetworkConfig,
    variables: Vec<Variable>,
) -> Vec<Failed> {
    if record.state != State::Added {
        // What a killed call has left running must not do again what is undone.
        orphans::end(&record.call, attachment);
    }
    tracing::debug!(added_by_trace = record.trace, "undoing what is recorded");

    // What it was added with, unless that is what we have been given, too.
    let then = record.config().filter(|then| !are_the_same(then, today));
    let ran = record.delegates();
    let is_named_today = |name| context.settings.delegates.contains(name);
    let mut turns: Vec<Turn<'_>> = ran
        .iter()
        .map(
            |Ran {
                 name,
                 handed_on,
                 holds_nothing,
             }| Turn {
                name,
                config: then.as_ref().unwrap_or(today),
                handed_on: handed_on.as_deref(),
                holds_nothing: *holds_nothing,
                // What kept it from answering then may have been mended since.
                otherwise: Some(today).filter(|_| then.is_some() && is_named_today(name)),
            },
        )
        .collect();
    let names = context.settings.delegates.iter();
    let only_today = names.filter(|name| ran.iter().all(|ran| ran.name != **name));
    turns.extend(only_today.map(|name| Turn::new(name, today)));

    let from_runtime = today.raw_prev_result();
    let start = match (from_runtime, &then) {
        // As it came.
        (Some(_), None) => None,
        _ => from_runtime.or(record.answer()).map(ToOwned::to_owned),
    };
    // A delegate that is called directly doesn't outlive us; one that is executed may,
    // and whoever comes next must look for it.
    let mark = || {
        let mut record = record.clone();
        record.state = State::Deleting;
        context.records.keep(attachment, &record);
    };
    let is_marked = turns.iter().any(|turn| !context.calls_directly(turn.name));
    if is_marked {
        mark();
    }
    let mut delegates = context.delegates(&record.call, variables, None);
    let chain = Chain::new(&mut delegates, Some(attachment));
    let failures = release(context, attachment, chain, &turns, start);
    if !failures.is_empty() && !is_marked {
        mark();
    }
    failures
}

/// Whether two configurations say the same, but for what is of one call.
fn are_the_same(one: &NetworkConfig, other: &NetworkConfig) -> bool {
    // A number may be too large for a `Value`; of two such ones, nothing is known.
    let value = |config: &NetworkConfig| {
        serde_json::from_slice::<Value>(config.without_call().as_bytes()).ok()
    };
    one.as_bytes() == other.as_bytes() || value(one).is_some_and(|one| value(other) == Some(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_are_the_same_if_they_say_the_same_beside_the_call() {
        let config = |rest: &str| {
            let json = format!(r#"{{"cniVersion":"1.0.0","name":"n"{rest}}}"#);
            NetworkConfig::parse(json.into_bytes()).unwrap()
        };
        let same = |one: &str, other: &str| are_the_same(&config(one), &config(other));
        assert!(same(
            r#","a":1,"b":2"#,
            r#", "b":2, "a":1, "prevResult":{}"#
        ));
        assert!(!same(r#","a":1"#, r#","a":2"#));
        assert!(same(r#","a":1e400"#, r#","a":1e400"#));
        assert!(!same(r#","a":1e400,"b":1"#, r#","a":1e400,"b":2"#));
    }
}
