//! Runs one delegate: finds it, gives it its input, and takes its output.

use std::path::Path;
use std::time::{Duration, Instant};

use cni::{Cancellation, DelegateName, Environment, LinkedPlugin, ROLLBACK};

use crate::call::deadline::Deadline;
use crate::call::delegate_call::DelegateCall;
use crate::call::event::{Event, Observer};
use crate::call::outcome::{Failure, Outcome};
use crate::call::output::StderrTail;
use crate::call::plugins::{InstalledPlugin, Plugins};
use crate::call::process::{InheritedLock, ProcessRun};

/// The longest that a delegate's DEL within an ADD may take without `delegateTimeout`: it can't
/// be cancelled, and may wait for a lock. If it fails, the attachment stays recorded.
const MOST_FOR_UNDOING: Duration = Duration::from_secs(10);

/// Time limits of delegates.
#[derive(Clone, Copy, Default)]
pub(crate) struct TimeLimits {
    /// `delegateTimeout`: the longest that each may take. With it, even a linked one is executed,
    /// since only a process can be terminated.
    pub(crate) timeout: Option<Duration>,
    /// The longest that each may take, whatever its configuration says.
    pub(crate) longest: Option<Duration>,
    /// The end for all.
    pub(crate) deadline: Option<Instant>,
    /// True for the DELs within an ADD, which undo it or an earlier one: the time of each is bounded
    /// even without `timeout`.
    pub(crate) is_bounded: bool,
}

impl TimeLimits {
    /// The longest that the next delegate may take.
    fn of_next(self) -> Option<Duration> {
        let most = self.is_bounded.then_some(MOST_FOR_UNDOING);
        let left = self
            .deadline
            .map(|end| end.saturating_duration_since(Instant::now()));
        let limits = [self.timeout.or(most), self.longest, left];
        limits.into_iter().flatten().min()
    }
}

/// Runs delegates under the same conditions: plugins, environment, observer, time limits,
/// cancellation and inherited lock.
#[derive(Clone)]
pub(crate) struct Delegates<'a, 'p> {
    pub(crate) plugins: &'a Plugins<'p>,
    /// Their environment, without `CNI_COMMAND`.
    pub(crate) environment: Environment,
    pub(crate) observer: Option<&'a dyn Observer>,
    pub(crate) limits: TimeLimits,
    pub(crate) cancellation: Option<&'a dyn Cancellation>,
    /// The lock that they inherit.
    pub(crate) lock: Option<&'a dyn InheritedLock>,
}

impl<'a, 'p> Delegates<'a, 'p> {
    /// Delegates without observer, limits, cancellation and lock.
    pub(crate) fn new(plugins: &'a Plugins<'p>, environment: Environment) -> Self {
        Self {
            plugins,
            environment,
            observer: None,
            limits: TimeLimits::default(),
            cancellation: None,
            lock: None,
        }
    }

    /// The same delegates in the rollback of their ADD: the cancellation is ignored, each
    /// delegate's time is bounded, and a delegate is told that only this call is undone.
    pub(crate) fn rolling_back(&self) -> Self {
        let mut delegates = self.clone();
        delegates.environment = delegates.environment.with(ROLLBACK, "1");
        delegates.limits.is_bounded = true;
        delegates.cancellation = None;
        delegates
    }

    /// Runs a delegate. One that may be too old for the network's version is asked for its
    /// versions, and run again.
    pub(crate) fn run(&self, call: &DelegateCall<'_>) -> Outcome {
        let versions = &self.plugins.versions;
        versions.run(call, &mut |call| self.run_once(call))
    }

