//! Output of a delegate that has ended, and its conversion to an outcome.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use cni::{Error, Excerpt, JsonOutput, Object, code};

use crate::call::outcome::{Failure, Kind, Outcome, Terminated};

/// The part of a delegate's stderr that is kept: its end, in bytes.
const MOST_STDERR: usize = 4 << 10;

/// Output of a delegate: exit status, stdout, stderr.
#[derive(Default)]
pub(crate) struct ProcessOutput {
    /// The termination, if the chain has terminated it.
    pub(crate) terminated: Option<Terminated>,
    /// `None` if it was terminated and has not ended.
    pub(crate) status: Option<ExitStatus>,
    pub(crate) stdout: Vec<u8>,
    /// The end of its stderr.
    pub(crate) stderr: String,
}

impl ProcessOutput {
    /// True if the process was killed, by the chain or by anybody else: what it has started may
    /// still be at work.
    pub(crate) fn is_of_killed(&self) -> bool {
        let has_signal = |status: ExitStatus| status.signal().is_some();
        self.terminated.is_some() || self.status.is_some_and(has_signal)
    }
}

/// Keeps the end of a delegate's stderr.
#[derive(Default)]
pub(crate) struct StderrTail(Vec<u8>);

impl StderrTail {
    /// Appends bytes, and drops the first ones if there are too many.
    pub(crate) fn add(&mut self, stderr: &[u8]) {
        self.0.extend_from_slice(stderr);
        let excess = self.0.len().saturating_sub(MOST_STDERR);
        self.0.drain(..excess);
    }

    /// The bytes as text; invalid UTF-8 is replaced.
    pub(crate) fn into_text(self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }
}

impl From<ProcessOutput> for Outcome {
    fn from(output: ProcessOutput) -> Self {
        let ProcessOutput { stdout, stderr, .. } = output;
        if let Some(terminated) = output.terminated {
            // A refusal with 110 still counts: the address is an earlier ADD's.
            let refused = as_error(&stdout).filter(|error| error.code == code::ALREADY_ALLOCATED);
            let has_ended = terminated.still_running.is_none();
            return Self::Failed(match refused.filter(|_| has_ended) {
                Some(error) => Failure::printed(error, &stderr),
                None => Failure::terminated(terminated, &stderr),
            });
        }
        let status = output.status.unwrap_or_default();
        let has_signal = status.signal().is_some();
        if let Some(error) = as_error(&stdout)
            && !has_signal
        {
            // With a status of 0 too: a script that prints an error and forgets the
            // status has not succeeded.
            return Self::Failed(Failure::printed(error, &stderr));
        }
        let died = |code, msg: String| {
            let printed = excerpt(&stdout);
            Failure::new(Kind::Died, code, msg).with_output("stdout", &printed)
        };
        let failed = if has_signal {
            let msg = format!("was ended by a signal ({status})");
            died(code::DELEGATE_KILLED, msg)
        } else if !status.success() {
            let msg = format!("failed ({status}) without a CNI error on stdout");
            died(code::DELEGATE_FAILED, msg)
        } else if stdout.trim_ascii().is_empty() {
            return Self::Nothing;
        } else {
            let start = excerpt(&stdout[..stdout.len().min(1024)]);
            match JsonOutput::try_from(stdout) {
                Ok(output) => return Self::Result(output),
                Err(reason) => Failure::garbled(&reason).with_output("stdout", &start),
            }
        };
        Self::Failed(failed.with_output("stderr", &stderr))
    }
}

fn excerpt(bytes: &[u8]) -> String {
    Excerpt(&String::from_utf8_lossy(bytes)).to_string()
}

/// The CNI error on stdout, if it is one: an object with a `code` and a `msg`.
fn as_error(stdout: &[u8]) -> Option<Error> {
    if stdout.is_empty() {
        return None;
    }
    let printed: Object = serde_json::from_slice(stdout).ok()?;
    let error = Error::new(
        printed.read("", "code").ok()??,
        printed.read::<String>("", "msg").ok()??,
    );
    let details: Option<String> = printed.read("", "details").ok()?;
    Some(error.with_details(details.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::outcome::Reason;

    fn outcome(raw_status: i32, stdout: &str) -> Outcome {
        Outcome::from(ProcessOutput {
            terminated: None,
            status: Some(ExitStatus::from_raw(raw_status)),
            stdout: stdout.as_bytes().to_vec(),
            stderr: "why\n".to_owned(),
        })
    }

    const FAILURE: i32 = 1 << 8;
    const KILLED: i32 = 9;
    const ERROR: &str = r#"{"cniVersion":"1.0.0","code":11,"msg":"full"}"#;

    fn error(raw_status: i32, stdout: &str) -> Error {
        match outcome(raw_status, stdout) {
            Outcome::Failed(failure) => failure.error,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_result_is_kept_to_the_byte() {
        let text = " {\"ips\": [] }\n";
        match outcome(0, text) {
            Outcome::Result(printed) => {
                assert_eq!(printed.json().get(), "{\"ips\": [] }");
                assert_eq!(printed.into_bytes(), text.as_bytes());
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn white_space_is_nothing() {
        assert!(matches!(outcome(0, " \n"), Outcome::Nothing));
        assert!(matches!(outcome(0, ""), Outcome::Nothing));
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
        assert!(matches!(outcome(0, r#"{"code":5}"#), Outcome::Result(_)));
    }

    #[test]
    fn a_terminated_delegate_has_refused_only_if_it_has_ended() {
        let printed = |code| format!(r#"{{"code":{code},"msg":"m"}}"#);
        for (still_running, code, counts) in [
            (None, 110, 110),
            (Some(7), 110, code::TRY_AGAIN_LATER),
            (None, 5, code::TRY_AGAIN_LATER),
        ] {
            let reason = Reason::TimedOut(std::time::Duration::from_secs(1));
            let outcome = Outcome::from(ProcessOutput {
                terminated: Some(Terminated {
                    reason,
                    still_running,
                }),
                status: None,
                stdout: printed(code).into_bytes(),
                stderr: String::new(),
            });
            let Outcome::Failed(failure) = outcome else {
                panic!("{outcome:?}");
            };
            assert_eq!(failure.error.code, counts);
        }
    }
}
