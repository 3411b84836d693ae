//! Executes programs other than a chain's delegates: the plugins of a network
//! configuration list, an IPAM plugin that isn't a chain, and tools such as `ip`.

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::Duration;

use cni::{Command, DelegateName, Environment, Error, JsonOutput, NetworkConfig, SpecVersion};

use crate::call::delegate_call::DelegateCall;
use crate::call::event::Observer;
use crate::call::installed_delegates::InstalledDelegates;
use crate::call::outcome::{Failure, Kind, Outcome};
use crate::call::output::Output;
use crate::call::process::Run;
use crate::call::version_negotiation::supported_versions;
use crate::chain::Chain;
use crate::overtime::Overtime;
use crate::run::failed_delegate::first_error;
use crate::run::step::Step;
use crate::run::steps::{self, OnFailure};

/// Longest time that a plugin may take to print its versions, which are a constant.
const MOST_FOR_VERSIONS: Duration = Duration::from_secs(5);

/// Environment, time and lock of executed programs. A program leads a separate process group, which is
/// terminated if it takes too long or prints too much; a process that it leaves behind
/// isn't waited for.
#[derive(Clone, Copy)]
pub struct Execution<'a> {
    /// All of the environment, except `CNI_COMMAND`; the plugins are found in its
    /// `CNI_PATH`, and tools in its `PATH`.
    pub environment: &'a Environment,
    /// The longest that a program may take.
    pub timeout: Duration,
    /// A lock that programs inherit. It is held until the last of them has ended, even if this
    /// process is killed.
    pub lock: Option<BorrowedFd<'a>>,
}

impl Execution<'_> {
    /// Calls a plugin; returns its result if it prints one. Output that is no result
    /// counts as none, except on ADD.
    ///
    /// # Errors
    ///
    /// The plugin's, with its name; code 4 if `CNI_PATH` is missing or empty.
    pub fn plugin(
        &self,
        command: Command,
        plugin: &DelegateName,
        config: &NetworkConfig,
        observer: &dyn Observer,
    ) -> Result<Option<JsonOutput>, Error> {
        let mut chain = Chain::of_one(plugin, config, self.environment)?.observed_by(observer);
        chain.settings.timeout = Some(self.timeout);
        let environment = self.environment.clone();
        let mut delegates =
            InstalledDelegates::unmarked(&chain, environment).holding_lock(self.lock);
        let outcome = delegates.run_once(&DelegateCall::new(plugin, command, config, None));
        match outcome {
            Outcome::Result(output) => Ok(Some(output)),
            Outcome::Nothing => Ok(None),
            Outcome::Failed(Failure {
                kind: Kind::Garbled,
                ..
            }) if command != Command::Add => Ok(None),
            Outcome::Failed(Failure { error, .. }) => {
                let msg = format!("{plugin}: {}", error.msg);
                Err(Error { msg, ..error })
            }
        }
    }

    /// Runs a tool with these arguments and this stdin.
    ///
    /// # Errors
    ///
    /// It can't be run, it has failed, or it takes too long. The message has its name and
    /// the end of its stderr.
    pub fn tool(&self, tool: &str, arguments: &[&str], stdin: &str) -> Result<(), Error> {
        let run = Run {
            executable: Path::new(tool),
            arguments,
            environment: self.environment,
            stdin: stdin.as_bytes(),
            timeout: Some(self.timeout),
            cancellation: None,
            overtime: &Overtime::new(true),
            inherited: [self.lock, None],
        };
        let output = run.to_its_end(&mut |_| {});
        let output = output.map_err(|error| Failure::not_started(tool.as_ref(), &error).error)?;
        let said = output.stderr.trim().to_owned();
        // A tool's stdout is no CNI error.
        let stdout = Vec::new();
        match Outcome::from(Output { stdout, ..output }) {
            Outcome::Failed(Failure { error, .. }) if said.is_empty() => Err(error),
            Outcome::Failed(Failure { error, .. }) => Err(Error::new(error.code, said)),
            _ => Ok(()),
        }
    }
}

/// Executes an IPAM plugin with GC or STATUS, with this configuration and environment.
/// A plugin of a version without the command is passed over.
///
/// The plugin may be, or run, a chain itself. `owns_process` is as
/// [`Chain::owning_its_process`] has it.
///
/// # Errors
///
/// The plugin's, with its name; code 4 if `CNI_PATH` is missing or empty.
pub fn forward(
    command: Command,
    plugin: &DelegateName,
    config: &NetworkConfig,
    environment: &Environment,
    observer: &dyn Observer,
    owns_process: bool,
) -> Result<(), Error> {
    let chain = Chain::of_one(plugin, config, environment)?
        .observed_by(observer)
        .owning_its_process(owns_process);
    let steps = Step::all(&chain.settings.delegates, config);
    let mut delegates = InstalledDelegates::unmarked(&chain, environment.clone());
    let failed = steps::run(&mut delegates, command, None, &steps, None, OnFailure::Stop);
    first_error(failed)
}

