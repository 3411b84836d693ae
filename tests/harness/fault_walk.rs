//! Fault walk: makes each system call of a program fail in turn, with strace.
//!
//! A test records one call of the program ([`FaultWalk::record`]), and repeats it for each point
//! ([`FaultWalk::run_at`]), at which one system call fails. Only the program's first thread is
//! traced; its child processes run as usual.

use std::fmt;
use std::fs;
use std::path::Path;

use crate::strace::{STRACE, SystemCall};
use crate::{ALL_POINTS, Call, Output, sample};

/// The errors: a broken disk, no free descriptor, no free memory, no permission.
pub const ERRORS: [&str; 4] = ["EIO", "ENFILE", "ENOMEM", "EACCES"];

/// Longest time of one run, in seconds. A program that retries endlessly fails the test.
const LONGEST: &str = "60";

/// System calls without errors, and those whose error only strace can cause: the C library or
/// Rust's standard library would retry endlessly.
const NEVER_FAIL: [&str; 8] = [
    "arch_prctl",
    "execve",
    "exit",
    "exit_group",
    "futex",
    "rt_sigreturn",
    "sched_yield",
    "set_tid_address",
];

/// A system call of a program that is made to fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultPoint {
    /// Its name, as strace prints it: `openat`.
    pub name: String,
    /// Number of this execution of the system call in the program, from 1.
    pub time: usize,
    /// The error with which it fails.
    pub error: &'static str,
}

impl fmt::Display for FaultPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} number {}", self.error, self.name, self.time)
    }
}

/// The points at which a call of a program can fail.
#[derive(Debug)]
pub struct FaultWalk {
    /// In the order in which the program makes them.
    pub points: Vec<FaultPoint>,
}

impl FaultWalk {
    /// Runs the call and records its system calls, beginning with the first line of the trace that
    /// contains `start`. Earlier ones are the loader's.
    pub fn record(call: Call, trace: &Path, start: &str) -> (Self, Output) {
        let output = call.traced(trace, &["-s", "256"]).run();
        (Self::of_trace(trace, start), output)
    }

    /// The system calls in strace's output of one call, beginning with the first line that
    /// contains `start`.
    pub fn of_trace(trace: &Path, start: &str) -> Self {
        let text = fs::read(trace).unwrap();
        let all_errors = std::env::var_os(ALL_POINTS).is_some();
        let points = points(&String::from_utf8_lossy(&text), start, all_errors);
        assert!(!points.is_empty(), "no system call with {start}");
        Self {
            points: sample(points),
        }
    }

    /// Runs the call while this point fails.
    pub fn run_at(call: Call, point: &FaultPoint) -> Output {
        let FaultPoint { name, time, error } = point;
        let injection = format!("inject={name}:error={error}:when={time}");
        let strace = [STRACE, "-qq", "-o", "/dev/null", "-e", &injection];
        let bound = ["timeout", "--kill-after=5", LONGEST];
        let output = call.through(&[&bound[..], &strace].concat()).run();
        assert_ne!(output.status.code(), Some(124), "it hangs: {point}");
        output
    }
}

/// Without `all_errors`, each system call fails with one of them.
fn points(trace: &str, start: &str, all_errors: bool) -> Vec<FaultPoint> {
    SystemCall::all(trace)
        .skip_while(|call| !call.line.contains(start))
        .filter(|call| !NEVER_FAIL.contains(&call.name))
        .flat_map(|call| {
            let errors = match all_errors {
                true => &ERRORS[..],
                false => &ERRORS[call.time % ERRORS.len()..][..1],
            };
            errors.iter().map(move |error| FaultPoint {
                name: call.name.to_owned(),
                time: call.time,
                error,
            })
        })
        .collect()
}
