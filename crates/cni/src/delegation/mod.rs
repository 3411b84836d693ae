//! Calling other plugins: find one in `CNI_PATH`, run it, take its answer.
//!
//! Specification, section 4, "Plugin Delegation".

mod answer;
mod find;
mod process;

use std::time::Instant;

pub use answer::{Answer, Failure, Printed};
pub use find::{DelegateName, InvalidDelegateName, SearchPath};

use crate::Command;
use crate::log::OneLine;

/// Runs the delegate with `stdin` and the environment of this process, but for
/// `CNI_COMMAND`, waits for its end, and returns what it said.
///
/// What the delegate writes to stderr goes to ours while it runs. A process
/// that it leaves behind with its stdout or stderr open isn't waited for.
pub fn delegate(name: &DelegateName, path: &SearchPath, command: Command, stdin: &[u8]) -> Answer {
    let executable = match path.find(name) {
        Ok(executable) => executable,
        Err(failure) => return Answer::Failed(failure),
    };
    let started = Instant::now();
    tracing::debug!(
        delegate = %name,
        %command,
        executable = %executable.display(),
        input = %OneLine(stdin),
        "calling the delegate"
    );
    match process::run(&executable, command, stdin) {
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
