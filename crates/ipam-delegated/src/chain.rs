//! Runs delegates in order, threads `prevResult` through them, and undoes what
//! a failed ADD has done.

use cni::{
    Answer, Attachment, Command, DelegateName, Error, Failure, NetworkConfig, Object, Printed,
};
use serde_json::value::RawValue;

use crate::delegates::Delegates;
use crate::failure::{Asked, Failed, FailedAdd};
use crate::merge::merge;

/// A delegate's turn in the chain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn<'a> {
    pub(crate) name: &'a DelegateName,
    /// What it is called with, but for `prevResult`.
    pub(crate) config: &'a NetworkConfig,
    /// What those after it were given on ADD, if that is known. It stands in for
    /// an answer that this one doesn't give.
    pub(crate) handed_on: Option<&'a RawValue>,
    /// Whether it is known to hold nothing, so that its failure need not be one.
    pub(crate) holds_nothing: bool,
    /// What it is called with if it fails with the other one.
    pub(crate) otherwise: Option<&'a NetworkConfig>,
}

impl<'a> Turn<'a> {
    /// A turn of which nothing is known but the configuration.
    pub(crate) fn new(name: &'a DelegateName, config: &'a NetworkConfig) -> Self {
        Self {
            name,
            config,
            handed_on: None,
            holds_nothing: false,
            otherwise: None,
        }
    }
}

/// What the chain is run for.
pub(crate) struct Chain<'a, D> {
    delegates: &'a mut D,
    attachment: Option<&'a Attachment>,
}

/// What is to happen after a delegate has failed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnFailure {
    /// Those after it are run.
    GoOn,
    /// They aren't.
    Stop,
}

impl<'a, D: Delegates> Chain<'a, D> {
    pub(crate) fn new(delegates: &'a mut D, attachment: Option<&'a Attachment>) -> Self {
        Self {
            delegates,
            attachment,
        }
    }

    /// ADD: each delegate gets the result of the one before it, or, if `merged`,
    /// of all before it; the last one's is the answer. `note` is told each result
    /// as it is handed on, by which delegate, and to which, if there is one more. If
    /// one fails, all up to and including it are run with DEL.
    pub(crate) fn add(
        &mut self,
        config: &NetworkConfig,
        names: &[DelegateName],
        merged: bool,
        mut note: impl FnMut(&RawValue, &DelegateName, Option<&DelegateName>),
    ) -> Result<Printed, Box<FailedAdd>> {
        let mut result: Option<Printed> = None;
        for (i, name) in names.iter().enumerate() {
            match self.add_one(config, name, result.as_ref(), merged) {
                Ok(printed) => {
                    note(printed.json(), name, names.get(i + 1));
                    result = Some(printed);
                }
                Err(failure) => {
                    let is_last = i + 1 == names.len();
                    let may_hold = may_hold(&failure, is_last);
                    let failed = self.failed(name, Command::Add, config, failure.into_error());
                    return Err(self.undo(config, &names[..=i], result.as_ref(), failed, may_hold));
                }
            }
        }
        let result = result.expect("a chain has at least one delegate");
        if self.delegates.interrupted()
            && let Some(last) = names.last()
        {
            // Nobody may be waiting for the answer any more.
            let failed = self.failed(
                last,
                Command::Add,
                config,
                Failure::Interrupted.into_error(),
            );
            return Err(self.undo(config, names, Some(&result), failed, true));
        }
        Ok(result)
    }

    fn add_one(
        &mut self,
        config: &NetworkConfig,
        name: &DelegateName,
        earlier: Option<&Printed>,
        merged: bool,
    ) -> Result<Printed, Failure> {
        let prev_result = earlier.map(Printed::json);
        match self.run(name, Command::Add, config, prev_result) {
            Answer::Result(printed) => match earlier {
                Some(earlier) if merged => merge(earlier, &printed, config.version()),
                _ => Ok(printed),
            },
            Answer::Nothing => Err(Failure::Silent),
            Answer::Failed(failure) => Err(failure),
        }
    }

