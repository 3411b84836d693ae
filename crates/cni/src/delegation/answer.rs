//! What came back from a delegate: a result, nothing, or a failure, told apart.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::finished::{Ended, Finished, MOST_OUTPUT};
use crate::object::Excerpt;
use crate::{Error, code};

/// How a delegate's run ended.
#[derive(Debug)]
pub enum Answer {
    /// It succeeded and printed a JSON object.
    Result(Printed),
    /// It succeeded and printed nothing, as the specification has it for all
    /// commands but ADD and VERSION.
    Nothing,
    /// It failed.
    Failed(Failure),
}

/// A JSON object on a delegate's stdout.
#[derive(Clone, Debug)]
pub struct Printed {
    bytes: Vec<u8>,
    json: Box<RawValue>,
}

impl Printed {
    /// The object.
    pub fn json(&self) -> &RawValue {
        &self.json
    }

    /// What was printed, to the byte.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn read(bytes: &[u8]) -> Result<Box<RawValue>, String> {
        let text = std::str::from_utf8(bytes).map_err(|e| e.to_string())?;
        let json: Box<RawValue> = serde_json::from_str(text).map_err(|e| e.to_string())?;
        if !json.get().starts_with('{') {
            return Err("expected an object".to_owned());
        }
        Ok(json)
    }
}

impl TryFrom<Vec<u8>> for Printed {
    type Error = String;

    fn try_from(bytes: Vec<u8>) -> Result<Self, String> {
        let json = Self::read(&bytes)?;
        Ok(Self { bytes, json })
    }
}