/// The versions of the specification that an installed plugin supports, by its answer to VERSION.
/// A plugin that takes longer than five seconds is terminated with all that it has started.
///
/// # Errors
///
/// The reason: it is missing, it has failed, its answer is wrong.
pub fn versions(
    plugin: &DelegateName,
    version: SpecVersion,
    environment: &Environment,
) -> Result<Vec<String>, String> {
    let config = format!(r#"{{"cniVersion":"{version}","name":"version"}}"#);
    let config = NetworkConfig::parse(config.into_bytes()).map_err(|error| error.msg)?;
    let chain = Chain::of_one(plugin, &config, environment);
    let mut chain = chain.map_err(|error| error.msg)?;
    chain.settings.timeout = Some(MOST_FOR_VERSIONS);
    let mut installed = InstalledDelegates::new(&chain, environment.clone());
    match installed.run_once(&DelegateCall::new(plugin, Command::Version, &config, None)) {
        Outcome::Result(output) => supported_versions(&output),
        Outcome::Nothing => Err("it prints nothing on VERSION".to_owned()),
        Outcome::Failed(failure) => Err(failure.error.msg),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, Permissions};
    use std::os::fd::AsFd;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Instant;

    use rustix::fs::{CWD, FileType, FlockOperation, Mode, flock};

    use super::*;
    use crate::call::event::Event;
    use crate::record::lock_holders::lock_holders;
    use crate::tests::{config, names};
    use state_files::lock_file;

    struct Quiet;

    impl Observer for Quiet {
        fn event(&self, _: &Event<'_>) {}
    }

    /// A folder with the plugin `p`, a script.
    fn folder(script: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p");
        fs::write(&path, format!("#!/bin/sh\n{script}")).unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
        folder
    }

    fn environment(folder: &tempfile::TempDir) -> Environment {
        let environment = Environment::default().with("CNI_PATH", folder.path());
        environment.with("PATH", std::env::var_os("PATH").unwrap_or_default())
    }

    fn call(script: &str, command: Command, timeout: Duration) -> Result<Option<String>, Error> {
        let folder = folder(script);
        let execution = Execution {
            environment: &environment(&folder),
            timeout,
            lock: None,
        };
        let output = execution.plugin(command, &names(&["p"])[0], &config(""), &Quiet);
        output.map(|output| output.map(|output| output.json().get().to_owned()))
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_plugin_that_leaves_a_child_on_its_pipes_is_not_waited_for() {
        let started = Instant::now();
        let script = "sleep 20 & echo '{\"ips\": []}'";
        let printed = call(script, Command::Add, LONG).unwrap();
        assert_eq!(printed.as_deref(), Some("{\"ips\": []}"));
        assert!(started.elapsed() < Duration::from_secs(15));
    }

    #[test]
    fn a_plugin_that_takes_too_long_or_prints_too_much_is_terminated() {
        let error = call("sleep 100", Command::Add, Duration::from_millis(50)).unwrap_err();
        assert!(
            error.msg.starts_with("p: did not end within 50ms"),
            "{error}"
        );
        let error = call("cat /dev/zero", Command::Add, LONG).unwrap_err();
        assert!(error.msg.starts_with("p: printed more than"), "{error}");
    }

    #[test]
    fn output_that_is_no_result_counts_only_on_add() {
        assert!(call("echo done", Command::Add, LONG).is_err());
        assert_eq!(call("echo done", Command::Del, LONG).unwrap(), None);
        let refused = "echo '{\"code\": 11, \"msg\": \"not now\"}'; exit 1";
        let error = call(refused, Command::Del, LONG).unwrap_err();
        assert_eq!((error.code, error.msg.as_str()), (11, "p: not now"));
    }

    #[test]
    fn a_tools_words_are_the_error() {
        let folder = folder("");
        let execution = Execution {
            environment: &environment(&folder),
            timeout: LONG,
            lock: None,
        };
        execution
            .tool("sh", &["-c", "read a; [ $a = b ]"], "b\n")
            .unwrap();
        let error = execution.tool("sh", &["-c", "echo no >&2; exit 3"], "");
        assert_eq!(error.unwrap_err().msg, "no");
        let error = execution.tool("no-such-tool", &[], "").unwrap_err();
        assert!(error.msg.contains("no-such-tool"), "{error}");
        // What it prints on stdout is nobody's error.
        let printed = "echo '{\"code\": 7, \"msg\": \"no\"}'";
        execution.tool("sh", &["-c", printed], "").unwrap();
        let error = execution.tool("sh", &["-c", &format!("{printed}; exit 3")], "");
        let error = error.unwrap_err();
        assert_eq!(error.code, cni::code::DELEGATE_FAILED);
        assert!(error.msg.contains("exit status: 3"), "{error}");
    }

    #[test]
    fn what_a_killed_caller_has_left_holds_its_lock_until_it_ends() {
        let folder = folder("");
        let path = folder.path().join("lock");
        let lock = File::create(&path).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        let execution = Execution {
            environment: &environment(&folder),
            timeout: LONG,
            lock: Some(lock.as_fd()),
        };
        // The first process ends, as a caller that is killed does.
        let fifo = folder.path().join("fifo");
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
        let waits = format!("read gone < '{}' & exit 0", fifo.display());
        execution.tool("sh", &["-c", &waits], "").unwrap();
        drop(lock);
        let other = File::open(&path).unwrap();
        assert!(!lock_file(&other, Some(Duration::ZERO), None).unwrap());
        let holders = lock_holders(&other).unwrap();
        assert!(holders[0].ends_with(" (sh)"), "{holders:?}");
        fs::write(fifo, "gone\n").unwrap();
        assert!(lock_file(&other, Some(LONG), None).unwrap());
    }
}
