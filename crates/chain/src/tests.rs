//! Values for the unit tests.

use cni::{
    Attachment, Cancellation, Command, DelegateName, Environment, Error, JsonOutput, LinkedOutput,
    LinkedPlugin, NetworkConfig,
};

use crate::call::delegate_call::{DelegateCall, Delegates};
use crate::call::outcome::Failure;
use crate::call::outcome::Outcome;
use crate::leftover_processes::Left;

/// `eth0` of `c1`.
pub(crate) fn attachment() -> Attachment {
    Attachment {
        container_id: "c1".parse().unwrap(),
        ifname: "eth0".parse().unwrap(),
    }
}

/// A linked plugin of this name, which succeeds and prints `{}`.
pub(crate) struct LinkedExample(pub(crate) &'static str);

impl LinkedPlugin for LinkedExample {
    fn name(&self) -> &str {
        self.0
    }

    fn call(
        &self,
        _: &Environment,
        _: NetworkConfig,
        _: Option<&dyn Cancellation>,
    ) -> LinkedOutput {
        LinkedOutput {
            answer: JsonOutput::try_from(b"{}".to_vec())
                .map(Some)
                .map_err(Error::config),
            stderr: Vec::new(),
        }
    }
}

/// The network `n`, with these further keys.
pub(crate) fn config(more: &str) -> NetworkConfig {
    let json = format!(r#"{{"cniVersion":"1.1.0","name":"n"{more}}}"#);
    NetworkConfig::parse(json.into_bytes()).unwrap()
}

/// Names of delegates.
pub(crate) fn names(names: &[&str]) -> Vec<DelegateName> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

/// Delegates that answer as they are told, and a log of their calls.
#[derive(Default)]
pub(crate) struct Script {
    /// The results of commands; `None` is an error. Without an entry, nothing is printed.
    answers: Vec<(&'static str, Command, Option<&'static str>)>,
    /// The code of the errors.
    pub(crate) error_code: u64,
    /// A delegate that is not installed.
    pub(crate) missing: Option<&'static str>,
    /// The number of calls after which the chain is cancelled.
    pub(crate) cancelled_after: Option<usize>,
    /// The number of calls after which every ADD fails.
    pub(crate) fails_after: Option<usize>,
    log: Vec<(String, Command, Option<String>)>,
}

impl Script {
    pub(crate) fn new(answers: &[(&'static str, Command, Option<&'static str>)]) -> Self {
        Self {
            answers: answers.to_vec(),
            error_code: 5,
            ..Self::default()
        }
    }

    /// The calls, as `<command> <delegate> <prevResult>`.
    pub(crate) fn log(&self) -> Vec<String> {
        self.log
            .iter()
            .map(|(n, c, p)| format!("{c} {n} {}", p.as_deref().unwrap_or("-")))
            .collect()
    }
}

impl Delegates for Script {
    fn run(&mut self, call: &DelegateCall<'_>) -> Outcome {
        if call.command == Command::Version {
            return Outcome::Nothing;
        }
        let name = call.name.as_str();
        if self.missing == Some(name) {
            return Outcome::Failed(Failure::NotFound {
                path: "/nowhere".into(),
                not_executable: None,
            });
        }
        let config = NetworkConfig::parse(call.stdin().into_owned()).unwrap();
        let prev = config.raw_prev_result().map(|raw| raw.get().to_owned());
        let is_late = self.fails_after.is_some_and(|n| self.log.len() >= n);
        self.log.push((name.to_owned(), call.command, prev));
        let scripted = |(n, c, _): &&(&str, Command, _)| *n == name && *c == call.command;
        match self.answers.iter().find(scripted) {
            Some(_) if is_late && call.command == Command::Add => Outcome::Failed(Failure::Error {
                error: Error::new(self.error_code, "no"),
                stderr: String::new(),
            }),
            None => Outcome::Nothing,
            Some((.., Some(json))) => {
                Outcome::Result(JsonOutput::try_from(json.as_bytes().to_vec()).unwrap())
            }
            Some((.., None)) => Outcome::Failed(Failure::Error {
                error: Error::new(self.error_code, "no"),
                stderr: String::new(),
            }),
        }
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled_after.is_some_and(|n| self.log.len() >= n)
    }

    fn begin_rollback(&mut self) -> Left {
        self.cancelled_after = None;
        Left::Nothing
    }
}
