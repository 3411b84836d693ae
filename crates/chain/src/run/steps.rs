//! Runs delegates in order and threads `prevResult` through them.

use cni::{Attachment, Command, DelegateName, Error, IpamResult, NetworkConfig, code};
use serde_json::value::RawValue;

use crate::call::delegate_call::{DelegateCall, Delegates};
use crate::call::outcome::{Failure, Outcome, Reason};
use crate::call::version_negotiation::VersionNegotiation;
use crate::record::attachment_record::RecordedDelegate;
use crate::run::failed_delegate::{FailedDelegate, Operation};
use crate::run::prev_result::{checkable, completed, with_selection};

/// The step of one delegate, in any command other than ADD.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step<'a> {
    pub(crate) name: &'a DelegateName,
    /// Its configuration, without `prevResult`.
    pub(crate) config: &'a NetworkConfig,
    /// Today's configuration, if it differs: for a second attempt, if the first fails.
    pub(crate) fallback: Option<&'a NetworkConfig>,
    /// Its part in the recorded ADD. The recorded result replaces a missing one, and the
    /// result of a selector that fails.
    pub(crate) recorded: Option<RecordedDelegate<'a>>,
    /// The recorded result of a selector. It replaces a missing one.
    pub(crate) selection: Option<&'a RawValue>,
    /// True if it may be gone from the node, since today's configuration doesn't name it.
    pub(crate) may_be_gone: bool,
}

impl<'a> Step<'a> {
    /// A step of which nothing is recorded.
    pub(crate) fn new(name: &'a DelegateName, config: &'a NetworkConfig) -> Self {
        Self {
            name,
            config,
            fallback: None,
            recorded: None,
            selection: None,
            may_be_gone: false,
        }
    }

    /// The step of a delegate of a recorded ADD.
    pub(crate) fn recorded(delegate: RecordedDelegate<'a>, config: &'a NetworkConfig) -> Self {
        Self {
            recorded: Some(delegate),
            selection: delegate.selection(),
            ..Self::new(delegate.name, config)
        }
    }

    /// The steps of these delegates, of which nothing is recorded.
    pub(crate) fn all(names: &'a [DelegateName], config: &'a NetworkConfig) -> Vec<Self> {
        names.iter().map(|name| Self::new(name, config)).collect()
    }
}

/// Runs the delegates of one call.
pub(crate) struct Steps<'a, D> {
    pub(crate) delegates: &'a mut D,
    versions: VersionNegotiation,
    attachment: Option<&'a Attachment>,
}

/// Behaviour after the failure of a delegate.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnFailure {
    /// The next delegate runs.
    Continue,
    /// No further delegate runs.
    Stop,
}

impl<'a, D: Delegates> Steps<'a, D> {
    pub(crate) fn new(delegates: &'a mut D, attachment: Option<&'a Attachment>) -> Self {
        Self {
            delegates,
            versions: VersionNegotiation::default(),
            attachment,
        }
    }

