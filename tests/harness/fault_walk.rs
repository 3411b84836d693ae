//! Fault walk: makes each system call of a program fail in turn, with strace.
//!
//! A test records one call of the program ([`FaultWalk::record`]), and repeats it for each point
//! ([`FaultWalk::run_at`]), at which one system call fails. Only the program's first thread is
//! traced; its child processes run as usual.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::path::Path;

use crate::{Call, Output};

/// strace.
pub const STRACE: &str = "/usr/bin/strace";

/// The errors: a broken disk, no free descriptor, no free memory, no permission.
pub const ERRORS: [&str; 4] = ["EIO", "ENFILE", "ENOMEM", "EACCES"];

/// If this variable is set, each system call fails with each error. Otherwise each fails with one
/// error, which changes with each execution of the system call.
pub const ALL_POINTS: &str = "IPAM_DELEGATED_ALL_KILL_POINTS";

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
    /// The system call.
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
    /// True if one process may trace another on this machine.
    pub fn is_possible() -> bool {
        let call = Call::new("/bin/true".into());
        let output = call.through(&[STRACE, "-qq", "-o", "/dev/null"]).run();
        output.status.success()
    }

    /// Runs the call and records its system calls, beginning with the first line of the trace that
    /// contains `start`. Earlier ones are the loader's.
    ///
    /// # Panics
    ///
    /// If no system call contains `start`.
    pub fn record(call: Call, trace: &Path, start: &str) -> (Self, Output) {
        let path = trace.to_str().unwrap();
        let output = call
            .through(&[STRACE, "-qq", "-s", "256", "-o", path])
            .run();
        (Self::of_trace(trace, start), output)
    }

    /// The system calls in strace's output of one call, beginning with the first line that
    /// contains `start`.
    ///
    /// # Panics
    ///
    /// If no system call contains `start`.
    pub fn of_trace(trace: &Path, start: &str) -> Self {
        let text = fs::read(trace).unwrap();
        let points = points(&String::from_utf8_lossy(&text), start);
        assert!(!points.is_empty(), "no system call with {start}");
        Self { points }
    }

    /// Runs the call while this point fails.
    ///
    /// # Panics
    ///
    /// If it doesn't end.
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

fn points(trace: &str, start: &str) -> Vec<FaultPoint> {
    let all = std::env::var_os(ALL_POINTS).is_some();
    let mut times: HashMap<&str, usize> = HashMap::new();
    let mut has_started = false;
    let mut points = Vec::new();
    for line in trace.lines() {
        has_started |= line.contains(start);
        let Some((name, _)) = line.split_once('(') else {
            continue;
        };
        let is_part = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
        if !name.bytes().all(is_part) {
            continue;
        }
        let time = times.entry(name).or_default();
        *time += 1;
        if !has_started || NEVER_FAIL.contains(&name) {
            continue;
        }
        let of = |error| FaultPoint {
            name: name.to_owned(),
            time: *time,
            error,
        };
        if all {
            points.extend(ERRORS.map(of));
        } else {
            points.push(of(ERRORS[*time % ERRORS.len()]));
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_counts_the_calls_of_its_name_from_the_programs_start() {
        let trace = "openat(AT_FDCWD, \"/lib/x\") = 3\nread(3, \"\", 1) = 0\n\
                     openat(AT_FDCWD, \"/etc/cni\") = 3\nfutex(0x1) = 0\n--- SIGCHLD ---\n\
                     openat(AT_FDCWD, \"/y\") = -1 ENOENT\nexit_group(0) = ?\n";
        let found: Vec<String> = points(trace, "/etc/cni")
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            found,
            ["ENOMEM of openat number 2", "EACCES of openat number 3"]
        );
    }
}
