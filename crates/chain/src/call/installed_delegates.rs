//! Runs one delegate: finds it, gives it its input, and takes its output.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use cni::{Cancellation, DelegateName, Environment, LinkedPlugin};
use state_files::Deadline;

use crate::call::delegate_call::DelegateCall;
use crate::call::descendants;
use crate::call::event::Event;
use crate::call::outcome::{Failure, Outcome, Reason};
use crate::call::output::StderrTail;
use crate::call::plugins::Found;
use crate::call::process::Run;
use crate::call::spawn::Lifeline;
use crate::call::version_negotiation::{OlderVersions, run_in};
use crate::chain::Chain;
use crate::leftover_processes::Left;
use crate::record::file::RecordFile;

/// The time in which a process that was killed ends.
const MOST_FOR_KILLED: Duration = Duration::from_millis(200);

/// The longest that a delegate's DEL within an ADD may take without `delegateTimeout`: it can't
/// be cancelled, and may wait for a lock. If it fails, the attachment stays recorded.
const MOST_FOR_UNDOING: Duration = Duration::from_secs(10);

/// The delegates of a chain, as they are installed on the node.
pub(crate) struct InstalledDelegates<'a, 'b> {
    pub(crate) chain: &'a Chain<'b>,
    /// The environment of the delegates, without `CNI_COMMAND`.
    environment: Environment,
    cancellation: Option<&'b dyn Cancellation>,
    /// The longest that a delegate may take.
    timeout: Option<Duration>,
    /// The attachment's record.
    record: Option<&'a RecordFile>,
    /// The lock that they inherit.
    lock: Option<BorrowedFd<'a>>,
    lifeline: Option<Lifeline>,
    /// True if a file was executed and its leftover processes have not been looked for.
    has_executed: bool,
    versions: OlderVersions,
}

impl<'a, 'b> InstalledDelegates<'a, 'b> {
    pub(crate) fn new(chain: &'a Chain<'b>, environment: Environment) -> Self {
        Self::unmarked(chain, chain.id.mark(environment))
    }

    /// Delegates that may be chains themselves: without the mark of this call, by which a
    /// chain refuses to be its own delegate.
    pub(crate) fn unmarked(chain: &'a Chain<'b>, environment: Environment) -> Self {
        Self {
            chain,
            environment,
            cancellation: None,
            timeout: chain.settings.timeout,
            record: None,
            lock: None,
            lifeline: None,
            has_executed: false,
            versions: OlderVersions::default(),
        }
    }

    /// The same delegates, which inherit the lock of this record.
    pub(crate) fn holding(mut self, record: Option<&'a RecordFile>) -> Self {
        self.record = record;
        self.holding_lock(record.and_then(RecordFile::lock_fd))
    }

    /// The same delegates, which inherit this lock.
    pub(crate) fn holding_lock(mut self, lock: Option<BorrowedFd<'a>>) -> Self {
        self.lock = lock;
        self
    }

    /// The same delegates, with this cancellation.
    pub(crate) fn cancelled_by(mut self, cancellation: Option<&'b dyn Cancellation>) -> Self {
        self.cancellation = cancellation;
        self
    }

    /// The same delegates, each with a bound of its time, for the DEL within an ADD: it undoes
    /// this ADD, or an earlier one.
    pub(crate) fn bounded(mut self) -> Self {
        self.timeout = self.timeout.or(Some(MOST_FOR_UNDOING));
        self
    }

    /// Runs a delegate. One that may be too old for the network's version is asked for its
    /// versions, and run again.
    pub(crate) fn run(&mut self, call: &DelegateCall<'_>) -> Outcome {
        let mut versions = std::mem::take(&mut self.versions);
        let outcome = match versions.of(call) {
            Some(version) => run_in(version, call, &mut |call| self.run_once(call)),
            None => {
                let outcome = self.run_once(call);
                versions.negotiated(call, outcome, &mut |call| self.run_once(call))
            }
        };
        self.versions = versions;
        outcome
    }

