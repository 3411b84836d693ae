//! Outcome of a delegate: a result, nothing, or a [`Failure`].
//!
//! `output.rs` makes it of what a process has printed. ADD, its rollback and DEL ask a failure whether
//! the delegate has run, has refused the call, or was killed; its message and its code are for people
//! and for the main plugin.

use std::io;
use std::path::Path;
use std::time::Duration;

use cni::{Error, JsonOutput, code};

/// Outcome of a delegate's run.
#[derive(Debug)]
pub enum Outcome {
    /// It succeeded and printed a JSON object.
    Result(JsonOutput),
    /// It succeeded and printed nothing, as the specification asks for on all commands
    /// but ADD and VERSION.
    Nothing,
    /// It has failed, or was not run.
    Failed(Failure),
}

/// The reason why a delegate has no result.
#[derive(Debug)]
pub struct Failure {
    pub(crate) kind: Kind,
    /// The CNI error: the delegate's own if it gave one.
    pub error: Error,
}

/// Kind of a failure.
#[derive(Debug)]
pub(crate) enum Kind {
    /// It printed a CNI error.
    Error,
    /// There is no executable of its name in `CNI_PATH`, or it was not started.
    NotRun,
    /// It was ended by a signal, or exited with a status other than 0 without a CNI error.
    Died,
    /// It exited with 0 and printed something other than a JSON object.
    Garbled,
    /// It succeeded, but printed nothing where an answer is required.
    NoAnswer,
    /// Its process group was terminated by this process.
    Terminated,
    /// It has failed by itself after its time, or in a call that was cancelled; or it was not
    /// started in such a call.
    GaveUp,
}

/// A reason to terminate a delegate.
#[derive(Debug)]
pub(crate) enum Reason {
    /// It took longer than this, the shortest of its time limits.
    TimedOut(Duration),
    /// The call was cancelled.
    Cancelled,
    /// It printed more than 16 MiB. Its command may or may not have succeeded.
    PrintedTooMuch,
    /// It could not be waited for.
    Lost(io::Error),
}

/// The termination of a delegate by the chain.
#[derive(Debug)]
pub(crate) struct Terminated {
    pub(crate) reason: Reason,
    /// Its PID, if it doesn't end.
    pub(crate) still_running: Option<u32>,
}

/// The most that a delegate may print, in bytes. A result has some hundred bytes, and a
/// delegate that prints without end must not take the node's memory.
pub(crate) const MOST_OUTPUT: usize = 16 << 20;

impl Failure {
    pub(crate) fn new(kind: Kind, code: u64, msg: impl Into<String>) -> Self {
        let error = Error::new(code, msg);
        Self { kind, error }
    }

    /// The same failure, with output of the delegate in its details: `stdout` or `stderr`.
    pub(crate) fn with_output(self, label: &str, text: &str) -> Self {
        let text = text.trim();
        if text.is_empty() {
            return self;
        }
        let error = self.error.with_line(&format!("{label}: {text}"));
        Self { error, ..self }
    }

    /// A CNI error that the delegate printed. A message that is also in stderr is quoted once.
    pub(crate) fn printed(error: Error, stderr: &str) -> Self {
        let lines = stderr.lines();
        let rest: Vec<&str> = lines.filter(|line| !line.contains(&error.msg)).collect();
        let kind = Kind::Error;
        Self { kind, error }.with_output("stderr", &rest.join("\n"))
    }

    /// The executable could not be started.
    pub(crate) fn not_started(executable: &Path, error: &io::Error) -> Self {
        let msg = format!("could not be run: {}: {error}", executable.display());
        Self::new(Kind::NotRun, code::DELEGATE_NOT_STARTED, msg)
    }

    /// The delegate's output is no result, for this reason.
    pub(crate) fn garbled(reason: &str) -> Self {
        let msg = format!("printed no JSON object: {reason}");
        Self::new(Kind::Garbled, code::DELEGATE_GARBLED, msg)
    }

    /// The delegate's output is JSON, but no result that a main plugin can read, for this reason.
    pub(crate) fn no_result(output: &JsonOutput, reason: &str) -> Self {
        let msg = format!("printed no valid result: {reason}");
        Self::new(Kind::Garbled, code::DELEGATE_GARBLED, msg)
            .with_output("stdout", output.json().get())
    }

    /// It succeeded and printed nothing, where an answer is required.
    pub fn silent() -> Self {
        let msg = "succeeded, but printed no result on stdout";
        Self::new(Kind::NoAnswer, code::DELEGATE_SILENT, msg)
    }

