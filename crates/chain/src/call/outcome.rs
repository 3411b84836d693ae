//! Outcome of a delegate: a result, nothing, or a failure.

use std::io;
use std::path::Path;
use std::time::Duration;

use cni::{Error, JsonOutput, code};

use crate::leftover_processes::Left;

/// Outcome of a delegate's run.
#[derive(Debug)]
pub enum Outcome {
    /// It succeeded and printed a JSON object.
    Result(JsonOutput),
    /// It succeeded and printed nothing, as the specification asks for on all commands
    /// but ADD and VERSION.
    Nothing,
    /// It failed.
    Failed(Failure),
}

/// The reason why a delegate has no result.
#[derive(Debug)]
pub struct Failure {
    pub(crate) kind: Kind,
    pub(crate) error: Error,
}

/// Kind of a failure.
#[derive(Debug)]
pub(crate) enum Kind {
    /// It printed a CNI error.
    Error,
    /// No executable of its name is in `CNI_PATH`.
    NotFound,
    /// It could not be started.
    NotStarted,
    /// It was ended by a signal, or exited with a status other than 0 without a CNI error.
    Died,
    /// It exited with 0 and printed something other than a JSON object.
    Garbled,
    /// It exited with 0 and printed nothing, where an answer is required.
    Silent,
    /// The chain has terminated it. The processes could not be terminated.
    Terminated(Reason, Left),
    /// It has succeeded, and the chain's result could not be delivered to the caller.
    NotDelivered,
}

/// A reason to terminate a delegate.
#[derive(Debug)]
pub(crate) enum Reason {
    /// It took longer than this, its `delegateTimeout`.
    TimedOut(Duration),
    /// The call was cancelled.
    Cancelled,
    /// It printed more than 16 MiB. Its command may or may not have succeeded.
    PrintedTooMuch,
    /// It could not be waited for.
    Lost(io::Error),
}

/// The most that a delegate may print, in bytes. A result has some hundred bytes, and a
/// delegate that prints without end must not take the node's memory.
pub(crate) const MOST_OUTPUT: usize = 16 << 20;

impl Failure {
    pub(crate) fn new(kind: Kind, code: u64, msg: impl Into<String>) -> Self {
        let error = Error::new(code, msg);
        Self { kind, error }
    }

    /// The same failure, with the start of the delegate's stdout in its details.
    pub(crate) fn with_stdout(self, stdout: &str) -> Self {
        self.with_output("stdout", stdout)
    }

    /// The same failure, with the end of the delegate's stderr in its details.
    pub(crate) fn with_stderr(self, stderr: &str) -> Self {
        self.with_output("stderr", stderr)
    }

    fn with_output(self, label: &str, text: &str) -> Self {
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
        Self { kind, error }.with_stderr(&rest.join("\n"))
    }

    /// The executable could not be started.
    pub(crate) fn not_started(executable: &Path, error: &io::Error) -> Self {
        let msg = format!("could not be run: {}: {error}", executable.display());
        Self::new(Kind::NotStarted, code::DELEGATE_NOT_STARTED, msg)
    }

    /// The delegate's output is no result, for this reason.
    pub(crate) fn garbled(reason: &str) -> Self {
        let msg = format!("printed no JSON object: {reason}");
        Self::new(Kind::Garbled, code::DELEGATE_GARBLED, msg)
    }

    /// [`Self::garbled`], of a delegate whose output is JSON but not a result.
    pub(crate) fn no_result(output: &JsonOutput, reason: &str) -> Self {
        Self::garbled(reason).with_stdout(output.json().get())
    }

    /// It succeeded and printed nothing, where an answer is required.
    pub fn silent() -> Self {
        let msg = "succeeded, but printed no result on stdout";
        Self::new(Kind::Silent, code::DELEGATE_SILENT, msg)
    }

    /// The chain has terminated the delegate, except these processes.
    pub(crate) fn terminated(reason: Reason, left: Left, stderr: &str) -> Self {
        let terminated = match &left {
            Left::Nothing | Left::Daemons => "was terminated".to_owned(),
            Left::Running(pids) if pids.is_empty() => {
                "was terminated, but a process that it has started is still running".to_owned()
            }
            Left::Running(pids) => {
                let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
                let pids = pids.join(", ");
                format!(
                    "can't be terminated (it may be in a frozen cgroup, or wait for a disk or a \
                     server): process {pids}"
                )
            }
        };
        let (code, msg) = match &reason {
            Reason::TimedOut(limit) => {
                let msg = format!("did not end within {limit:?}, and {terminated}");
                (code::TRY_AGAIN_LATER, msg)
            }
            Reason::PrintedTooMuch => {
                let msg = format!("printed more than {MOST_OUTPUT} bytes, and {terminated}");
                (code::DELEGATE_GARBLED, msg)
            }
            Reason::Lost(error) => {
                let msg = format!("could not be waited for ({error}), and {terminated}");
                (code::IO, msg)
            }
            Reason::Cancelled => {
                let msg = format!("{terminated}, since the call was cancelled");
                (code::INTERRUPTED, msg)
            }
        };
        // A cancelled delegate hasn't failed: its stderr explains nothing.
        let is_cancelled = matches!(reason, Reason::Cancelled);
        let stderr = if is_cancelled { "" } else { stderr };
        Self::new(Kind::Terminated(reason, left), code, msg).with_stderr(stderr)
    }

    /// The failure of a delegate of a cancelled call.
    pub(crate) fn cancelled(left: Left) -> Self {
        Self::terminated(Reason::Cancelled, left, "")
    }

    /// True if the delegate has never run.
    pub(crate) fn is_not_run(&self) -> bool {
        matches!(self.kind, Kind::NotFound | Kind::NotStarted)
    }

    /// True if it has refused an attachment that it serves already.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self.kind, Kind::Error) && self.error.code == code::ALREADY_ALLOCATED
    }

    /// True if the call was cancelled.
    pub(crate) fn is_cancellation(&self) -> bool {
        matches!(self.kind, Kind::Terminated(Reason::Cancelled, _))
    }

    /// True if some of its processes may still be at work.
    pub(crate) fn has_unterminated(&self) -> bool {
        matches!(&self.kind, Kind::Terminated(_, left) if left.is_at_work())
    }

    /// The failure as a CNI error: the delegate's own if it gave one.
    pub fn to_error(&self) -> Error {
        self.error.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_of_a_cancelled_call_is_a_cancellation() {
        let late = Reason::TimedOut(Duration::from_secs(1));
        assert!(Failure::cancelled(Left::Nothing).is_cancellation());
        assert!(Failure::cancelled(Left::Running(vec![7])).is_cancellation());
        assert!(!Failure::terminated(late, Left::Nothing, "").is_cancellation());
        assert!(!Failure::silent().is_cancellation());
    }

    #[test]
    fn only_a_terminated_delegate_may_be_at_work() {
        let late = |left| Failure::terminated(Reason::TimedOut(Duration::from_secs(1)), left, "");
        assert!(late(Left::Running(vec![7])).has_unterminated());
        assert!(!late(Left::Daemons).has_unterminated());
        assert!(!Failure::silent().has_unterminated());
        let error = late(Left::Running(vec![7, 8])).to_error();
        assert!(error.msg.contains("process 7, 8"), "{error}");
        let error = late(Left::Running(Vec::new())).to_error();
        assert!(
            error.msg.contains("a process that it has started"),
            "{error}"
        );
    }
}
