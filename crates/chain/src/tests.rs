//! Values for the unit tests.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Mutex;
use std::time::Instant;

use cni::{
    Attachment, Cancellation, Command, DelegateName, Environment, Error, JsonOutput, LinkedOutput,
    LinkedPlugin, NetworkConfig, code,
};

use crate::call::{Delegates, Plugins};
use crate::record::MOST_FOR_LOCK;
use crate::settings::AnswerMode;

/// `eth0` of `c1`.
pub(crate) fn attachment() -> Attachment {
    Attachment {
        container_id: "c1".parse().unwrap(),
        ifname: "eth0".parse().unwrap(),
    }
}

/// A linked plugin, which succeeds, prints `{}`, and writes this to stderr.
pub(crate) struct LinkedExample {
    pub(crate) name: &'static str,
    pub(crate) stderr: &'static str,
}

impl LinkedExample {
    /// A plugin of this name, which writes nothing to stderr.
    pub(crate) const fn named(name: &'static str) -> Self {
        Self { name, stderr: "" }
    }
}

impl LinkedPlugin for LinkedExample {
    fn name(&self) -> &str {
        self.name
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
            stderr: self.stderr.into(),
        }
    }
}

/// Repeats a call that waits for an attachment's lock, until it is free: on a loaded machine, the
/// longest wait may be too short. But each call has waited so long.
pub(crate) fn until_free<T>(wait: impl Fn() -> Result<T, Error>) -> Result<T, Error> {
    loop {
        let started = Instant::now();
        match wait() {
            Err(error) if error.code == code::TRY_AGAIN_LATER => {
                assert!(started.elapsed() >= MOST_FOR_LOCK);
            }
            outcome => return outcome,
        }
    }
}

/// The network `n`, with these further keys.
pub(crate) fn config(more: &str) -> NetworkConfig {
    let json = format!(r#"{{"cniVersion":"1.1.0","name":"n"{more}}}"#);
    NetworkConfig::parse(json.into_bytes()).unwrap()
}

pub(crate) fn names(names: &[&str]) -> Vec<DelegateName> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

/// Linked delegates that answer as they are told, and a log of their calls.
#[derive(Default)]
pub(crate) struct Script {
    /// The results of commands; `None` is an error. Without an entry, nothing is printed.
    answers: Vec<(&'static str, Command, Option<&'static str>)>,
    /// The answer to ADD.
    pub(crate) answer: AnswerMode,
    /// The code of the errors.
    pub(crate) error_code: u64,
    /// A delegate that is not installed.
    pub(crate) missing: Option<&'static str>,
    /// The number of calls after which the chain is cancelled.
    pub(crate) cancelled_after: Option<usize>,
    /// The number of calls after which every ADD fails.
    pub(crate) fails_after: Option<usize>,
    log: Mutex<Vec<String>>,
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
        self.log.lock().unwrap().clone()
    }

    /// Runs `f` with these delegates.
    pub(crate) fn run<T>(
        &self,
        names: &[DelegateName],
        f: impl FnOnce(&Delegates<'_, '_>) -> T,
    ) -> T {
        let installed = names
            .iter()
            .filter(|name| self.missing != Some(name.as_str()));
        let scripted = |name| Scripted { name, script: self };
        let scripted: Vec<Scripted<'_>> = installed.map(scripted).collect();
        let linked: Vec<&dyn LinkedPlugin> = scripted.iter().map(|one| one as _).collect();
        let environment = Environment::default().with("CNI_PATH", "/nowhere");
        let plugins = Plugins::in_cni_path(&environment).unwrap();
        let plugins = plugins.and_linked(&linked);
        let delegates = Delegates {
            cancellation: Some(self),
            ..Delegates::new(&plugins, environment)
        };
        f(&delegates)
    }
}

impl Cancellation for Script {
    fn is_cancelled(&self) -> bool {
        let calls = self.log.lock().unwrap().len();
        self.cancelled_after.is_some_and(|most| calls >= most)
    }

    fn fd(&self) -> io::Result<BorrowedFd<'_>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// One delegate of a script.
struct Scripted<'a> {
    name: &'a DelegateName,
    script: &'a Script,
}

impl LinkedPlugin for Scripted<'_> {
    fn name(&self) -> &str {
        self.name.as_str()
    }

    fn call(
        &self,
        environment: &Environment,
        config: NetworkConfig,
        _: Option<&dyn Cancellation>,
    ) -> LinkedOutput {
        let (name, script) = (self.name(), self.script);
        let command: Command = environment.text("CNI_COMMAND").parse().unwrap();
        let prev_result = config.raw_prev_result().map_or("-", |raw| raw.get());
        let mut log = script.log.lock().unwrap();
        let is_late = script.fails_after.is_some_and(|most| log.len() >= most);
        if command != Command::Version {
            log.push(format!("{command} {name} {prev_result}"));
        }
        let mut answers = script.answers.iter();
        let answer = answers.find(|(of, to, _)| *of == name && *to == command);
        let answer = match answer {
            None => Ok(None),
            Some((.., Some(json))) if !(is_late && command == Command::Add) => Ok(Some(
                JsonOutput::try_from(json.as_bytes().to_vec()).unwrap(),
            )),
            Some(_) => Err(Error::new(script.error_code, "no")),
        };
        LinkedOutput {
            answer,
            stderr: Vec::new(),
        }
    }
}
