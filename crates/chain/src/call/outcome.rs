//! Outcome of a delegate: a result, nothing, or a failure.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
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
pub enum Failure {
    /// It printed a CNI error.
    Error {
        /// The error.
        error: Error,
        /// The end of its stderr.
        stderr: String,
    },
    /// No executable of that name is in `CNI_PATH`.
    NotFound {
        /// `CNI_PATH`.
        path: OsString,
        /// A file of that name that is there but isn't executable.
        not_executable: Option<PathBuf>,
    },
    /// It could not be started.
    NotStarted {
        /// The executable.
        executable: PathBuf,
        /// The I/O error.
        error: io::Error,
    },
    /// It was ended by a signal, or exited with a status other than 0 without a
    /// CNI error.
    Died {
        /// Its exit status.
        status: ExitStatus,
        /// The start of its stdout.
        stdout: String,
        /// The end of its stderr.
        stderr: String,
    },
    /// It exited with 0 and printed something other than a JSON object.
    Garbled {
        /// The reason why it is not a JSON object.
        reason: String,
        /// The start of its stdout.
        stdout: String,
        /// The end of its stderr.
        stderr: String,
    },
    /// It exited with 0 and printed nothing, where an answer is required.
    Silent,
    /// The chain has terminated it, with every process that it had started.
    Terminated {
        /// The reason.
        reason: Reason,
        /// The end of its stderr.
        stderr: String,
        /// Processes that could not be terminated.
        left: Left,
    },
    /// It has succeeded, and the chain's result could not be delivered to the caller.
    NotDelivered(io::Error),
}

/// A reason to terminate a delegate.
#[derive(Debug)]
pub enum Reason {
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
    /// [`Self::Garbled`], of a delegate whose output is JSON but not a result.
    pub(crate) fn no_result(output: &JsonOutput, reason: String) -> Self {
        Self::Garbled {
            reason,
            stdout: output.json().get().to_owned(),
            stderr: String::new(),
        }
    }

    /// True if the delegate has never run.
    pub(crate) fn is_not_run(&self) -> bool {
        matches!(self, Self::NotFound { .. } | Self::NotStarted { .. })
    }

    /// True if it has refused an attachment that it serves already.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self, Self::Error { error, .. } if error.code == code::ALREADY_ALLOCATED)
    }

    /// True if the call was cancelled.
    pub(crate) fn is_cancellation(&self) -> bool {
        matches!(
            self,
            Self::Terminated {
                reason: Reason::Cancelled,
                ..
            }
        )
    }

    /// The failure of a delegate of a cancelled call.
    pub(crate) fn cancelled(left: Left) -> Self {
        Self::terminated(Reason::Cancelled, left)
    }

    /// [`Self::Terminated`], of a delegate that wrote nothing to stderr.
    pub(crate) fn terminated(reason: Reason, left: Left) -> Self {
        Self::Terminated {
            reason,
            stderr: String::new(),
            left,
        }
    }

    /// True if some of its processes may still be at work.
    pub(crate) fn has_unterminated(&self) -> bool {
        matches!(self, Self::Terminated { left, .. } if left.is_at_work())
    }

    /// The failure as a CNI error: the delegate's own if it gave one.
    pub fn to_error(&self) -> Error {
        match self {
            Self::Error { error, stderr } => {
                // A plugin that also logs its error is quoted once.
                let rest: Vec<&str> = stderr
                    .lines()
                    .filter(|line| !line.contains(&error.msg))
                    .collect();
                error.clone().with_line(&stderr_line(&rest.join("\n")))
            }
            Self::NotFound {
                path,
                not_executable,
            } => Error::new(
                code::DELEGATE_NOT_FOUND,
                format!("no such plugin in CNI_PATH ({})", path.to_string_lossy()),
            )
            .with_details(match not_executable {
                Some(file) => format!("{} exists, but is not executable", file.display()),
                None => String::new(),
            }),
            Self::NotStarted { executable, error } => Error::new(
                code::DELEGATE_NOT_STARTED,
                format!("could not be run: {}: {error}", executable.display()),
            ),
            Self::Died {
                status,
                stdout,
                stderr,
            } => match status.signal() {
                Some(_) => Error::new(
                    code::DELEGATE_KILLED,
                    format!("was ended by a signal ({status})"),
                ),
                None => Error::new(
                    code::DELEGATE_FAILED,
                    format!("failed ({status}) without a CNI error on stdout"),
                ),
            }
            .with_line(&stdout_line(stdout))
            .with_line(&stderr_line(stderr)),
            Self::Garbled {
                reason,
                stdout,
                stderr,
            } => Error::new(
                code::DELEGATE_GARBLED,
                format!("printed no JSON object: {reason}"),
            )
            .with_line(&stdout_line(stdout))
            .with_line(&stderr_line(stderr)),
            Self::Silent => Error::new(
                code::DELEGATE_SILENT,
                "succeeded, but printed no result on stdout",
            ),
            Self::Terminated {
                reason,
                stderr,
                left,
            } => {
                let error = reason.to_error(left);
                match reason {
                    // The delegate hasn't failed: its stderr explains nothing.
                    Reason::Cancelled => error,
                    _ => error.with_line(&stderr_line(stderr)),
                }
            }
            Self::NotDelivered(error) => Error::new(
                code::IO,
                format!("the chain's result could not be delivered: {error}"),
            ),
        }
    }
}

impl Reason {
    fn to_error(&self, left: &Left) -> Error {
        let terminated = terminated(left);
        match self {
            Self::TimedOut(limit) => Error::new(
                code::TRY_AGAIN_LATER,
                format!("did not end within {limit:?}, and {terminated}"),
            ),
            Self::PrintedTooMuch => Error::new(
                code::DELEGATE_GARBLED,
                format!("printed more than {MOST_OUTPUT} bytes, and {terminated}"),
            ),
            Self::Lost(error) => Error::new(
                code::IO,
                format!("could not be waited for ({error}), and {terminated}"),
            ),
            Self::Cancelled => Error::new(
                code::INTERRUPTED,
                format!("{terminated}, since the call was cancelled"),
            ),
        }
    }
}

fn terminated(left: &Left) -> String {
    match left {
        Left::Nothing | Left::Daemons => "was terminated".to_owned(),
        Left::Running(pids) if pids.is_empty() => {
            "was terminated, but a process that it has started is still running".to_owned()
        }
        Left::Running(pids) => {
            let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
            format!(
                "can't be terminated (it may be in a frozen cgroup, or wait for a disk or a \
                 server): process {}",
                pids.join(", ")
            )
        }
    }
}

fn stdout_line(text: &str) -> String {
    labelled("stdout", text)
}

fn stderr_line(text: &str) -> String {
    labelled("stderr", text)
}

fn labelled(label: &str, text: &str) -> String {
    match text.trim() {
        "" => String::new(),
        text => format!("{label}: {text}"),
    }
}
