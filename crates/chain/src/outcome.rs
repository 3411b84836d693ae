//! Outcome of a delegate: a result, nothing, or a failure.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use cni::{Error, JsonOutput, code};

use crate::Left;

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
    /// The operating system couldn't start it.
    NotStarted {
        /// The executable.
        executable: PathBuf,
        /// The system's error.
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
        /// The reason why it is none.
        reason: String,
        /// The start of its stdout.
        stdout: String,
        /// The end of its stderr.
        stderr: String,
    },
    /// It exited with 0 and printed nothing, where an answer is required.
    Silent,
    /// It was terminated, with every process that it had started, since it took longer
    /// than `delegateTimeout`.
    TimedOut {
        /// The limit.
        limit: Duration,
        /// The end of its stderr.
        stderr: String,
        /// What is left of it and of its processes.
        left: Left,
    },
    /// It was terminated since it printed too much. Its command may or may not have
    /// succeeded.
    PrintedTooMuch {
        /// The limit, in bytes.
        limit: usize,
        /// The end of its stderr.
        stderr: String,
        /// What is left of it and of its processes.
        left: Left,
    },
    /// It was terminated since it could not be waited for.
    Lost {
        /// The system's error.
        error: io::Error,
        /// What is left of it and of its processes.
        left: Left,
    },
    /// It has succeeded, and the caller doesn't take the chain's answer.
    NotDelivered(io::Error),
    /// It was terminated, with every process that it had started, since the call was
    /// cancelled.
    Cancelled {
        /// What is left of it and of its processes.
        left: Left,
    },
}

impl Failure {
    /// [`Self::Garbled`], of a delegate whose output is JSON and yet no result.
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

    /// True if some of its processes may still be at work.
    pub(crate) fn has_unterminated(&self) -> bool {
        match self {
            Self::TimedOut { left, .. }
            | Self::PrintedTooMuch { left, .. }
            | Self::Lost { left, .. }
            | Self::Cancelled { left } => left.is_at_work(),
            _ => false,
        }
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
                let details = lines([error.details.clone(), stderr_line(&rest.join("\n"))]);
                Error {
                    details,
                    ..error.clone()
                }
            }
            Self::NotFound {
                path,
                not_executable,
            } => Error::new(
                code::DELEGATE_NOT_FOUND,
                format!("no such plugin in CNI_PATH ({})", path.to_string_lossy()),
            )
            .with_details(match not_executable {
                Some(file) => format!("{} is there, but can't be executed", file.display()),
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
            .with_details(lines([stdout_line(stdout), stderr_line(stderr)])),
            Self::Garbled {
                reason,
                stdout,
                stderr,
            } => Error::new(
                code::DELEGATE_GARBLED,
                format!("printed no JSON object: {reason}"),
            )
            .with_details(lines([stdout_line(stdout), stderr_line(stderr)])),
            Self::TimedOut {
                limit,
                stderr,
                left,
            } => Error::new(
                code::TRY_AGAIN_LATER,
                format!("did not end within {limit:?}, and {}", terminated(left)),
            )
            .with_details(stderr_line(stderr)),
            Self::NotDelivered(error) => Error::new(
                code::IO,
                format!("the chain's result could not be delivered: {error}"),
            ),
            Self::PrintedTooMuch {
                limit,
                stderr,
                left,
            } => Error::new(
                code::DELEGATE_GARBLED,
                format!("printed more than {limit} bytes, and {}", terminated(left)),
            )
            .with_details(stderr_line(stderr)),
            Self::Lost { error, left } => Error::new(
                code::IO,
                format!(
                    "could not be waited for ({error}), and {}",
                    terminated(left)
                ),
            ),
            Self::Cancelled { left } => Error::new(
                code::INTERRUPTED,
                format!("{}, since the call was cancelled", terminated(left)),
            ),
            Self::Silent => Error::new(
                code::DELEGATE_SILENT,
                "succeeded, but printed no result on stdout",
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

fn lines<const N: usize>(parts: [String; N]) -> String {
    parts
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("\n")
}
