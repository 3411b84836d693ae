//! ADD in order, and the rollback of an ADD that has failed.

use std::io;

use cni::{Command, DelegateName, JsonOutput, NetworkConfig, code};
use serde_json::value::RawValue;

use crate::call::delegate_call::Delegates;
use crate::call::outcome::{Failure, Outcome};
use crate::leftover_processes::Left;
use crate::run::failed_delegate::FailedAdd;
use crate::run::merge::merge;
use crate::run::step::Step;
use crate::run::steps::{OnFailure, Steps};
use crate::settings::AnswerMode;

impl<D: Delegates> Steps<'_, D> {
    /// ADD: each delegate receives the result of the one before it, or the merged results
    /// of all before it. The last result is the chain's answer, which `deliver` receives.
    /// `on_result` receives each result, and true for the last one. If a delegate fails,
    /// it and all before it are undone. If `deliver` fails, all are undone.
    pub(crate) fn add(
        &mut self,
        config: &NetworkConfig,
        names: &[DelegateName],
        mode: AnswerMode,
        mut on_result: impl FnMut(&RawValue, bool),
        deliver: impl FnOnce(&JsonOutput) -> io::Result<()>,
    ) -> Result<JsonOutput, Box<FailedAdd>> {
        let last = names.len() - 1;
        let mut prev_result: Option<JsonOutput> = None;
        for (i, name) in names.iter().enumerate() {
            let raw = prev_result.as_ref().map(JsonOutput::json);
            let result = match self.run_one(name, Command::Add, config, raw) {
                Outcome::Result(output) => match &prev_result {
                    Some(prev_result) if mode == AnswerMode::Merged => {
                        merge(prev_result, &output, config.version(), i == last)
                    }
                    _ => Ok(output),
                },
                Outcome::Nothing => Err(Failure::Silent),
                Outcome::Failed(failure) => Err(failure),
            };
            match result {
                Ok(result) => {
                    on_result(result.json(), i == last);
                    prev_result = Some(result);
                }
                Err(failure) => {
                    return Err(self.roll_back(config, names, i, prev_result.as_ref(), &failure));
                }
            }
        }
        let answer = prev_result.expect("a chain has at least one delegate");
        let undelivered = if self.delegates.is_cancelled() {
            // Nobody may be waiting for the answer any more.
            Some(Failure::cancelled(Left::Nothing))
        } else {
            deliver(&answer).err().map(Failure::NotDelivered)
        };
        match undelivered {
            None => Ok(answer),
            Some(failure) => Err(self.roll_back(config, names, last, Some(&answer), &failure)),
        }
    }

    /// Runs all delegates up to the failed one with DEL. The first receives the
    /// `prevResult` of the failed one.
    fn roll_back(
        &mut self,
        config: &NetworkConfig,
        names: &[DelegateName],
        failed: usize,
        prev_result: Option<&JsonOutput>,
        failure: &Failure,
    ) -> Box<FailedAdd> {
        let may_hold = may_hold(&names[failed], failure);
        let mut has_unterminated = failure.has_unterminated();
        let undone = undone(names, failed, failure);
        let failed = self.failed(&names[failed], Command::Add, config, failure.to_error());

        has_unterminated |= self.delegates.begin_rollback().is_at_work();
        let steps: Vec<Step<'_>> = undone.iter().map(|name| Step::new(name, config)).collect();
        let prev_result = prev_result.map(|output| output.json().to_owned());
        let mut not_undone = self.run(Command::Del, &steps, prev_result, OnFailure::Continue);
        let is_undone = |name: &&&DelegateName| {
            let mut failed = not_undone.iter();
            failed.all(|failed| failed.delegate != ***name)
        };
        let undone = undone.iter().filter(is_undone).copied().cloned().collect();
        if failed.error.code == code::INVALID_CONFIG {
            // A delegate that refuses its configuration has reserved nothing.
            not_undone.retain(|not_undone| not_undone.delegate != failed.delegate);
        }
        Box::new(FailedAdd {
            failed,
            may_hold,
            has_unterminated,
            undone,
            not_undone,
        })
    }
}

/// The delegates that a rollback runs with DEL: those up to the failed one, and the failed one
/// unless it has never run. One that has refused with 110 holds addresses of an earlier ADD,
/// which is in use; a DEL would release these, whichever of its places in the chain it has.
fn undone<'n>(
    names: &'n [DelegateName],
    failed: usize,
    failure: &Failure,
) -> Vec<&'n DelegateName> {
    let has_run = !failure.is_not_run();
    let run = names[..failed + usize::from(has_run)].iter();
    run.filter(|name| !failure.is_refusal() || **name != names[failed])
        .collect()
}

