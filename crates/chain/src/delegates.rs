//! Runs one delegate: finds it, gives it its input, and takes its output.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use cni::{
    Cancellation, Command, DelegateName, Environment, LinkedOutput, LinkedPlugin, SpecVersion,
};
use serde_json::value::RawValue;
use state_files::Deadline;

use crate::context::Context;
use crate::delegate_call::{DelegateCall, Delegates};
use crate::event::Event;
use crate::inherited_lock::InheritedLock;
use crate::journal::Journal;
use crate::output::{MOST_OUTPUT, Output, Reason, StderrTail, Terminated};
use crate::plugins::Found;
use crate::process::Run;
use crate::spawn::Lifeline;
use crate::{Failure, Left, Outcome, descendants};

/// The time in which a process that was killed ends.
const MOST_FOR_KILLED: Duration = Duration::from_millis(200);

/// The longest that a delegate's DEL within an ADD may take without `delegateTimeout`: it can't
/// be cancelled, and may wait for a lock. What it then holds stays recorded.
const MOST_FOR_UNDOING: Duration = Duration::from_secs(10);

/// The delegates of a context, as they are installed on the node.
pub(crate) struct InstalledDelegates<'a, 'b> {
    context: &'a Context<'b>,
    /// The environment of the delegates, without `CNI_COMMAND`.
    environment: Environment,
    cancellation: Option<&'b dyn Cancellation>,
    /// The longest that a delegate may take.
    timeout: Option<Duration>,
    /// The attachment's journal, whose lock they inherit.
    lock: InheritedLock<'a>,
    lifeline: Option<Lifeline>,
    /// True if a file was executed whose processes have not been looked for.
    has_executed: bool,
}

impl<'a, 'b> InstalledDelegates<'a, 'b> {
    pub(crate) fn new(context: &'a Context<'b>, environment: Environment) -> Self {
        Self::unmarked(context, context.id.mark(environment))
    }

    /// Delegates that may be chains themselves: without the mark of this call, by which a
    /// chain refuses to be its own delegate.
    pub(crate) fn unmarked(context: &'a Context<'b>, environment: Environment) -> Self {
        Self {
            context,
            environment,
            cancellation: None,
            timeout: context.settings.timeout,
            lock: InheritedLock::None,
            lifeline: None,
            has_executed: false,
        }
    }

    /// The same delegates, which inherit the lock of this journal.
    pub(crate) fn holding(mut self, journal: Option<&'a Journal>) -> Self {
        self.lock = journal.map_or(InheritedLock::None, InheritedLock::OfAttachment);
        self
    }

    /// The same delegates, which inherit this lock.
    pub(crate) fn holding_lock(mut self, lock: Option<BorrowedFd<'a>>) -> Self {
        self.lock = lock.map_or(InheritedLock::None, InheritedLock::Other);
        self
    }

    /// The same delegates, which are terminated if the chain is cancelled.
    pub(crate) fn cancellable(mut self) -> Self {
        self.cancellation = self.context.cancellation;
        self
    }

    /// The same delegates, which are terminated at the deadline of a release, if it has one.
    pub(crate) fn until_the_deadline(mut self) -> Self {
        self.cancellation = self.context.deadline;
        self
    }

    /// The same delegates, each with a bound of its time, for the DEL within an ADD: it undoes
    /// this ADD, or an earlier one.
    pub(crate) fn bounded(mut self) -> Self {
        self.bound();
        self
    }

    fn bound(&mut self) {
        self.timeout = self.timeout.or(Some(MOST_FOR_UNDOING));
    }

    fn start(
        &mut self,
        name: &DelegateName,
        command: Command,
        stdin: &[u8],
        prev_result: Option<&RawValue>,
    ) -> Outcome {
        if self.is_cancelled() {
            let left = Left::Nothing;
            return Outcome::Failed(Failure::Cancelled { left });
        }
        let found = match self.context.plugins.find(name) {
            Ok(found) if self.context.settings.calls_linked_plugins => found,
            Ok(found) => found.executed(),
            Err(failure) => return Outcome::Failed(failure),
        };
        let started = Instant::now();
        let environment = self
            .environment
            .clone()
            .with("CNI_COMMAND", command.as_str());
        self.tell(&Event::Started {
            delegate: name,
            command,
            executable: found.executable(),
            is_executed: !matches!(found, Found::Linked(..)),
            prev_result,
            stdin,
        });
        let outcome = match &found {
            Found::Linked(plugin, _) => self.call(*plugin, name, &environment, stdin),
            Found::File(path) | Found::Chain(path) => self.execute(path, name, &environment, stdin),
        };
        let outcome = match outcome {
            // A delegate of a cancelled call counts as cancelled, whatever it printed.
            Outcome::Failed(Failure::Cancelled { left }) => {
                Outcome::Failed(Failure::Cancelled { left })
            }
            Outcome::Failed(failure) if self.is_cancelled() && !failure.is_refusal() => {
                let left = self.terminate_leftovers();
                Outcome::Failed(Failure::Cancelled { left })
            }
            other => other,
        };
        self.tell(&Event::Ended {
            delegate: name,
            command,
            outcome: &outcome,
            took: started.elapsed(),
        });
        outcome
    }