    /// Runs these with DEL. The first gets what the failed one was given.
    fn undo(
        &mut self,
        config: &NetworkConfig,
        names: &[DelegateName],
        given: Option<&Printed>,
        failed: Failed,
        may_hold: bool,
    ) -> Box<FailedAdd> {
        tracing::debug!(delegate = %failed.delegate, "rolling back");
        self.delegates.undoing();
        let turns: Vec<Turn<'_>> = names.iter().map(|name| Turn::new(name, config)).collect();
        let given = given.map(|printed| printed.json().to_owned());
        let not_undone = self.run_all(Command::Del, &turns, given, OnFailure::GoOn);
        let is_undone = |name: &&DelegateName| not_undone.iter().all(|f| f.delegate != **name);
        Box::new(FailedAdd {
            failed,
            may_hold,
            undone: names.iter().filter(is_undone).cloned().collect(),
            not_undone,
        })
    }

    /// Runs these with a command other than ADD; returns what failed. A result
    /// that one prints is the `prevResult` of those after it; where it prints
    /// nothing, as the specification has it, `prevResult` stays, with what its ADD
    /// has handed on besides. It begins with the given one, or with what is in the
    /// configuration.
    pub(crate) fn run_all(
        &mut self,
        command: Command,
        turns: &[Turn<'_>],
        mut prev_result: Option<Box<RawValue>>,
        on_failure: OnFailure,
    ) -> Vec<Failed> {
        let mut failures = Vec::new();
        for turn in turns {
            let Turn { name, config, .. } = turn;
            match self.take(turn, command, prev_result.as_deref()) {
                Answer::Result(printed) => {
                    prev_result = Some(printed.json().to_owned());
                    continue;
                }
                Answer::Nothing => {}
                Answer::Failed(Failure::Garbled { stdout, .. }) => {
                    // It has done what it was asked, and nothing was to be printed.
                    tracing::warn!(delegate = %name, %command, stdout, "passing over what is no result");
                }
                Answer::Failed(failure) => {
                    let error = failure.into_error();
                    if turn.holds_nothing {
                        tracing::warn!(delegate = %name, %command, %error, "going on with what it found on ADD");
                    } else {
                        failures.push(self.failed(name, command, config, error));
                        if on_failure == OnFailure::Stop {
                            break;
                        }
                    }
                }
            }
            if let Some(handed_on) = turn.handed_on {
                let given = prev_result.as_deref().or_else(|| config.raw_prev_result());
                prev_result = Some(completed(given, handed_on));
            }
        }
        failures
    }

    /// A delegate's turn, and, if it fails, the one that is left.
    fn take(
        &mut self,
        turn: &Turn<'_>,
        command: Command,
        prev_result: Option<&RawValue>,
    ) -> Answer {
        let answer = self.run(turn.name, command, turn.config, prev_result);
        match (&answer, turn.otherwise) {
            (Answer::Failed(failure), Some(otherwise))
                if !matches!(failure, Failure::Garbled { .. }) =>
            {
                match self.run(turn.name, command, otherwise, prev_result) {
                    Answer::Failed(_) => answer,
                    succeeded => succeeded,
                }
            }
            _ => answer,
        }
    }

    fn run(
        &mut self,
        name: &DelegateName,
        command: Command,
        config: &NetworkConfig,
        prev_result: Option<&RawValue>,
    ) -> Answer {
        match prev_result {
            None => self.delegates.run(name, command, config.as_bytes()),
            Some(result) => {
                let stdin = config.with_prev_result(result);
                self.delegates.run(name, command, &stdin)
            }
        }
    }

    fn failed(
        &self,
        delegate: &DelegateName,
        command: Command,
        config: &NetworkConfig,
        error: Error,
    ) -> Failed {
        tracing::debug!(%delegate, %command, %error, "the delegate failed");
        Failed {
            delegate: delegate.clone(),
            asked: Asked {
                command,
                attachment: self.attachment.cloned(),
                network: config.name().clone(),
            },
            error,
        }
    }
}

/// Whether a delegate that has failed with ADD may hold something. One that could
/// not be started doesn't. Neither does a selector, which only finds, if it was
/// able to say that it failed; of one that died, nobody knows.
fn may_hold(failure: &Failure, is_last: bool) -> bool {
    match failure {
        Failure::NotFound { .. } | Failure::NotStarted { .. } => false,
        Failure::Error { .. } => is_last,
        _ => true,
    }
}

/// A `prevResult` with the keys besides that were handed on: the runtime's has
/// the addresses, a selector's has the pools.
fn completed(given: Option<&RawValue>, handed_on: &RawValue) -> Box<RawValue> {
    let object = |raw: &RawValue| serde_json::from_str::<Object>(raw.get()).ok();
    let (Some(mut all), Some(more)) = (given.and_then(object), object(handed_on)) else {
        return handed_on.to_owned();
    };
    for key in more.keys() {
        if let (None, Some(value)) = (all.get(key), more.get(key)) {
            let value = value.to_owned();
            all.set_raw(key, value);
        }
    }
    serde_json::value::to_raw_value(&all).expect("an object is JSON")
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
        /// After so many calls, we are told to stop.
        interrupted_after: Option<usize>,
    }