    /// Runs the steps with a command other than ADD; returns the failed delegates.
    ///
    /// The first delegate receives `prev_result`, or the `prevResult` of its
    /// configuration. A result that a delegate prints is the next one's `prevResult`, but a
    /// selector's pools are those that it selected on ADD.
    /// If a delegate prints nothing, as the specification requires, the next one receives
    /// the same `prevResult`, with further keys from the delegate's recorded result.
    pub(crate) fn run(
        &mut self,
        command: Command,
        steps: &[Step<'_>],
        mut prev_result: Option<Box<RawValue>>,
        on_failure: OnFailure,
    ) -> Vec<FailedDelegate> {
        let mut failed = Vec::new();
        for step in steps {
            match self.attempt(step, command, prev_result.as_deref()) {
                Outcome::Result(output) => {
                    prev_result = Some(match step.selection {
                        Some(selection) => with_selection(output.json(), selection),
                        None => output.json().to_owned(),
                    });
                    continue;
                }
                Outcome::Nothing => {}
                Outcome::Failed(failure) => {
                    if let Some(mut error) = self.fatal(step, command, &failure) {
                        if step.fallback.is_some() && !failure.is_not_run() {
                            error = not_asked(error);
                        }
                        failed.push(self.failed(step.name, command, step.config, error));
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
    fn fatal(&self, step: &Step<'_>, command: Command, failure: &Failure) -> Option<Error> {
        let Step { name, recorded, .. } = step;
        match failure {
            Failure::Garbled { stdout, .. } => {
                // The command has succeeded, and it requires no output.
                tracing::warn!(delegate = %name, %command, stdout, "ignoring output that is no result");
                return None;
            }
            Failure::NotFound { .. } if step.may_be_gone => {
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
        let error = failure.to_error();
        if recorded.is_some_and(|recorded| recorded.holds_nothing) {
            tracing::warn!(delegate = %name, %command, %error, "going on with its recorded result");
            return None;
        }
        Some(error)
    }

    /// Runs a delegate, and, if it fails, once more with the fallback: a selector, which holds
    /// nothing, or a delegate that confirms that the fallback leads to the same addresses.
    fn attempt(
        &mut self,
        step: &Step<'_>,
        command: Command,
        prev_result: Option<&RawValue>,
    ) -> Outcome {
        let outcome = self.run_one(step.name, command, step.config, prev_result);
        let (Outcome::Failed(failure), Some(fallback)) = (&outcome, step.fallback) else {
            return outcome;
        };
        let is_final = failure.is_not_run()
            || matches!(
                failure,
                Failure::Garbled { .. }
                    | Failure::Terminated {
                        reason: Reason::TimedOut(_),
                        ..
                    }
            );
        let may_fall_back = !is_final
            && step.recorded.is_some_and(|recorded| {
                recorded.holds_nothing || self.leads_to(&recorded, fallback, prev_result)
            });
        if !may_fall_back {
            return outcome;
        }
        match self.run_one(step.name, command, fallback, prev_result) {
            Outcome::Failed(_) => outcome,
            succeeded => succeeded,
        }
    }

    /// True if CHECK with this configuration proves that it leads to the place where the
    /// recorded delegate has reserved: the attachment has its addresses there. A success of
    /// DEL is no proof, since DEL succeeds where there is nothing.
    fn leads_to(
        &mut self,
        recorded: &RecordedDelegate<'_>,
        config: &NetworkConfig,
        prev_result: Option<&RawValue>,
    ) -> bool {
        let Some(result) = recorded.result else {
            return false;
        };
        let prev_result = completed(prev_result, result);
        let result = IpamResult::read("result", &prev_result);
        if result.is_err() || result.is_ok_and(|result| result.ips.is_empty()) {
            return false;
        }
        let checked = self.run_one(
            recorded.name,
            Command::Check,
            &checkable(config),
            Some(&prev_result),
        );
        !matches!(checked, Outcome::Failed(_))
    }

    /// Runs one delegate.
    pub(crate) fn run_one(
        &mut self,
        name: &DelegateName,
        command: Command,
        config: &NetworkConfig,
        prev_result: Option<&RawValue>,
    ) -> Outcome {
        let call = DelegateCall::new(name, command, config, prev_result);
        self.versions.run(self.delegates, &call)
    }

    /// A failed delegate, with its call.
    pub(crate) fn failed(
        &self,
        delegate: &DelegateName,
        command: Command,
        config: &NetworkConfig,
        error: Error,
    ) -> FailedDelegate {
        FailedDelegate {
            delegate: delegate.clone(),
            operation: Operation {
                command,
                attachment: self.attachment.cloned(),
                network: config.name().clone(),
            },
            error,
        }
    }
}

/// The error of a delegate that could not be asked with the configuration of the ADD, from
/// which today's differs.
fn not_asked(error: Error) -> Error {
    let why = format!(
        "with the configuration of the ADD (code {}); that today's leads to what the ADD has \
         reserved is not proven",
        error.code
    );
    let details = match error.details.as_str() {
        "" => why,
        details => format!("{details}\n{why}"),
    };
    Error::new(code::TRY_AGAIN_LATER, error.msg).with_details(details)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{Script, config, names};
    use proptest::prelude::*;

    fn run(
        script: &mut Script,
        command: Command,
        delegates: &[&str],
        prev: &str,
        on_failure: OnFailure,
    ) -> Vec<String> {
        let (config, names) = (config(prev), names(delegates));
        let steps: Vec<Step<'_>> = names.iter().map(|n| Step::new(n, &config)).collect();
        Steps::new(script, None)
            .run(command, &steps, None, on_failure)
            .into_iter()
            .map(|failed| failed.delegate.to_string())
            .collect()
    }

    #[test]
    fn del_and_gc_go_on_and_report_all_failures() {
        for command in [Command::Del, Command::Gc] {
            let mut script = Script::new(&[("a", command, None), ("c", command, None)]);
            let failed = run(
                &mut script,
                command,
                &["a", "b", "c"],
                "",
                OnFailure::Continue,
            );
            assert_eq!(script.log().len(), 3);
            assert_eq!(failed, ["a", "c"]);
        }
    }

    #[test]
    fn check_and_status_stop_at_the_first_failure() {
        for command in [Command::Check, Command::Status] {
            let mut script = Script::new(&[("b", command, None)]);
            let failed = run(&mut script, command, &["a", "b", "c"], "", OnFailure::Stop);
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
        let mut script = Script::new(&[("fails", Command::Del, None)]);
        let failed =
            Steps::new(&mut script, None).run(Command::Del, &steps, None, OnFailure::Continue);
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
            let mut script = Script::new(&answers);
            let failed =
                Steps::new(&mut script, None).run(command, &steps, None, OnFailure::Continue);
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
            let mut script = Script::new(&answers);
            let prev = r#","prevResult":{"r":"rt"}"#;
            let failed = run(&mut script, Command::Del, &NAMES, prev, OnFailure::Continue);
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
