//! Steps of a command other than ADD: runs delegates in order and threads `prevResult` through them.

use std::fmt;

use cni::{Command, DelegateName, Error, NetworkConfig};
use serde_json::value::RawValue;

use crate::call::{DelegateCall, Delegates, Failure, Kind, Outcome};
use crate::record::RecordedDelegate;
use crate::run::threading::{added, completed};

/// The step of one delegate, in any command other than ADD.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step<'a> {
    pub(crate) name: &'a DelegateName,
    /// Its configuration, without `prevResult`.
    pub(crate) config: &'a NetworkConfig,
    /// Its part in the recorded ADD.
    pub(crate) recorded: Option<&'a RecordedDelegate>,
}

impl<'a> Step<'a> {
    /// A step of which nothing is recorded.
    pub(crate) fn new(name: &'a DelegateName, config: &'a NetworkConfig) -> Self {
        Self {
            name,
            config,
            recorded: None,
        }
    }

    /// The step of a delegate of a recorded ADD.
    pub(crate) fn recorded(delegate: &'a RecordedDelegate, config: &'a NetworkConfig) -> Self {
        Self {
            recorded: Some(delegate),
            ..Self::new(&delegate.name, config)
        }
    }

    /// The steps of these delegates, of which nothing is recorded.
    pub(crate) fn all(names: &'a [DelegateName], config: &'a NetworkConfig) -> Vec<Self> {
        names.iter().map(|name| Self::new(name, config)).collect()
    }
}

/// A failed delegate: name, call and error.
#[derive(Debug)]
pub(crate) struct FailedDelegate {
    pub(crate) delegate: DelegateName,
    /// Its command, with the attachment and the network.
    pub(crate) call: String,
    pub(crate) error: Error,
}

impl FailedDelegate {
    /// The failure of this call, in the environment of these delegates, which names the attachment.
    pub(crate) fn new(
        delegates: &Delegates<'_, '_>,
        call: &DelegateCall<'_>,
        error: Error,
    ) -> Self {
        let text = |name| delegates.environment.text(name);
        let (command, network) = (call.command, call.config.name());
        let of = match command {
            Command::Gc | Command::Status => String::new(),
            _ => format!(" of {} {}", text("CNI_CONTAINERID"), text("CNI_IFNAME")),
        };
        Self {
            delegate: call.name.clone(),
            call: format!("{command}{of} on network {network}"),
            error,
        }
    }

    /// The delegate's error, with its name in front and its call.
    pub(crate) fn into_error(self) -> Error {
        let msg = format!("{}: {}", self.delegate, self.error.msg);
        Error::new(self.error.code, msg)
            .with_line(&format!("asked {}: {}", self.delegate, self.call))
            .with_line(&self.error.details)
    }
}

impl fmt::Display for FailedDelegate {
    /// In one line, with the last line of the details.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.delegate, self.error.msg)?;
        match self.error.details.lines().next_back() {
            Some(last) => write!(f, " ({last})"),
            None => Ok(()),
        }
    }
}

