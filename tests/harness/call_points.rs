//! The system calls of a call of an executable, at which a test kills it.

use std::fmt;
use std::fs;
use std::path::Path;

use crate::strace::SystemCall;

/// A system call of a process: its name, and the number of its execution.
#[derive(Clone, Debug)]
pub struct Point {
    /// The name of the system call.
    pub name: String,
    /// 1 for its first execution.
    pub time: usize,
}

impl fmt::Display for Point {
    /// The strace expression that kills the process there.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "inject={}:signal=SIGKILL:when={}", self.name, self.time)
    }
}

/// The points in a trace, from the first line on that starts with this text, at these system calls.
pub fn points(trace: &Path, start: &str, is_meant: impl Fn(&SystemCall<'_>) -> bool) -> Vec<Point> {
    let trace = fs::read_to_string(trace).unwrap();
    SystemCall::all(&trace)
        .skip_while(|call| !call.line.starts_with(start))
        .filter(is_meant)
        .map(|call| Point {
            name: call.name.to_owned(),
            time: call.time,
        })
        .collect()
}
