//! Runs delegates in order and threads `prevResult` through them.

use cni::{Attachment, Command, Error, NetworkConfig};
use serde_json::value::RawValue;

use crate::call::delegate_call::DelegateCall;
use crate::call::installed_delegates::InstalledDelegates;
use crate::call::outcome::{Failure, Kind, Outcome};
use crate::run::failed_delegate::FailedDelegate;
use crate::run::fallback;
use crate::run::prev_result::{completed, with_selection};
use crate::run::step::Step;

/// Behaviour after the failure of a delegate.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnFailure {
    /// The next delegate runs.
    Continue,
    /// No further delegate runs.
    Stop,
}

/// Runs the steps with a command other than ADD; returns the failed delegates.
///
/// The first delegate receives `prev_result`, or the `prevResult` of its
/// configuration. A result that a delegate prints is the next one's `prevResult`, but a
/// selector's pools are those that it selected on ADD.
/// If a delegate prints nothing, as the specification requires, the next one receives
/// the same `prevResult`, with further keys from the delegate's recorded result.
pub(crate) fn run(
    delegates: &mut InstalledDelegates<'_, '_>,
    command: Command,
    attachment: Option<&Attachment>,
    steps: &[Step<'_>],
    mut prev_result: Option<Box<RawValue>>,
    on_failure: OnFailure,
) -> Vec<FailedDelegate> {
    let mut failed = Vec::new();
    for step in steps {
        let mut run = |command, config: &NetworkConfig, prev_result: Option<&RawValue>| {
            delegates.run(&DelegateCall::new(step.name, command, config, prev_result))
        };
        let mut outcome = run(command, step.config, prev_result.as_deref());
        if let Outcome::Failed(failure) = &outcome {
            let second =
                fallback::attempt(step, command, prev_result.as_deref(), failure, &mut run);
            outcome = second.unwrap_or(outcome);
        }
        match outcome {
            Outcome::Result(output) => {
                prev_result = Some(match step.selection {
                    Some(selection) => with_selection(output.json(), selection),
                    None => output.json().to_owned(),
                });
                continue;
            }
            Outcome::Nothing => {}
            Outcome::Failed(failure) => {
                if let Some(mut error) = fatal(step, command, &failure) {
                    if step.fallback.is_some() && !failure.is_not_run() {
                        error = fallback::not_asked(error);
                    }
                    failed.push(FailedDelegate::new(
                        step.name,
                        command,
                        attachment,
                        step.config,
                        error,
                    ));
                    if on_failure == OnFailure::Stop {
                        break;
                    }
                }
            }
        }
        let recorded = step
            .recorded
            .and_then(|recorded| recorded.next_prev_result());
        if let Some(recorded) = recorded.or(step.selection) {
            let unchanged = prev_result
                .as_deref()
                .or_else(|| step.config.raw_prev_result());
            let all = completed(unchanged, recorded);
            prev_result = Some(match step.selection {
                Some(selection) => with_selection(&all, selection),
                None => all,
            });
        }
    }
    failed
}

/// The error of a failed step; `None` if the failure may be passed over, which is
/// logged.
fn fatal(step: &Step<'_>, command: Command, failure: &Failure) -> Option<Error> {
    let Step { name, recorded, .. } = step;
    let error = failure.to_error();
    match failure.kind {
        Kind::Garbled => {
            // The command has succeeded, and it requires no output.
            tracing::warn!(delegate = %name, %command, %error, "ignoring output that is no result");
            return None;
        }
        Kind::NotFound if step.may_be_gone => {
            let result = recorded
                .and_then(|recorded| recorded.result)
                .map(RawValue::get);
            tracing::warn!(
                delegate = %name,
                %command,
                result = result.unwrap_or("unknown"),
                "neither configured nor installed any more: what it answered on ADD can't be undone"
            );
            return None;
        }
        _ => {}
    }
    if recorded.is_some_and(|recorded| recorded.holds_nothing) {
        tracing::warn!(delegate = %name, %command, %error, "going on with its recorded result");
        return None;
    }
    Some(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::attachment_record::RecordedDelegate;
    use crate::tests::{Script, config, names};
    use proptest::prelude::*;

    fn run(
        script: &Script,
        command: Command,
        delegates: &[&str],
        prev: &str,
        on_failure: OnFailure,
    ) -> Vec<String> {
        let (config, names) = (config(prev), names(delegates));
        let steps: Vec<Step<'_>> = names.iter().map(|n| Step::new(n, &config)).collect();
        let failed = script.run(&names, &config, |delegates| {
            super::run(delegates, command, None, &steps, None, on_failure)
        });
        failed
            .into_iter()
            .map(|failed| failed.delegate.to_string())
            .collect()
    }

    #[test]
    fn del_and_gc_go_on_and_report_all_failures() {
        for command in [Command::Del, Command::Gc] {
            let script = Script::new(&[("a", command, None), ("c", command, None)]);
            let failed = run(&script, command, &["a", "b", "c"], "", OnFailure::Continue);
            assert_eq!(script.log().len(), 3);
            assert_eq!(failed, ["a", "c"]);
        }
    }

    #[test]
    fn check_and_status_stop_at_the_first_failure() {
        for command in [Command::Check, Command::Status] {
            let script = Script::new(&[("b", command, None)]);
            let failed = run(&script, command, &["a", "b", "c"], "", OnFailure::Stop);
            assert_eq!(script.log().len(), 2);
            assert_eq!(failed, ["b"]);
        }
    }

    #[test]
    fn a_recorded_result_replaces_a_missing_one() {
        let config = config(r#","prevResult":{"ips":["rt"]}"#);
        let names = names(&["fails", "silent", "last"]);
        let results = [
            r#"{"ips":[],"pools":[1]}"#,
            r#"{"ips":[],"pools":[1,2],"job":7}"#,
        ]
        .map(|json| RawValue::from_string(json.to_owned()).unwrap());
        let mut steps: Vec<Step<'_>> = names.iter().map(|n| Step::new(n, &config)).collect();
        for (step, result) in steps.iter_mut().zip(&results) {
            let recorded = RecordedDelegate {
                name: step.name,
                result: Some(result),
                is_last: false,
                holds_nothing: true,
            };
            *step = Step::recorded(recorded, &config);
        }
        let script = Script::new(&[("fails", Command::Del, None)]);
        let goes_on = OnFailure::Continue;
        let failed = script.run(&names, &config, |delegates| {
            super::run(delegates, Command::Del, None, &steps, None, goes_on)
        });
        assert!(failed.is_empty());
        assert_eq!(
            script.log(),
            [
                r#"DEL fails {"ips":["rt"]}"#,
                r#"DEL silent {"ips":["rt"],"pools":[1]}"#,
                r#"DEL last {"ips":["rt"],"pools":[1,2],"job":7}"#,
            ]
        );
    }

    #[test]
    fn a_selectors_pools_are_those_of_the_add_and_an_allocators_answer_is_as_it_prints() {
        let config = config("");
        let names = names(&["selector", "allocator", "last"]);
        let recorded = RawValue::from_string(r#"{"ips":[1],"pools":["then"]}"#.to_owned()).unwrap();
        let mut steps: Vec<Step<'_>> = names.iter().map(|n| Step::new(n, &config)).collect();
        for (step, holds_nothing) in steps.iter_mut().zip([true, false]) {
            let recorded = RecordedDelegate {
                name: step.name,
                result: Some(&recorded),
                is_last: false,
                holds_nothing,
            };
            *step = Step::recorded(recorded, &config);
        }
        let now = r#"{"ips":[],"x":1.50,"pools":["now"]}"#;
        for command in [Command::Del, Command::Check] {
            let answers = ["selector", "allocator"].map(|name| (name, command, Some(now)));
            let script = Script::new(&answers);
            let goes_on = OnFailure::Continue;
            let failed = script.run(&names, &config, |delegates| {
                super::run(delegates, command, None, &steps, None, goes_on)
            });
            assert!(failed.is_empty());
            assert_eq!(
                script.log()[1..],
                [
                    format!(r#"{command} allocator {{"ips":[],"x":1.50,"pools":["then"]}}"#),
                    format!("{command} last {now}"),
                ]
            );
        }
    }

    #[test]
    fn a_step_fails_unless_it_has_succeeded_or_there_is_nothing_to_call_any_more() {
        let (config, names) = (config(""), names(&["p"]));
        let named = Step::new(&names[0], &config);
        let gone = Step {
            may_be_gone: true,
            ..Step::new(&names[0], &config)
        };
        let not_found = Failure::new(Kind::NotFound, cni::code::DELEGATE_NOT_FOUND, "none");
        for (failure, [of_named, of_gone]) in [
            (Failure::garbled("it is text"), [false, false]),
            (not_found, [true, false]),
            (Failure::silent(), [true, true]),
        ] {
            let is_fatal = |step| fatal(step, Command::Del, &failure).is_some();
            assert_eq!([is_fatal(&named), is_fatal(&gone)], [of_named, of_gone]);
        }
    }

    proptest! {
        /// Whichever delegates print a result: each is given the last one that was
        /// printed before it, or the runtime's `prevResult`.
        #[test]
        fn prev_result_is_the_last_that_was_printed(prints: [Option<bool>; 5]) {
            const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
            const PRINTED: [&str; 5] =
                [r#"{"r":0}"#, r#"{"r":1}"#, r#"{"r":2}"#, r#"{"r":3}"#, r#"{"r":4}"#];
            // None: nothing. Some(true): a result. Some(false): an error.
            let answers: Vec<_> = (0..5)
                .filter_map(|i| {
                    prints[i].map(|ok| (NAMES[i], Command::Del, ok.then_some(PRINTED[i])))
                })
                .collect();
            let script = Script::new(&answers);
            let prev = r#","prevResult":{"r":"rt"}"#;
            let failed = run(&script, Command::Del, &NAMES, prev, OnFailure::Continue);
            let mut expected = r#"{"r":"rt"}"#;
            let log = script.log();
            for (i, line) in log.iter().enumerate() {
                prop_assert_eq!(line, &format!("DEL {} {}", NAMES[i], expected));
                if prints[i] == Some(true) {
                    expected = PRINTED[i];
                }
            }
            prop_assert_eq!(log.len(), 5);
            let failing = prints.iter().filter(|p| **p == Some(false)).count();
            prop_assert_eq!(failed.len(), failing);
        }
    }
}
