//! Executes programs that are no delegates of a chain: the plugins of a network configuration list,
//! an IPAM plugin that may be a chain itself, and tools.

use std::path::Path;
use std::time::Duration;

use cni::{Command, DelegateName, Environment, Error, JsonOutput, NetworkConfig, SpecVersion};

use crate::call::{
    DelegateCall, Delegates, Failure, InheritedLock, Kind, Observer, Outcome, Plugins, ProcessRun,
    TimeLimits, supported_versions,
};
use crate::record::OwnRecord;
use crate::run::steps::{self, Step};

/// Longest time that a plugin may take to print its versions, which are a constant.
const MOST_FOR_VERSIONS: Duration = Duration::from_secs(5);

/// Environment, time limit and record of executed programs. A program leads a separate process
/// group, which is terminated if it takes too long or prints too much; a process that it leaves
/// behind isn't waited for.
#[derive(Clone, Copy)]
pub struct Execution<'a> {
    /// All of the environment, except `CNI_COMMAND`; the plugins are found in its
    /// `CNI_PATH`, and tools in its `PATH`.
    pub environment: &'a Environment,
    /// The longest that a program may take.
    pub timeout: Duration,
    /// The record whose lock the programs inherit. If this process is killed, or a program had to
    /// be terminated, it is held until the last of them has ended.
    pub record: Option<&'a OwnRecord>,
}

impl Execution<'_> {
    /// Calls a plugin; returns its result if it prints one. Output that is no result counts as
    /// none, except on ADD.
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
        match self.outcome(command, plugin, config, Some(observer))? {
            Outcome::Result(output) => Ok(Some(output)),
            Outcome::Nothing => Ok(None),
            Outcome::Failed(failure)
                if matches!(failure.kind, Kind::Garbled) && command != Command::Add =>
            {
                Ok(None)
            }
            Outcome::Failed(Failure { error, .. }) => {
                let msg = format!("{plugin}: {}", error.msg);
                Err(Error { msg, ..error })
            }
        }
    }

    fn outcome(
        &self,
        command: Command,
        plugin: &DelegateName,
        config: &NetworkConfig,
        observer: Option<&dyn Observer>,
    ) -> Result<Outcome, Error> {
        let plugins = Plugins::in_cni_path(self.environment)?;
        let delegates = Delegates {
            observer,
            limits: TimeLimits {
                timeout: Some(self.timeout),
                ..TimeLimits::default()
            },
            lock: self.lock(),
            ..Delegates::new(&plugins, self.environment.clone())
        };
        Ok(delegates.run_once(&DelegateCall::new(plugin, command, config, None)))
    }

    /// Runs a tool with these arguments and this stdin.
    ///
    /// # Errors
    ///
    /// It can't be run, it has failed, or it takes too long. The message has its name or the end
    /// of its stderr.
    pub fn tool(&self, tool: &str, arguments: &[&str], stdin: &str) -> Result<(), Error> {
        let run = ProcessRun {
            executable: Path::new(tool),
            arguments,
            environment: self.environment,
            stdin: stdin.as_bytes(),
            timeout: Some(self.timeout),
            cancellation: None,
            lock: self.lock(),
        };
        let not_started = |error| Failure::not_started(run.executable, &error).error;
        let mut output = run.to_its_end(&mut |_| {}).map_err(not_started)?;
        let said = output.stderr.trim().to_owned();
        // A tool's stdout is no CNI error.
        output.stdout.clear();
        match Outcome::from(output) {
            Outcome::Failed(failure) if said.is_empty() => Err(failure.error),
            Outcome::Failed(failure) => Err(Error::new(failure.error.code, said)),
            _ => Ok(()),
        }
    }

    fn lock(&self) -> Option<&dyn InheritedLock> {
        self.record.map(|record| &record.file as _)
    }
}