/// True if a delegate whose ADD has failed may still hold an address of it. A delegate
/// that was not started doesn't. Neither does one that has refused the configuration
/// (code 7) or the attachment (code 110), nor a selector that has printed an error.
fn may_hold(name: &DelegateName, failure: &Failure) -> bool {
    match failure {
        Failure::Error { error, .. } => {
            error.code != code::INVALID_CONFIG && !failure.is_refusal() && !name.is_selector()
        }
        failure => !failure.is_not_run(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{Script, config, names};

    fn add(
        script: &mut Script,
        delegates: &[&str],
        prev: &str,
    ) -> Result<JsonOutput, Box<FailedAdd>> {
        let (config, names) = (config(prev), names(delegates));
        Steps::new(script, None).add(&config, &names, AnswerMode::Last, |_, _| {}, |_| Ok(()))
    }

    #[test]
    fn each_delegate_gets_the_result_of_the_one_before_it() {
        let mut script = Script::new(&[
            ("a", Command::Add, Some(r#"{"a": 1}"#)),
            ("b", Command::Add, Some("{\"b\":2}\n")),
        ]);
        let result = add(&mut script, &["a", "b"], "").unwrap();
        assert_eq!(script.log(), ["ADD a -", r#"ADD b {"a": 1}"#]);
        assert_eq!(result.into_bytes(), b"{\"b\":2}\n");
    }

    #[test]
    fn each_result_is_told_as_the_next_prev_result() {
        let first = r#"{"ips":[{"address":"10.0.0.2/24"}]}"#;
        let mut script = Script::new(&[
            ("a", Command::Add, Some(first)),
            (
                "b",
                Command::Add,
                Some(r#"{"ips":[{"address":"fd00::2/64"}],"b":1}"#),
            ),
        ]);
        let (config, names) = (config(""), names(&["a", "b"]));
        let mut told = Vec::new();
        let result = Steps::new(&mut script, None)
            .add(
                &config,
                &names,
                AnswerMode::Merged,
                |raw, is_last| {
                    told.push((raw.get().to_owned(), is_last));
                },
                |_| Ok(()),
            )
            .unwrap();
        assert_eq!(told[0], (first.to_owned(), false));
        assert_eq!(told[1], (result.json().get().to_owned(), true));
        assert!(told[1].0.contains("10.0.0.2/24") && told[1].0.contains("fd00::2/64"));
    }

    #[test]
    fn a_failed_add_is_undone_with_the_prev_result_of_the_failed_delegate() {
        let mut script = Script::new(&[
            ("a", Command::Add, Some(r#"{"a":1}"#)),
            ("b", Command::Add, Some(r#"{"b":2}"#)),
            ("c", Command::Add, None),
            ("a", Command::Del, None),
            ("b", Command::Del, Some(r#"{"b":3}"#)),
        ]);
        let failed = add(&mut script, &["a", "b", "c", "d"], "").unwrap_err();
        assert_eq!(
            script.log()[2..],
            [
                r#"ADD c {"b":2}"#,
                r#"DEL a {"b":2}"#,
                r#"DEL b {"b":2}"#,
                r#"DEL c {"b":3}"#
            ]
        );
        assert_eq!(failed.failed.delegate.as_str(), "c");
        assert_eq!(failed.undone, names(&["b", "c"]));
        assert_eq!(failed.not_undone[0].delegate.as_str(), "a");
    }

    #[test]
    fn a_delegate_that_refuses_with_110_is_not_undone() {
        let mut script = Script::new(&[("a", Command::Add, Some("{}")), ("b", Command::Add, None)]);
        script.error_code = code::ALREADY_ALLOCATED;
        let failed = add(&mut script, &["a", "b"], "").unwrap_err();
        assert_eq!(script.log(), ["ADD a -", "ADD b {}", "DEL a {}"]);
        assert_eq!(failed.undone, names(&["a"]));
    }

    #[test]
    fn a_delegate_that_refuses_with_110_is_undone_in_none_of_its_places() {
        let mut script = Script::new(&[
            ("s", Command::Add, Some("{}")),
            ("a", Command::Add, Some(r#"{"a":1}"#)),
        ]);
        script.error_code = code::ALREADY_ALLOCATED;
        script.fails_after = Some(3);
        let failed = add(&mut script, &["s", "a", "s", "a"], "").unwrap_err();
        assert_eq!(script.log()[4..], ["DEL s {}", "DEL s {}"]);
        assert_eq!(failed.undone, names(&["s", "s"]));
    }

    #[test]
    fn a_delegate_that_is_not_installed_is_not_undone() {
        let mut script = Script::new(&[("a", Command::Add, Some("{}"))]);
        script.missing = Some("b");
        let failed = add(&mut script, &["a", "b"], "").unwrap_err();
        assert_eq!(script.log(), ["ADD a -", "DEL a {}"]);
        assert_eq!(failed.undone, names(&["a"]));
        assert!(failed.not_undone.is_empty());
    }

    #[test]
    fn the_rollback_of_the_first_gets_its_prev_result() {
        for (prev, prev_result) in [("", "-"), (r#","prevResult":{"x":0}"#, r#"{"x":0}"#)] {
            let mut script = Script::new(&[("a", Command::Add, None)]);
            add(&mut script, &["a", "b"], prev).unwrap_err();
            let log = [
                format!("ADD a {prev_result}"),
                format!("DEL a {prev_result}"),
            ];
            assert_eq!(script.log(), log);
        }
    }

    #[test]
    fn an_add_without_a_result_is_a_failure() {
        let mut script = Script::default();
        let failed = add(&mut script, &["a"], "").unwrap_err();
        assert_eq!(failed.failed.error.code, code::DELEGATE_SILENT);
        assert_eq!(script.log(), ["ADD a -", "DEL a -"]);
    }

    #[test]
    fn an_add_that_is_cancelled_at_its_end_is_undone() {
        let mut script = Script::new(&[("a", Command::Add, Some(r#"{"a":1}"#))]);
        script.cancelled_after = Some(1);
        let failed = add(&mut script, &["a"], "").unwrap_err();
        assert_eq!(failed.failed.error.code, code::INTERRUPTED);
        assert_eq!(script.log(), ["ADD a -", r#"DEL a {"a":1}"#]);
    }
}
