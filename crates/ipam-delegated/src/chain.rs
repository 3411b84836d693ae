//! Runs delegates in order, threads `prevResult` through them, and undoes what
//! a failed ADD has done.

use cni::{Answer, Command, DelegateName, Error, Failure, NetworkConfig, Printed, Reply};

use crate::failure::{self, Failed};

/// How delegates are called.
pub(crate) trait Delegates {
    /// Calls one, and returns what it answered.
    fn run(&mut self, name: &DelegateName, command: Command, stdin: &[u8]) -> Answer;
}

/// One call's way through the delegates.
pub(crate) struct Chain<'a, D> {
    config: &'a NetworkConfig,
    names: &'a [DelegateName],
    delegates: D,
}

impl<'a, D: Delegates> Chain<'a, D> {
    pub(crate) fn new(config: &'a NetworkConfig, names: &'a [DelegateName], delegates: D) -> Self {
        Self {
            config,
            names,
            delegates,
        }
    }

    /// ADD: each delegate gets the result of the one before it; the last one's
    /// is the answer. If one fails, all up to and including it are run with DEL.
    pub(crate) fn add(&mut self) -> Result<Printed, Error> {
        let mut result = None;
        for (i, delegate) in self.names.iter().enumerate() {
            let failure = match self.run(delegate, Command::Add, result.as_ref()) {
                Answer::Result(printed) => {
                    result = Some(printed);
                    continue;
                }
                Answer::Nothing => Failure::Silent,
                Answer::Failed(failure) => failure,
            };
            let failed = Self::failed(delegate, Command::Add, failure);
            tracing::debug!(%delegate, "rolling back");
            let rollback = self.thread(Command::Del, &self.names[..=i], result, OnFailure::GoOn);
            return Err(failure::of_add(failed, rollback));
        }
        Ok(result.expect("a chain has at least one delegate"))
    }

    /// DEL and GC: every delegate, whatever fails on the way.
    pub(crate) fn all(&mut self, command: Command) -> Result<Reply, Error> {
        self.every(command, OnFailure::GoOn)
    }

    /// CHECK and STATUS: every delegate until one fails.
    pub(crate) fn until_error(&mut self, command: Command) -> Result<Reply, Error> {
        self.every(command, OnFailure::Stop)
    }

    fn every(&mut self, command: Command, on_failure: OnFailure) -> Result<Reply, Error> {
        let failures = self.thread(command, self.names, None, on_failure);
        failure::of_all(failures).map_or(Ok(Reply::Nothing), Err)
    }

    /// Runs these with a command other than ADD. A result that one prints is
    /// the `prevResult` of those after it; where it prints nothing, as the
    /// specification has it, `prevResult` stays. `None` stands for the
    /// runtime's.
    fn thread(
        &mut self,
        command: Command,
        names: &[DelegateName],
        mut prev_result: Option<Printed>,
        on_failure: OnFailure,
    ) -> Vec<Failed> {
        let mut failures = Vec::new();
        for delegate in names {
            match self.run(delegate, command, prev_result.as_ref()) {
                Answer::Result(printed) => prev_result = Some(printed),
                Answer::Nothing => {}
                Answer::Failed(Failure::Garbled { stdout, .. }) => {
                    // It has done what it was asked, and nothing was to be printed.
                    tracing::warn!(%delegate, %command, stdout, "passing over what is no result");
                }
                Answer::Failed(failure) => {
                    failures.push(Self::failed(delegate, command, failure));
                    if on_failure == OnFailure::Stop {
                        break;
                    }
                }
            }
        }
        failures
    }

    fn run(&mut self, name: &DelegateName, command: Command, prev: Option<&Printed>) -> Answer {
        match prev {
            None => self.delegates.run(name, command, self.config.as_bytes()),
            Some(printed) => {
                let stdin = self.config.with_prev_result(printed.json());
                self.delegates.run(name, command, &stdin)
            }
        }
    }

    fn failed(delegate: &DelegateName, command: Command, failure: Failure) -> Failed {
        let error = failure.into_error();
        tracing::debug!(%delegate, %command, %error, "the delegate failed");
        Failed {
            delegate: delegate.clone(),
            error,
        }
    }
}