    /// True if the call is cancelled.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancellation.is_some_and(Cancellation::is_cancelled)
    }

    /// Runs a delegate, without a second attempt in another version.
    pub(crate) fn run_once(&self, call: &DelegateCall<'_>) -> Outcome {
        if self.is_cancelled() {
            return Outcome::Failed(Failure::cancelled());
        }
        let limit = self.limits.of_next();
        if limit == Some(Duration::ZERO) {
            return Outcome::Failed(Failure::out_of_time());
        }
        let found = match self.plugins.find(call.name) {
            Ok(found) => found,
            Err(failure) => return Outcome::Failed(failure),
        };
        let started = Instant::now();
        self.tell(&Event::Started {
            delegate: call.name,
            command: call.command,
            executable: found.executable(),
            prev_result: call.config.raw_prev_result(),
        });
        let mut outcome = match found {
            InstalledPlugin::Linked(plugin, None) => self.call(plugin, call, limit),
            InstalledPlugin::Linked(plugin, _) if self.limits.timeout.is_none() => {
                self.call(plugin, call, limit)
            }
            InstalledPlugin::Linked(_, Some(path)) | InstalledPlugin::File(path) => {
                self.execute(&path, call, limit)
            }
        };
        // A delegate of a cancelled call counts as cancelled, whatever it printed.
        if let Outcome::Failed(failure) = &mut outcome
            && self.is_cancelled()
            && !failure.is_refusal()
        {
            failure.count_as_cancelled();
        }
        self.tell(&Event::Ended {
            delegate: call.name,
            command: call.command,
            outcome: &outcome,
            took: started.elapsed(),
        });
        outcome
    }

    /// Calls a linked plugin. Its time is bounded if it can't be cancelled.
    fn call(
        &self,
        plugin: &dyn LinkedPlugin,
        call: &DelegateCall<'_>,
        limit: Option<Duration>,
    ) -> Outcome {
        let limit = limit.filter(|_| self.cancellation.is_none());
        let deadline = match limit.map(Deadline::after).transpose() {
            Ok(deadline) => deadline,
            Err(error) => {
                let what = Path::new("a timer for its time limit");
                return Outcome::Failed(Failure::not_started(what, &error));
            }
        };
        let own = deadline.as_ref().map(|deadline| deadline as _);
        let cancellation: Option<&dyn Cancellation> = own.or(self.cancellation);
        let config = call.config.clone().into_owned();
        let output = plugin.call(&self.environment_of(call), config, cancellation);
        let mut stderr = StderrTail::default();
        if !output.stderr.is_empty() {
            self.tell_of_stderr(call.name, &output.stderr);
            stderr.add(&output.stderr);
        }
        let failure = match output.answer {
            Ok(Some(output)) => return Outcome::Result(output),
            Ok(None) => return Outcome::Nothing,
            Err(error) => Failure::printed(error, &stderr.into_text()),
        };
        let is_late = deadline.is_some_and(|deadline| deadline.is_cancelled());
        Outcome::Failed(match limit {
            Some(limit) if is_late && !failure.is_refusal() => Failure::timed_out(limit),
            _ => failure,
        })
    }

    /// Executes a delegate's file, and terminates it when its time is up.
    fn execute(
        &self,
        executable: &Path,
        call: &DelegateCall<'_>,
        limit: Option<Duration>,
    ) -> Outcome {
        let run = ProcessRun {
            executable,
            arguments: &[],
            environment: &self.environment_of(call),
            stdin: call.config.as_bytes(),
            timeout: limit,
            cancellation: self.cancellation,
            lock: self.lock,
        };
        match run.to_its_end(&mut |bytes| self.tell_of_stderr(call.name, bytes)) {
            Err(error) => Outcome::Failed(Failure::not_started(executable, &error)),
            Ok(output) => Outcome::from(output),
        }
    }

    fn environment_of(&self, call: &DelegateCall<'_>) -> Environment {
        let environment = self.environment.clone();
        environment.with("CNI_COMMAND", call.command.as_str())
    }

    fn tell_of_stderr(&self, delegate: &DelegateName, bytes: &[u8]) {
        self.tell(&Event::Stderr { delegate, bytes });
    }

    fn tell(&self, event: &Event<'_>) {
        if let Some(observer) = self.observer {
            observer.event(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Mutex;

    use super::*;
    use crate::tests::{LinkedExample, config, names};
    use cni::Command;

    /// A linked plugin that writes this to stderr.
    const fn writes(stderr: &'static str) -> LinkedExample {
        LinkedExample { name: "p", stderr }
    }

    #[derive(Default)]
    struct Told(Mutex<Vec<String>>);

    impl Observer for Told {
        fn event(&self, event: &Event<'_>) {
            if let Event::Stderr { delegate, bytes } = event {
                let text = String::from_utf8_lossy(bytes);
                self.0.lock().unwrap().push(format!("{delegate}: {text}"));
            }
        }
    }

    /// STATUS of `p` within these limits: its failure, and its stderr.
    fn status(plugins: &Plugins<'_>, limits: TimeLimits) -> (Option<String>, Vec<String>) {
        let (config, names, observer) = (config(""), names(&["p"]), Told::default());
        let environment =
            Environment::default().with("PATH", std::env::var_os("PATH").unwrap_or_default());
        let delegates = Delegates {
            observer: Some(&observer),
            limits,
            ..Delegates::new(plugins, environment)
        };
        let call = DelegateCall::new(&names[0], Command::Status, &config, None);
        let failure = match delegates.run_once(&call) {
            Outcome::Failed(failure) => Some(failure.error.to_string()),
            _ => None,
        };
        (failure, observer.0.into_inner().unwrap())
    }

    fn plugins<'p>(cni_path: &Path) -> Plugins<'p> {
        Plugins::in_cni_path(&Environment::default().with("CNI_PATH", cni_path)).unwrap()
    }

    /// A folder with the executable `p`, a script.
    fn folder(script: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let executable = folder.path().join("p");
        fs::write(&executable, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&executable, fs::Permissions::from_mode(0o755)).unwrap();
        folder
    }

    /// `delegateTimeout`.
    fn timeout(timeout: Duration) -> TimeLimits {
        TimeLimits {
            timeout: Some(timeout),
            ..TimeLimits::default()
        }
    }

    /// The limit of the chain's caller.
    fn longest(longest: Duration) -> TimeLimits {
        TimeLimits {
            longest: Some(longest),
            ..TimeLimits::default()
        }
    }

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn the_stderr_of_a_linked_delegate_is_told_if_there_is_any() {
        for (stderr, told) in [("", &[][..]), ("careful", &["p: careful".to_owned()])] {
            let plugin = writes(stderr);
            let linked: [&dyn LinkedPlugin; 1] = [&plugin];
            let plugins = plugins(Path::new("/nowhere")).and_linked(&linked);
            let (failure, stderr) = status(&plugins, TimeLimits::default());
            assert_eq!((failure, &stderr[..]), (None, told));
        }
    }

    #[test]
    fn a_linked_delegate_whose_time_cant_be_limited_is_not_run() {
        let linked: [&dyn LinkedPlugin; 1] = [&writes("run")];
        let plugins = plugins(Path::new("/nowhere")).and_linked(&linked);
        // No timer has so many seconds.
        let (failure, stderr) = status(&plugins, timeout(Duration::MAX));
        let failure = failure.unwrap();
        assert!(failure.contains("a timer for its time limit"), "{failure}");
        assert!(stderr.is_empty());
    }

    #[test]
    fn the_callers_limit_bounds_each_delegate_and_executes_no_linked_one() {
        let folder = folder("exec sleep 100");
        static LINKED: LinkedExample = writes("linked");
        for timeout in [None, Some(60 * MINUTE)] {
            let limits = longest(Duration::from_millis(50));
            let (failure, _) = status(&plugins(folder.path()), TimeLimits { timeout, ..limits });
            let failure = failure.unwrap();
            assert!(failure.contains("did not end within 50ms"), "{failure}");
        }
        let own = |_: &Path| Some(&LINKED as &dyn LinkedPlugin);
        let plugins = plugins(folder.path()).and_own_executable(&own);
        let (failure, stderr) = status(&plugins, longest(MINUTE));
        assert_eq!((failure, stderr), (None, vec!["p: linked".to_owned()]));
    }

    #[test]
    fn a_delegate_whose_time_is_limited_is_executed_even_if_it_is_linked() {
        let folder = folder("echo executed >&2");
        static LINKED: LinkedExample = writes("linked");
        for (limits, told) in [
            (TimeLimits::default(), "p: linked"),
            (timeout(MINUTE), "p: executed\n"),
        ] {
            let own = |_: &Path| Some(&LINKED as &dyn LinkedPlugin);
            let plugins = plugins(folder.path()).and_own_executable(&own);
            let (failure, stderr) = status(&plugins, limits);
            assert_eq!((failure, stderr), (None, vec![told.to_owned()]));
        }
    }
}