    impl Delegates for Script {
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

        fn interrupted(&self) -> bool {
            self.interrupted_after.is_some_and(|n| self.log.len() >= n)
        }

        fn undoing(&mut self) {
            self.interrupted_after = None;
        }
    }

    impl Script {
        fn new(answers: &[(&'static str, Command, Option<&'static str>)]) -> Self {
            Self {
                answers: answers.to_vec(),
                ..Self::default()
            }
        }

        fn log(&self) -> Vec<String> {
            self.log
                .iter()
                .map(|(n, c, p)| format!("{c} {n} {}", p.as_deref().unwrap_or("-")))
                .collect()
        }

        fn add(&mut self, names: &[&str], prev: &str) -> Result<Printed, Box<FailedAdd>> {
            let (config, names) = (config(prev), names_of(names));
            Chain::new(self, None).add(&config, &names, false, |_, _, _| {})
        }

        fn run_all(
            &mut self,
            command: Command,
            names: &[&str],
            prev: &str,
            on_failure: OnFailure,
        ) -> Vec<String> {
            let (config, names) = (config(prev), names_of(names));
            let turns: Vec<Turn<'_>> = names.iter().map(|n| Turn::new(n, &config)).collect();
            Chain::new(self, None)
                .run_all(command, &turns, None, on_failure)
                .into_iter()
                .map(|failed| failed.delegate.to_string())
                .collect()
        }
    }