/// Runs the steps with a command other than ADD; returns the failed delegates. CHECK and STATUS stop
/// at the first.
///
/// The first delegate receives `prev_result`, or the `prevResult` of its
/// configuration. A result that a delegate prints is the next one's `prevResult`, with the keys of its
/// own that it lacks ([`added`]). If it prints nothing, as the specification requires, the next one receives
/// the same `prevResult`. Keys that are missing are taken from the delegate's recorded result. The
/// keys of one that holds nothing are those of its ADD.
pub(crate) fn run(
    delegates: &Delegates<'_, '_>,
    command: Command,
    steps: &[Step<'_>],
    mut prev_result: Option<Box<RawValue>>,
) -> Vec<FailedDelegate> {
    let goes_on = matches!(command, Command::Del | Command::Gc);
    let mut failed = Vec::new();
    for step in steps {
        let given = prev_result.as_deref();
        let mut has_printed = false;
        let call = DelegateCall::new(step.name, command, step.config, given);
        match delegates.run(&call) {
            Outcome::Result(output) => {
                has_printed = true;
                let before = given.or_else(|| step.config.raw_prev_result());
                prev_result = Some(added(before, output.json()));
            }
            Outcome::Nothing => {}
            Outcome::Failed(failure) => {
                if let Some(error) = fatal(step, command, &failure) {
                    failed.push(FailedDelegate::new(delegates, &call, error));
                    if !goes_on {
                        break;
                    }
                }
            }
        }
        if let Some(recorded) = step.recorded
            && (step.name.holds_nothing() || !has_printed)
        {
            let printed = prev_result.as_deref();
            let now = printed.or_else(|| step.config.raw_prev_result());
            prev_result = completed(now, recorded).or(prev_result);
        }
    }
    failed
}

/// As [`run`]; returns the errors of the failed delegates.
pub(crate) fn errors(
    delegates: &Delegates<'_, '_>,
    command: Command,
    steps: &[Step<'_>],
    prev_result: Option<Box<RawValue>>,
) -> Vec<Error> {
    let failed = run(delegates, command, steps, prev_result);
    failed.into_iter().map(FailedDelegate::into_error).collect()
}

/// The error of a failed step; `None` if the failure may be passed over, which is
/// logged.
fn fatal(step: &Step<'_>, command: Command, failure: &Failure) -> Option<Error> {
    let Step { name, recorded, .. } = step;
    let error = failure.error.clone();
    if matches!(failure.kind, Kind::Garbled) {
        // The command has succeeded, and it requires no output.
        tracing::warn!(delegate = %name, %command, %error, "ignoring output that is no result");
        return None;
    }
    let is_dispensable = match command {
        Command::Del => recorded.is_some() && name.holds_nothing(),
        // What a facts delegate has found on ADD counts. GC has no container.
        Command::Check => recorded.is_some() && name.finds_facts(),
        Command::Gc => name.finds_facts(),
        _ => false,
    };
    if is_dispensable {
        tracing::warn!(delegate = %name, %command, %error, "going on with its recorded result, if any");
        return None;
    }
    Some(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{Script, config, names};
    use proptest::prelude::*;
    use std::iter::zip;

    fn recorded((name, result): (&DelegateName, Box<RawValue>)) -> RecordedDelegate {
        RecordedDelegate {
            name: name.clone(),
            result: Some(result),
        }
    }

    fn run(script: &Script, command: Command, delegates: &[&str], prev: &str) -> Vec<String> {
        let (config, names) = (config(prev), names(delegates));
        let steps: Vec<Step<'_>> = names.iter().map(|n| Step::new(n, &config)).collect();
        let failed = script.run(&names, |delegates| {
            super::run(delegates, command, &steps, None)
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
            let failed = run(&script, command, &["a", "b", "c"], "");
            assert_eq!(script.log().len(), 3);
            assert_eq!(failed, ["a", "c"]);
        }
    }

    #[test]
    fn check_and_status_stop_at_the_first_failure() {
        for command in [Command::Check, Command::Status] {
            let script = Script::new(&[("b", command, None)]);
            let failed = run(&script, command, &["a", "b", "c"], "");
            assert_eq!(script.log().len(), 2);
            assert_eq!(failed, ["b"]);
        }
    }

    #[test]
    fn a_recorded_result_replaces_a_missing_one() {
        let config = config(r#","prevResult":{"ips":["rt"]}"#);
        let names = names(&["ipam-ds-fails", "ipam-ds-silent", "last"]);
        let results = [
            r#"{"ips":[],"pools":[1]}"#,
            r#"{"ips":[],"pools":[1,2],"job":7}"#,
        ]
        .map(|json| RawValue::from_string(json.to_owned()).unwrap());
        let mut steps: Vec<Step<'_>> = names.iter().map(|n| Step::new(n, &config)).collect();
        let recorded: Vec<_> = zip(&names, results).map(recorded).collect();
        for (step, recorded) in zip(&mut steps, &recorded) {
            *step = Step::recorded(recorded, &config);
        }
        let script = Script::new(&[("ipam-ds-fails", Command::Del, None)]);
        let failed = script.run(&names, |delegates| {
            super::run(delegates, Command::Del, &steps, None)
        });
        assert!(failed.is_empty());
        assert_eq!(
            script.log(),
            [
                r#"DEL ipam-ds-fails {"ips":["rt"]}"#,
                r#"DEL ipam-ds-silent {"ips":["rt"],"pools":[1]}"#,
                r#"DEL last {"ips":["rt"],"pools":[1,2],"job":7}"#,
            ]
        );
    }

    #[test]
    fn a_selectors_pools_are_those_of_the_add_and_an_allocators_answer_is_as_it_prints() {
        let config = config("");
        let names = names(&["ipam-ds-x", "allocator", "last"]);
        let result = RawValue::from_string(r#"{"ips":[1],"pools":["then"]}"#.to_owned()).unwrap();
        let recorded = [0, 1].map(|i| recorded((&names[i], result.clone())));
        let mut steps: Vec<Step<'_>> = names.iter().map(|n| Step::new(n, &config)).collect();
        for (step, recorded) in zip(&mut steps, &recorded) {
            *step = Step::recorded(recorded, &config);
        }
        let now = r#"{"ips":[],"x":1.50,"pools":["now"]}"#;
        for command in [Command::Del, Command::Check] {
            let answers = ["ipam-ds-x", "allocator"].map(|name| (name, command, Some(now)));
            let script = Script::new(&answers);
            let failed = script.run(&names, |delegates| {
                super::run(delegates, command, &steps, None)
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
    fn a_facts_delegate_that_fails_is_stood_in_for_by_its_record() {
        let config = config("");
        let names = names(&["ipam-df-x", "ipam-ds-x", "last"]);
        let result = RawValue::from_string(r#"{"ips":[],"facts":{"rack":"r7"}}"#.to_owned());
        let delegate = recorded((&names[0], result.unwrap()));
        let mut steps: Vec<Step<'_>> = names.iter().map(|n| Step::new(n, &config)).collect();
        for command in [Command::Del, Command::Check, Command::Gc] {
            let script = Script::new(&[("ipam-df-x", command, None)]);
            if command != Command::Gc {
                steps[0] = Step::recorded(&delegate, &config);
            } else {
                steps[0] = Step::new(&names[0], &config);
            }
            let failed = script.run(&names, |delegates| {
                super::run(delegates, command, &steps, None)
            });
            assert!(failed.is_empty(), "{command}");
            let given = match command {
                Command::Gc => "-",
                _ => delegate.result.as_ref().unwrap().get(),
            };
            assert_eq!(script.log()[1], format!("{command} ipam-ds-x {given}"));
        }
        // Without a record, CHECK has no facts; and STATUS asks whether an ADD would have them.
        for command in [Command::Check, Command::Status] {
            let failing = [("ipam-df-x", command, None)];
            let script = Script::new(&failing);
            let failed = run(&script, command, &["ipam-df-x", "last"], "");
            assert_eq!(failed, ["ipam-df-x"]);
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
            let failed = run(&script, Command::Del, &NAMES, prev);
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

    fn failed(delegate: &str, call: &str, code: u64, msg: &str, details: &str) -> FailedDelegate {
        FailedDelegate {
            delegate: delegate.parse().unwrap(),
            call: call.to_owned(),
            error: Error::new(code, msg).with_details(details),
        }
    }

    #[test]
    fn a_failure_is_one_line_with_the_last_line_of_its_details() {
        let of = |details| failed("b", "DEL on network net", 102, "died", details).to_string();
        assert_eq!(of("stderr: x\ny"), "b: died (y)");
        assert_eq!(of(""), "b: died");
    }

    #[test]
    fn several_failures_are_one_error_with_the_first_ones_code() {
        let error = Error::all_as_one([
            failed("a", "DEL of c1 eth0 on network net", 5, "x", "").into_error(),
            failed("b", "GC on network net", 7, "y", "why").into_error(),
        ]);
        assert_eq!(
            error,
            Err(Error::new(5, "a: x; b: y").with_details(
                "asked a: DEL of c1 eth0 on network net\nasked b: GC on network net\nwhy"
            ))
        );
        assert_eq!(Error::all_as_one([]), Ok(()));
    }
}