/// Executes an IPAM plugin with GC or STATUS, with this configuration and environment.
/// A plugin of a version without the command is passed over.
///
/// The plugin may be, or run, a chain itself.
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
) -> Result<(), Error> {
    let plugins = Plugins::in_cni_path(environment)?;
    let delegates = Delegates {
        observer: Some(observer),
        ..Delegates::new(&plugins, environment.clone())
    };
    let steps = [Step::new(plugin, config)];
    Error::all_as_one(steps::errors(&delegates, command, &steps, None))
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
    let stdin = format!(r#"{{"cniVersion":"{version}","name":"version"}}"#);
    let config = NetworkConfig::parse(stdin.into_bytes()).map_err(|error| error.msg)?;
    let execution = Execution {
        environment,
        timeout: MOST_FOR_VERSIONS,
        record: None,
    };
    let outcome = execution.outcome(Command::Version, plugin, &config, None);
    match outcome.map_err(|error| error.msg)? {
        Outcome::Result(output) => supported_versions(&output),
        Outcome::Nothing => Err("it prints nothing on VERSION".to_owned()),
        Outcome::Failed(failure) => Err(failure.error.msg),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use rustix::fs::{CWD, FileType, Mode};

    use super::*;
    use crate::call::Event;
    use crate::record::lock_holders;
    use crate::tests::{attachment, config, names};
    use state_files::lock_file;

    struct Nobody;

    impl Observer for Nobody {
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
            record: None,
        };
        let output = execution.plugin(command, &names(&["p"])[0], &config(""), &Nobody);
        output.map(|output| output.map(|output| output.json().get().to_owned()))
    }

    const LONG: Duration = Duration::from_secs(60);

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
            record: None,
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

    /// Runs `run` with the record of an attachment, whose lock is then free or held by a daemon that
    /// `run` has started. The daemon reads the pipe `fifo`.
    fn lock_after(timeout: Duration, run: impl FnOnce(&Execution<'_>, &str), is_free: bool) {
        let folder = folder("eval $SCRIPT");
        let fifo = folder.path().join("fifo");
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
        // It leaves its group, as a daemon does.
        let daemon = format!(
            "cd {}; setsid sh -c ': > left; read gone < fifo' & \
             while [ ! -e left ]; do sleep 0.01; done;",
            folder.path().display()
        );
        let environment = environment(&folder);
        let record = OwnRecord::begin(
            folder.path(),
            &config(""),
            &attachment(),
            &names(&["p"]),
            &environment,
            serde_json::value::RawValue::NULL.to_owned(),
        );
        let record = record.unwrap();
        let execution = Execution {
            environment: &environment,
            timeout,
            record: Some(&record),
        };
        run(&execution, &daemon);
        let path = record.path.clone();
        drop(record);
        let file = File::open(&path).unwrap();
        let is_locked = |at_most| lock_file(&file, &path, Some(at_most), None).unwrap();
        let holders = lock_holders(&file).unwrap();
        assert_eq!(is_locked(Duration::ZERO), is_free);
        assert_eq!(holders.is_empty(), is_free, "{holders:?}");
        fs::write(&fifo, "gone\n").unwrap();
        assert!(is_locked(LONG));
    }

    #[test]
    fn a_lock_is_free_after_a_daemon_is_left_behind_and_held_after_a_program_was_killed() {
        for (then, is_free) in [
            ("exit 0", true),
            ("exit 1", true),
            // It is terminated, since it prints too much.
            ("exec cat /dev/zero", false),
            // As the kernel ends it where memory is short.
            ("kill -9 $$", false),
        ] {
            let run = |execution: &Execution<'_>, daemon: &str| {
                let script = format!("{daemon} {then}");
                let _ = execution.tool("sh", &["-c", &script], "");
            };
            lock_after(LONG, run, is_free);
        }
    }

    #[test]
    fn a_lock_is_held_after_a_plugin_was_terminated_that_had_refused() {
        let run = |execution: &Execution<'_>, daemon: &str| {
            let refused = "echo '{\"code\": 110, \"msg\": \"no\"}'";
            let script = format!("{daemon} {refused}; sleep 100");
            let environment = execution.environment.clone().with("SCRIPT", script);
            let execution = Execution {
                environment: &environment,
                ..*execution
            };
            let error = execution.plugin(Command::Add, &names(&["p"])[0], &config(""), &Nobody);
            assert_eq!(error.unwrap_err().code, cni::code::ALREADY_ALLOCATED);
        };
        // Long enough for its answer, on any machine.
        lock_after(Duration::from_secs(10), run, false);
    }
}