    /// The chain has terminated the delegate.
    pub(crate) fn terminated(terminated: Terminated, stderr: &str) -> Self {
        let how = match terminated.still_running {
            None => "was terminated".to_owned(),
            Some(pid) => format!(
                "can't be terminated (it may be in a frozen cgroup, or wait for a disk or a \
                 server): process {pid}"
            ),
        };
        let (code, why) = match terminated.reason {
            Reason::Cancelled => {
                // A cancelled delegate hasn't failed: its stderr explains nothing.
                let msg = format!("{how}, since the call was cancelled");
                return Self::new(Kind::Terminated, code::INTERRUPTED, msg);
            }
            Reason::TimedOut(limit) => {
                let why = format!("did not end within {limit:?}");
                (code::TRY_AGAIN_LATER, why)
            }
            Reason::PrintedTooMuch => {
                let why = format!("printed more than {MOST_OUTPUT} bytes");
                (code::DELEGATE_GARBLED, why)
            }
            Reason::Lost(error) => (code::IO, format!("could not be waited for ({error})")),
        };
        let msg = format!("{why}, and {how}");
        Self::new(Kind::Terminated, code, msg).with_output("stderr", stderr)
    }

    /// The failure of a delegate of a cancelled call.
    pub(crate) fn cancelled() -> Self {
        let msg = "gave up, since the call was cancelled";
        Self::new(Kind::GaveUp, code::INTERRUPTED, msg)
    }

    /// Makes it the failure of a delegate of a cancelled call. Its cause counts no more, except that
    /// it was killed.
    pub(crate) fn count_as_cancelled(&mut self) {
        if self.is_cancellation() {
            return;
        }
        let was_killed = self.is_killed();
        *self = Self::cancelled();
        if was_killed {
            self.kind = Kind::Terminated;
        }
    }

    /// A linked delegate that has given up when its time was over.
    pub(crate) fn timed_out(limit: Duration) -> Self {
        let msg = format!("did not end within {limit:?}, and gave up");
        Self::new(Kind::GaveUp, code::TRY_AGAIN_LATER, msg)
    }

    /// A delegate that was not started, since the time for all is over.
    pub(crate) fn out_of_time() -> Self {
        let msg = "was not run: the time limit for all delegates is over";
        Self::new(Kind::NotRun, code::TRY_AGAIN_LATER, msg)
    }

    /// True if the delegate has never run.
    pub(crate) fn is_not_run(&self) -> bool {
        matches!(self.kind, Kind::NotRun)
    }

    /// True if it has refused an attachment that it serves already.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self.kind, Kind::Error) && self.error.code == code::ALREADY_ALLOCATED
    }

    /// True if it has refused its environment or its configuration, before it has done anything.
    pub(crate) fn refuses_input(&self) -> bool {
        matches!(
            self.error.code,
            code::INVALID_ENVIRONMENT | code::INVALID_CONFIG
        )
    }

    /// True if the call was cancelled.
    pub(crate) fn is_cancellation(&self) -> bool {
        matches!(self.kind, Kind::Terminated | Kind::GaveUp) && self.error.code == code::INTERRUPTED
    }

    /// True if it was killed, by the chain or by anybody else: it may have reserved something, and
    /// processes that it has started may still be at work.
    pub(crate) fn is_killed(&self) -> bool {
        matches!(self.kind, Kind::Terminated) || self.error.code == code::DELEGATE_KILLED
    }

    /// True if it may hold an address even if its DEL succeeds.
    pub(crate) fn is_outcome_unknown(&self) -> bool {
        self.is_killed() || matches!(self.error.code, code::UNKNOWN_OUTCOME | code::INTERNAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_of_a_cancelled_call_is_a_cancellation() {
        let late = Duration::from_secs(1);
        assert!(Failure::cancelled().is_cancellation());
        assert!(!Failure::timed_out(late).is_cancellation());
        assert!(!Failure::silent().is_cancellation());
    }

    #[test]
    fn a_delegate_that_does_not_end_is_named_by_its_pid() {
        let terminated = Terminated {
            reason: Reason::TimedOut(Duration::from_secs(1)),
            still_running: Some(7),
        };
        let failure = Failure::terminated(terminated, "");
        assert!(failure.is_killed() && !Failure::silent().is_killed());
        assert!(failure.error.msg.contains("process 7"), "{failure:?}");
    }
}
