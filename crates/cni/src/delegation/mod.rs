//! Calling other plugins: find one in `CNI_PATH`, run it, take its answer.
//!
//! Specification, section 4, "Plugin Delegation".

mod answer;
mod find;
mod group;
mod process;

use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

pub use answer::{Answer, Failure, Printed};
pub use find::{DelegateName, InvalidDelegateName, SearchPath};

use crate::Command;
use crate::log::OneLine;

/// How a delegate is called.
#[derive(Clone, Copy)]
pub struct Invocation<'a> {
    /// What it is asked for.
    pub command: Command,
    /// The network configuration.
    pub stdin: &'a [u8],
    /// Variables that it gets instead of, or besides, this process's own.
    pub environment: &'a [(&'static str, OsString)],
    /// How long it may take, if there is a limit.
    pub timeout: Option<Duration>,
    /// Readable when it shall be stopped.
    pub interrupt: Option<BorrowedFd<'a>>,
}

/// Runs the delegate, waits for its end, and returns what it said.
///
/// It has the environment of this process, but for `CNI_COMMAND` and what the
/// invocation says. What it writes to stderr goes to ours while it runs. It leads
/// a process group, all of which is ended when its time is over; but where it ends
/// by itself, a process that it leaves behind isn't waited for.
pub fn delegate(name: &DelegateName, path: &SearchPath, invocation: &Invocation<'_>) -> Answer {
    let executable = match path.find(name) {
        Ok(executable) => executable,
        Err(failure) => return Answer::Failed(failure),
    };
    let command = invocation.command;
    let started = Instant::now();
    tracing::debug!(
        delegate = %name,
        %command,
        executable = %executable.display(),
        input = %OneLine(invocation.stdin),
        "calling the delegate"
    );
    match process::run(&executable, invocation) {
        Err(error) => Answer::Failed(Failure::NotStarted { executable, error }),
        Ok(finished) => {
            tracing::debug!(
                delegate = %name,
                %command,
                status = %finished.status,
                milliseconds = format_args!("{:.3}", started.elapsed().as_secs_f64() * 1e3),
                output = %OneLine(&finished.stdout),
                "the delegate has ended"
            );
            answer::interpret(finished)
        }
    }
}