    /// True if the chain's call is cancelled.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancellation.is_some_and(Cancellation::is_cancelled)
    }

    /// Begins the rollback of an ADD: terminates processes that delegates have left behind.
    /// From now on, the cancellation is ignored, each delegate's time is bounded, and a
    /// delegate is told that only this call is undone.
    pub(crate) fn begin_rollback(&mut self) {
        self.cancellation = None;
        self.timeout = self.timeout.or(Some(MOST_FOR_UNDOING));
        let environment = std::mem::take(&mut self.environment);
        self.environment = self.chain.id.mark_rollback(environment);
        self.terminate_leftovers();
    }

    /// Runs a delegate, without a second attempt in another version.
    pub(crate) fn run_once(&mut self, call: &DelegateCall<'_>) -> Outcome {
        if self.is_cancelled() {
            return Outcome::Failed(Failure::cancelled(Left::Nothing));
        }
        let found = match self.chain.plugins.find(call.name) {
            Ok(found) if self.chain.settings.calls_linked_plugins => found,
            Ok(found) => found.executed(),
            Err(failure) => return Outcome::Failed(failure),
        };
        let started = Instant::now();
        let environment = self.environment.clone();
        let environment = environment.with("CNI_COMMAND", call.command.as_str());
        self.chain.tell(&Event::Started {
            delegate: call.name,
            command: call.command,
            executable: found.executable(),
            prev_result: call.prev_result,
        });
        let outcome = match &found {
            Found::Linked(plugin, _) => self.call(*plugin, call, &environment),
            Found::File(path) | Found::Chain(path) => self.execute(path, call, &environment),
        };
        let outcome = match outcome {
            // A delegate of a cancelled call counts as cancelled, whatever it printed.
            Outcome::Failed(failure)
                if self.is_cancelled() && !failure.is_refusal() && !failure.is_cancellation() =>
            {
                Outcome::Failed(Failure::cancelled(self.terminate_leftovers()))
            }
            other => other,
        };
        self.chain.tell(&Event::Ended {
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
        environment: &Environment,
    ) -> Outcome {
        let bound = self.timeout.filter(|_| self.cancellation.is_none());
        let deadline = match bound.map(Deadline::after).transpose() {
            Ok(deadline) => deadline,
            Err(error) => {
                let what = Path::new("a timer for its time limit");
                return Outcome::Failed(Failure::not_started(what, &error));
            }
        };
        let cancellation = match &deadline {
            Some(deadline) => Some(deadline as &dyn Cancellation),
            None => self.cancellation,
        };
        let config = call.config.clone().into_owned();
        let output = plugin.call(environment, config, cancellation);
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
        Outcome::Failed(match bound.zip(deadline) {
            Some((limit, deadline)) if deadline.is_cancelled() && !failure.is_refusal() => {
                Failure::terminated(Reason::TimedOut(limit), Left::Nothing, "")
            }
            _ => failure,
        })
    }

    /// Executes a file.
    fn execute(
        &mut self,
        executable: &Path,
        call: &DelegateCall<'_>,
        environment: &Environment,
    ) -> Outcome {
        if self.lifeline.is_none() && !self.chain.owns_process {
            self.lifeline = Lifeline::new().ok();
        }
        self.has_executed = true;
        let run = Run {
            executable,
            arguments: &[],
            environment,
            stdin: &call.stdin(),
            timeout: self.timeout,
            cancellation: self.cancellation,
            overtime: &self.chain.overtime,
            inherited: [self.lock, self.lifeline.as_ref().map(AsFd::as_fd)],
        };
        let output = run.to_its_end(&mut |bytes| self.tell_of_stderr(call.name, bytes));
        match output {
            Err(error) => Outcome::Failed(Failure::not_started(executable, &error)),
            Ok(mut output) => {
                if let Some(terminated) = &mut output.terminated {
                    let left = std::mem::take(&mut terminated.left);
                    terminated.left = left.and(self.terminate_leftovers());
                }
                Outcome::from(output)
            }
        }
    }

    /// Terminates processes that delegates of this call have left behind, except daemons. In
    /// a process that others share, they are only noticed.
    fn terminate_leftovers(&mut self) -> Left {
        let left = if !std::mem::take(&mut self.has_executed) {
            Left::Nothing
        } else if self.chain.owns_process {
            self.chain.overtime.spend(descendants::terminate)
        } else {
            // Without a lifeline, it is unknown. A killed process takes a moment to end.
            let lifeline = self.lifeline.take();
            let has_holder = |lifeline: Lifeline| lifeline.has_holder(MOST_FOR_KILLED);
            match lifeline.is_none_or(has_holder) {
                true => Left::Running(Vec::new()),
                false => Left::Nothing,
            }
        };
        if let Some(record) = self.record {
            record.note_left(left.clone());
        }
        left
    }

    fn tell_of_stderr(&self, delegate: &DelegateName, bytes: &[u8]) {
        self.chain.tell(&Event::Stderr { delegate, bytes });
    }
}

impl Drop for InstalledDelegates<'_, '_> {
    /// At the end of the call, nothing that it has started is left but daemons.
    fn drop(&mut self) {
        self.terminate_leftovers();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Mutex;

    use super::*;
    use crate::call::event::Observer;
    use crate::call::plugins::{Executable, Plugins};
    use crate::tests::{LinkedExample, config};

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

    #[test]
    fn the_stderr_of_a_linked_delegate_is_told_if_there_is_any() {
        let config = config(r#","ipam":{"delegates":["p"]}"#);
        let environment = Environment::default().with("CNI_PATH", "/nowhere");
        for (stderr, told) in [("", &[][..]), ("careful", &["p: careful".to_owned()])] {
            let observer = Told::default();
            let plugin = writes(stderr);
            let linked: [&dyn LinkedPlugin; 1] = [&plugin];
            let plugins = Plugins::in_cni_path(&environment).unwrap();
            let chain = Chain::new(&config, &environment, plugins.and_linked(&linked));
            chain.unwrap().observed_by(&observer).status().unwrap();
            assert_eq!(*observer.0.lock().unwrap(), told);
        }
    }

    #[test]
    fn a_linked_delegate_whose_time_cant_be_limited_is_not_run() {
        let config = config(r#","ipam":{"delegates":["p"]}"#);
        let environment = Environment::default().with("CNI_PATH", "/nowhere");
        let observer = Told::default();
        let linked: [&dyn LinkedPlugin; 1] = [&writes("run")];
        let plugins = Plugins::in_cni_path(&environment).unwrap();
        let chain = Chain::new(&config, &environment, plugins.and_linked(&linked));
        let mut chain = chain.unwrap();
        // No timer has so many seconds.
        chain.settings.timeout = Some(Duration::MAX);
        let error = chain.observed_by(&observer).status().unwrap_err();
        assert!(
            error.to_string().contains("a timer for its time limit"),
            "{error}"
        );
        assert!(observer.0.lock().unwrap().is_empty());
    }

    #[test]
    fn a_delegate_whose_time_is_limited_is_executed_even_if_it_is_linked() {
        let folder = tempfile::tempdir().unwrap();
        let executable = folder.path().join("p");
        fs::write(&executable, "#!/bin/sh\necho executed >&2\n").unwrap();
        fs::set_permissions(&executable, fs::Permissions::from_mode(0o755)).unwrap();
        let environment = Environment::default().with("CNI_PATH", folder.path());
        static LINKED: LinkedExample = writes("linked");
        for (timeout, told) in [
            ("", "p: linked"),
            (r#","delegateTimeout":"1m""#, "p: executed\n"),
        ] {
            let config = config(&format!(r#","ipam":{{"delegates":["p"]{timeout}}}"#));
            let observer = Told::default();
            let own = |_: &Path| Executable::Plugin(&LINKED);
            let plugins = Plugins::in_cni_path(&environment).unwrap();
            let chain = Chain::new(&config, &environment, plugins.and_own_executable(&own));
            chain.unwrap().observed_by(&observer).status().unwrap();
            assert_eq!(*observer.0.lock().unwrap(), [told]);
        }
    }
}