/// Why a delegate has no answer.
#[derive(Debug)]
pub enum Failure {
    /// It said so: a CNI error, with what it had written to stderr.
    Error {
        /// What it said.
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
    /// The operating system couldn't start it, or it couldn't be listened to.
    NotStarted {
        /// What was to be started.
        executable: PathBuf,
        /// Why it wasn't.
        error: io::Error,
    },
    /// It was ended by a signal, or exited with a status other than 0 without a
    /// CNI error.
    Died {
        /// How it ended.
        status: ExitStatus,
        /// The start of its stdout.
        stdout: String,
        /// The end of its stderr.
        stderr: String,
    },
    /// It exited with 0, and what it printed is no JSON object.
    Garbled {
        /// What is wrong with it.
        reason: String,
        /// Its start.
        stdout: String,
        /// The end of its stderr.
        stderr: String,
    },
    /// It exited with 0 and printed nothing, where an answer is required.
    Silent,
    /// It was ended, with all that it had started, since it took longer than it
    /// may.
    TimedOut {
        /// How long it may take.
        limit: Duration,
        /// The end of its stderr.
        stderr: String,
    },
    /// It was ended, with all that it had started, since we were told to stop.
    Interrupted,
}

impl Failure {
    /// The failure as a CNI error: the delegate's own if it gave one.
    pub fn into_error(self) -> Error {
        match self {
            Self::Error { error, stderr } => {
                // A plugin that logs its error need not be quoted twice.
                let rest: Vec<&str> = stderr
                    .lines()
                    .filter(|line| !line.contains(&error.msg))
                    .collect();
                let details = lines([error.details, stderr_line(&rest.join("\n"))]);
                Error { details, ..error }
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
            .with_details(lines([stdout_line(&stdout), stderr_line(&stderr)])),
            Self::Garbled {
                reason,
                stdout,
                stderr,
            } => Error::new(
                code::DELEGATE_GARBLED,
                format!("printed no JSON object: {reason}"),
            )
            .with_details(lines([stdout_line(&stdout), stderr_line(&stderr)])),
            Self::TimedOut { limit, stderr } => Error::new(
                code::TRY_AGAIN_LATER,
                format!("did not end within {limit:?}, and was ended"),
            )
            .with_details(stderr_line(&stderr)),
            Self::Interrupted => {
                Error::new(code::INTERRUPTED, "was ended, since SIGTERM or SIGINT came")
            }
            Self::Silent => Error::new(
                code::DELEGATE_SILENT,
                "succeeded, but printed no result on stdout",
            ),
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

/// Reads what a delegate left behind.
pub(super) fn interpret(finished: Finished) -> Answer {
    let Finished {
        ended,
        status,
        stdout,
        stderr,
    } = finished;
    if let Some(ended) = ended {
        return Answer::Failed(match ended {
            Ended::TimedOut(limit) => Failure::TimedOut { limit, stderr },
            Ended::Interrupted => Failure::Interrupted,
            Ended::PrintedTooMuch => Failure::Garbled {
                reason: format!("it printed more than {MOST_OUTPUT} bytes, and was ended"),
                stdout: excerpt(&stdout[..200]),
                stderr,
            },
        });
    }
    if let Some(error) = as_error(&stdout)
        && status.signal().is_none()
    {
        // With a status of 0 too: a script that prints an error and forgets
        // the status has not succeeded.
        return Answer::Failed(Failure::Error { error, stderr });
    }
    if !status.success() {
        return Answer::Failed(Failure::Died {
            status,
            stdout: excerpt(&stdout),
            stderr,
        });
    }
    if stdout.trim_ascii().is_empty() {
        return Answer::Nothing;
    }
    match Printed::read(&stdout) {
        Ok(json) => Answer::Result(Printed {
            bytes: stdout,
            json,
        }),
        Err(reason) => Answer::Failed(Failure::Garbled {
            reason,
            stdout: excerpt(&stdout),
            stderr,
        }),
    }
}

fn excerpt(bytes: &[u8]) -> String {
    Excerpt(&String::from_utf8_lossy(bytes)).to_string()
}

/// The CNI error on stdout, if that is what it is: an object with a `code` and
/// a `msg`.
fn as_error(stdout: &[u8]) -> Option<Error> {
    // All may be missing, since that is the ordinary case and must not cost an
    // error of the parser's, which counts lines.
    #[derive(Deserialize)]
    struct Printed {
        code: Option<u64>,
        msg: Option<String>,
        details: Option<String>,
    }
    if stdout.is_empty() {
        return None;
    }
    let printed: Printed = serde_json::from_slice(stdout).ok()?;
    let error = Error::new(printed.code?, printed.msg?);
    Some(error.with_details(printed.details.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(raw_status: i32, stdout: &str) -> Answer {
        let finished = Finished {
            ended: None,
            status: ExitStatus::from_raw(raw_status),
            stdout: stdout.as_bytes().to_vec(),
            stderr: "why\n".to_owned(),
        };
        interpret(finished)
    }

    const FAILURE: i32 = 1 << 8;
    const KILLED: i32 = 9;
    const ERROR: &str = r#"{"cniVersion":"1.0.0","code":11,"msg":"full"}"#;

    fn error(raw_status: i32, stdout: &str) -> Error {
        match answer(raw_status, stdout) {
            Answer::Failed(failure) => failure.into_error(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_result_is_kept_to_the_byte() {
        let text = " {\"ips\": [] }\n";
        match answer(0, text) {
            Answer::Result(printed) => {
                assert_eq!(printed.json().get(), "{\"ips\": [] }");
                assert_eq!(printed.into_bytes(), text.as_bytes());
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn white_space_is_nothing() {
        assert!(matches!(answer(0, " \n"), Answer::Nothing));
        assert!(matches!(answer(0, ""), Answer::Nothing));
    }

    #[test]
    fn the_kinds_of_failure_are_told_apart() {
        for (status, stdout, code) in [
            (FAILURE, ERROR, 11),
            (0, ERROR, 11),
            (KILLED, ERROR, code::DELEGATE_KILLED),
            (KILLED, "", code::DELEGATE_KILLED),
            (FAILURE, "", code::DELEGATE_FAILED),
            (FAILURE, "no space left", code::DELEGATE_FAILED),
            (FAILURE, r#"{"ips":[]}"#, code::DELEGATE_FAILED),
            (0, "done", code::DELEGATE_GARBLED),
            (0, "[]", code::DELEGATE_GARBLED),
            (0, "null", code::DELEGATE_GARBLED),
            (0, "{}{}", code::DELEGATE_GARBLED),
        ] {
            let error = error(status, stdout);
            assert_eq!(error.code, code, "{status} {stdout:?}: {error}");
            assert!(error.details.contains("stderr: why"), "{error:?}");
        }
    }

    #[test]
    fn a_delegates_own_details_come_first() {
        let stdout = r#"{"code":5,"msg":"m","details":"d"}"#;
        assert_eq!(error(FAILURE, stdout).details, "d\nstderr: why");
        let null = r#"{"code":5,"msg":"m","details":null}"#;
        assert_eq!(error(FAILURE, null).details, "stderr: why");
    }

    #[test]
    fn stderr_that_repeats_the_error_is_left_out() {
        let stdout = r#"{"code":5,"msg":"why"}"#;
        assert_eq!(error(FAILURE, stdout).details, "");
    }

    #[test]
    fn a_result_that_has_a_code_but_no_message_is_a_result() {
        assert!(matches!(answer(0, r#"{"code":5}"#), Answer::Result(_)));
    }
}