    /// Calls a linked plugin. Its time is bounded if it can't be cancelled.
    fn call(
        &self,
        plugin: &dyn LinkedPlugin,
        name: &DelegateName,
        environment: &Environment,
        stdin: &[u8],
    ) -> Outcome {
        let bound = self.timeout.filter(|_| self.cancellation.is_none());
        let deadline = bound.and_then(|limit| Some((limit, Deadline::after(limit).ok()?)));
        let Some((limit, deadline)) = deadline else {
            return self.outcome_of(name, plugin.call(environment, stdin, self.cancellation));
        };
        let output = plugin.call(environment, stdin, Some(&deadline));
        match self.outcome_of(name, output) {
            Outcome::Failed(failure) if deadline.is_cancelled() && !failure.is_refusal() => {
                Outcome::Failed(Failure::TimedOut {
                    limit,
                    stderr: String::new(),
                    left: Left::Nothing,
                })
            }
            other => other,
        }
    }

    /// The outcome of a linked plugin's call.
    fn outcome_of(&self, name: &DelegateName, output: LinkedOutput) -> Outcome {
        let mut tail = StderrTail::default();
        if !output.stderr.is_empty() {
            self.tell_of_stderr(name, &output.stderr);
            tail.add(&output.stderr);
        }
        let terminated = (output.stdout.len() > MOST_OUTPUT).then_some(Terminated {
            reason: Reason::PrintedTooMuch,
            left: Left::Nothing,
        });
        // The wait statuses of exit(0) and exit(1).
        let status = if output.success { 0 } else { 1 << 8 };
        Outcome::from(Output {
            terminated,
            status: Some(ExitStatus::from_raw(status)),
            stdout: output.stdout,
            stderr: tail.into_text(),
        })
    }

    /// Executes a file.
    fn execute(
        &mut self,
        executable: &Path,
        name: &DelegateName,
        environment: &Environment,
        stdin: &[u8],
    ) -> Outcome {
        if self.lifeline.is_none() && !self.context.owns_process {
            self.lifeline = Lifeline::new().ok();
        }
        self.has_executed = true;
        let run = Run {
            executable,
            arguments: &[],
            environment,
            stdin,
            timeout: self.timeout,
            cancellation: self.cancellation,
            overtime: &self.context.overtime,
            inherited: [self.lock.fd(), self.lifeline.as_ref().map(AsFd::as_fd)],
        };
        let output = run.to_its_end(&mut |bytes| self.tell_of_stderr(name, bytes));
        match output {
            Err(error) => Outcome::Failed(Failure::NotStarted {
                executable: executable.to_owned(),
                error,
            }),
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
        } else if self.context.owns_process {
            self.context.overtime.spend(descendants::terminate)
        } else {
            // Without a lifeline, it is not known. A process that is killed takes a moment.
            let lifeline = self.lifeline.take();
            let has_holder = |lifeline: Lifeline| lifeline.has_holder(MOST_FOR_KILLED);
            match lifeline.is_none_or(has_holder) {
                true => Left::Running(Vec::new()),
                false => Left::Nothing,
            }
        };
        if let InheritedLock::OfAttachment(journal) = self.lock {
            journal.note_left(left.clone());
        }
        left
    }

    fn tell_of_stderr(&self, delegate: &DelegateName, bytes: &[u8]) {
        self.tell(&Event::Stderr { delegate, bytes });
    }

    fn tell(&self, event: &Event<'_>) {
        if let Some(observer) = self.context.observer {
            observer.event(event);
        }
    }
}

impl Delegates for InstalledDelegates<'_, '_> {
    fn run(&mut self, call: &DelegateCall<'_>) -> Outcome {
        self.start(call.name, call.command, &call.stdin(), call.prev_result)
    }

    fn ask_version(&mut self, name: &DelegateName, version: SpecVersion) -> Outcome {
        let stdin = serde_json::json!({ "cniVersion": version.as_str() }).to_string();
        self.start(name, Command::Version, stdin.as_bytes(), None)
    }

    fn is_cancelled(&self) -> bool {
        self.cancellation.is_some_and(Cancellation::is_cancelled)
    }

    fn begin_rollback(&mut self) -> Left {
        self.cancellation = None;
        self.bound();
        let environment = std::mem::take(&mut self.environment);
        self.environment = self.context.id.mark_rollback(environment);
        self.terminate_leftovers()
    }
}

impl Drop for InstalledDelegates<'_, '_> {
    /// At the end of the call, nothing that it has started is left but daemons.
    fn drop(&mut self) {
        self.terminate_leftovers();
    }
}