    fn config(prev: &str) -> NetworkConfig {
        let json = format!(r#"{{"cniVersion":"1.1.0","name":"n"{prev}}}"#);
        NetworkConfig::parse(json.into_bytes()).unwrap()
    }

    fn names_of(names: &[&str]) -> Vec<DelegateName> {
        names.iter().map(|n| n.parse().unwrap()).collect()
    }

    #[test]
    fn each_delegate_gets_the_result_of_the_one_before_it() {
        let mut script = Script::new(&[
            ("a", Command::Add, Some(r#"{"a": 1}"#)),
            ("b", Command::Add, Some("{\"b\":2}\n")),
        ]);
        let result = script.add(&["a", "b"], "").unwrap();
        assert_eq!(script.log(), ["ADD a -", r#"ADD b {"a": 1}"#]);
        assert_eq!(result.into_bytes(), b"{\"b\":2}\n");
    }

    #[test]
    fn what_is_handed_on_is_noted_as_it_is() {
        let mut script = Script::new(&[
            (
                "a",
                Command::Add,
                Some(r#"{"ips":[{"address":"10.0.0.2/24"}]}"#),
            ),
            (
                "b",
                Command::Add,
                Some(r#"{"ips":[{"address":"fd00::2/64"}],"b":1}"#),
            ),
        ]);
        let (config, names) = (config(""), names_of(&["a", "b"]));
        let mut noted = Vec::new();
        let result = Chain::new(&mut script, None)
            .add(&config, &names, true, |raw, _, _| {
                noted.push(raw.get().to_owned());
            })
            .unwrap();
        assert_eq!(noted[0], r#"{"ips":[{"address":"10.0.0.2/24"}]}"#);
        assert_eq!(noted[1], result.json().get());
        assert!(noted[1].contains("10.0.0.2/24") && noted[1].contains("fd00::2/64"));
    }

    #[test]
    fn a_failed_add_is_undone_with_what_the_failed_delegate_was_given() {
        let mut script = Script::new(&[
            ("a", Command::Add, Some(r#"{"a":1}"#)),
            ("b", Command::Add, Some(r#"{"b":2}"#)),
            ("c", Command::Add, None),
            ("a", Command::Del, None),
            ("b", Command::Del, Some(r#"{"b":3}"#)),
        ]);
        let failed = script.add(&["a", "b", "c", "d"], "").unwrap_err();
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
        assert_eq!(failed.undone, names_of(&["b", "c"]));
        assert_eq!(failed.not_undone[0].delegate.as_str(), "a");
    }

    #[test]
    fn the_rollback_of_the_first_gets_what_the_first_was_given() {
        for (prev, given) in [("", "-"), (r#","prevResult":{"x":0}"#, r#"{"x":0}"#)] {
            let mut script = Script::new(&[("a", Command::Add, None)]);
            script.add(&["a", "b"], prev).unwrap_err();
            assert_eq!(
                script.log(),
                [format!("ADD a {given}"), format!("DEL a {given}")]
            );
        }
    }

    #[test]
    fn an_add_without_an_answer_is_a_failure() {
        let mut script = Script::default();
        let failed = script.add(&["a"], "").unwrap_err();
        assert_eq!(failed.failed.error.code, cni::code::DELEGATE_SILENT);
        assert_eq!(script.log(), ["ADD a -", "DEL a -"]);
    }

    #[test]
    fn an_add_that_is_interrupted_at_its_end_is_undone() {
        let mut script = Script::new(&[("a", Command::Add, Some(r#"{"a":1}"#))]);
        script.interrupted_after = Some(1);
        let failed = script.add(&["a"], "").unwrap_err();
        assert_eq!(failed.failed.error.code, cni::code::INTERRUPTED);
        assert_eq!(script.log(), ["ADD a -", r#"DEL a {"a":1}"#]);
    }

    #[test]
    fn del_and_gc_go_on_and_report_all_failures() {
        for command in [Command::Del, Command::Gc] {
            let mut script = Script::new(&[("a", command, None), ("c", command, None)]);
            let failed = script.run_all(command, &["a", "b", "c"], "", OnFailure::GoOn);
            assert_eq!(script.log.len(), 3);
            assert_eq!(failed, ["a", "c"]);
        }
    }

    #[test]
    fn check_and_status_stop_at_the_first_failure() {
        for command in [Command::Check, Command::Status] {
            let mut script = Script::new(&[("b", command, None)]);
            let failed = script.run_all(command, &["a", "b", "c"], "", OnFailure::Stop);
            assert_eq!(script.log.len(), 2);
            assert_eq!(failed, ["b"]);
        }
    }

    #[test]
    fn what_was_found_on_add_stands_in_for_what_isnt_said() {
        let config = config(r#","prevResult":{"ips":["rt"]}"#);
        let names = names_of(&["fails", "silent", "last"]);
        let found = [
            r#"{"ips":[],"pools":[1]}"#,
            r#"{"ips":[],"pools":[1,2],"job":7}"#,
        ]
        .map(|json| RawValue::from_string(json.to_owned()).unwrap());
        let mut turns: Vec<Turn<'_>> = names.iter().map(|n| Turn::new(n, &config)).collect();
        for (turn, found) in turns.iter_mut().zip(&found) {
            turn.handed_on = Some(found);
            turn.holds_nothing = true;
        }
        let mut script = Script::new(&[("fails", Command::Del, None)]);
        let failed =
            Chain::new(&mut script, None).run_all(Command::Del, &turns, None, OnFailure::GoOn);
        assert!(failed.is_empty());
        assert_eq!(
            script.log(),
            [
                r#"DEL fails {"ips":["rt"]}"#,
                r#"DEL silent {"ips":["rt"],"pools":[1]}"#,
                // What is there already stays.
                r#"DEL last {"ips":["rt"],"pools":[1],"job":7}"#,
            ]
        );
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
            let answers: Vec<_> = (0..5)
                .filter_map(|i| {
                    prints[i].map(|ok| (NAMES[i], Command::Del, ok.then_some(PRINTED[i])))
                })
                .collect();
            let mut script = Script::new(&answers);
            let prev = r#","prevResult":{"r":"rt"}"#;
            let failed = script.run_all(Command::Del, &NAMES, prev, OnFailure::GoOn);
            let mut expected = r#"{"r":"rt"}"#;
            for (i, (_, _, given)) in script.log.iter().enumerate() {
                prop_assert_eq!(given.as_deref(), Some(expected));
                if prints[i] == Some(true) {
                    expected = PRINTED[i];
                }
            }
            prop_assert_eq!(script.log.len(), 5);
            let failing = prints.iter().filter(|p| **p == Some(false)).count();
            prop_assert_eq!(failed.len(), failing);
        }
    }
}