/// Whether the delegates after one that failed are run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OnFailure {
    GoOn,
    Stop,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a delegate is told to do, and a record of what was asked of all.
    #[derive(Default)]
    struct Script {
        answers: Vec<(&'static str, Command, Option<&'static str>)>,
        log: Vec<(String, Command, Option<String>)>,
    }

    impl Delegates for &mut Script {
        fn run(&mut self, name: &DelegateName, command: Command, stdin: &[u8]) -> Answer {
            let config = NetworkConfig::parse(stdin.to_vec()).unwrap();
            let prev = config.raw_prev_result().map(|raw| raw.get().to_owned());
            self.log.push((name.to_string(), command, prev));
            let scripted = self
                .answers
                .iter()
                .find(|(n, c, _)| *n == name.as_str() && *c == command);
            match scripted {
                None => Answer::Nothing,
                Some((.., Some(json))) => {
                    Answer::Result(Printed::try_from(json.as_bytes().to_vec()).unwrap())
                }
                Some((.., None)) => Answer::Failed(Failure::Error {
                    error: Error::new(5, "no"),
                    stderr: String::new(),
                }),
            }
        }
    }

    fn run<T>(
        script: &mut Script,
        names: &[&str],
        prev: &str,
        f: impl FnOnce(&mut Chain<'_, &mut Script>) -> T,
    ) -> T {
        let json = format!(r#"{{"cniVersion":"1.1.0","name":"n"{prev}}}"#);
        let config = NetworkConfig::parse(json.into_bytes()).unwrap();
        let names: Vec<DelegateName> = names.iter().map(|n| n.parse().unwrap()).collect();
        f(&mut Chain::new(&config, &names, script))
    }

    fn log(script: &Script) -> Vec<String> {
        script
            .log
            .iter()
            .map(|(n, c, p)| format!("{c} {n} {}", p.as_deref().unwrap_or("-")))
            .collect()
    }

    #[test]
    fn each_delegate_gets_the_result_of_the_one_before_it() {
        let mut script = Script {
            answers: vec![
                ("a", Command::Add, Some(r#"{"a": 1}"#)),
                ("b", Command::Add, Some("{\"b\":2}\n")),
            ],
            ..Script::default()
        };
        let result = run(&mut script, &["a", "b"], "", |c| c.add()).unwrap();
        assert_eq!(log(&script), ["ADD a -", r#"ADD b {"a": 1}"#]);
        assert_eq!(result.into_bytes(), b"{\"b\":2}\n");
    }

    #[test]
    fn a_failed_add_is_undone_with_what_the_failed_delegate_was_given() {
        let mut script = Script {
            answers: vec![
                ("a", Command::Add, Some(r#"{"a":1}"#)),
                ("b", Command::Add, Some(r#"{"b":2}"#)),
                ("c", Command::Add, None),
                ("a", Command::Del, None),
                ("b", Command::Del, Some(r#"{"b":3}"#)),
            ],
            ..Script::default()
        };
        let error = run(&mut script, &["a", "b", "c", "d"], "", |c| c.add()).unwrap_err();
        assert_eq!(
            log(&script)[2..],
            [
                r#"ADD c {"b":2}"#,
                r#"DEL a {"b":2}"#,
                r#"DEL b {"b":2}"#,
                r#"DEL c {"b":3}"#
            ]
        );
        assert_eq!(
            error,
            Error::new(5, "c: no").with_details("rollback: a: no")
        );
    }

    #[test]
    fn the_rollback_of_the_first_gets_what_the_first_was_given() {
        for (prev, given) in [("", "-"), (r#","prevResult":{"x":0}"#, r#"{"x":0}"#)] {
            let mut script = Script {
                answers: vec![("a", Command::Add, None)],
                ..Script::default()
            };
            run(&mut script, &["a", "b"], prev, |c| c.add()).unwrap_err();
            assert_eq!(
                log(&script),
                [format!("ADD a {given}"), format!("DEL a {given}")]
            );
        }
    }

    #[test]
    fn an_add_without_an_answer_is_a_failure() {
        let mut script = Script::default();
        let error = run(&mut script, &["a"], "", |c| c.add()).unwrap_err();
        assert_eq!(error.code, cni::code::DELEGATE_SILENT);
        assert_eq!(log(&script), ["ADD a -", "DEL a -"]);
    }

    #[test]
    fn del_and_gc_go_on_and_report_all_failures() {
        for command in [Command::Del, Command::Gc] {
            let mut script = Script {
                answers: vec![("a", command, None), ("c", command, None)],
                ..Script::default()
            };
            let error = run(&mut script, &["a", "b", "c"], "", |c| c.all(command)).unwrap_err();
            assert_eq!(script.log.len(), 3);
            assert_eq!(error.msg, "a: no; c: no");
        }
    }

    #[test]
    fn check_and_status_stop_at_the_first_failure() {
        for command in [Command::Check, Command::Status] {
            let mut script = Script {
                answers: vec![("b", command, None)],
                ..Script::default()
            };
            let error = run(&mut script, &["a", "b", "c"], "", |c| {
                c.until_error(command)
            });
            assert_eq!(script.log.len(), 2);
            assert_eq!(error.unwrap_err(), Error::new(5, "b: no"));
        }
    }

    proptest! {
        /// Whatever some delegates print and others don't: each one is given
        /// the last thing printed before it, or the runtime's `prevResult`.
        #[test]
        fn prev_result_is_the_last_that_was_printed(prints: [Option<bool>; 5]) {
            const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
            const PRINTED: [&str; 5] =
                [r#"{"r":0}"#, r#"{"r":1}"#, r#"{"r":2}"#, r#"{"r":3}"#, r#"{"r":4}"#];
            // None: nothing. Some(true): a result. Some(false): an error.
            let answers = (0..5)
                .filter_map(|i| {
                    prints[i].map(|ok| (NAMES[i], Command::Del, ok.then_some(PRINTED[i])))
                })
                .collect();
            let mut script = Script { answers, log: vec![] };
            let result = run(&mut script, &NAMES, r#","prevResult":{"r":"rt"}"#, |c| c.all(Command::Del));
            let mut expected = r#"{"r":"rt"}"#;
            for (i, (_, _, given)) in script.log.iter().enumerate() {
                prop_assert_eq!(given.as_deref(), Some(expected));
                if prints[i] == Some(true) {
                    expected = PRINTED[i];
                }
            }
            prop_assert_eq!(script.log.len(), 5);
            prop_assert_eq!(result.is_err(), prints.contains(&Some(false)));
        }
    }
}
