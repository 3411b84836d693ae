//! What a delegate has come to when it has ended.

use std::process::ExitStatus;
use std::time::Duration;

use crate::log::OneLine;

/// What a delegate may print at most, in bytes; one that prints more is ended.
/// A result is some hundred, and a delegate that prints without end must not
/// take the node's memory.
pub(super) const MOST_OUTPUT: usize = 16 << 20;

/// How much of the end of a delegate's stderr is kept, in bytes.
const MOST_STDERR: usize = 4 << 10;

/// A delegate that has ended.
pub(super) struct Finished {
    /// Why it ended, if not by itself.
    pub(super) ended: Option<Ended>,
    pub(super) status: ExitStatus,
    pub(super) stdout: Vec<u8>,
    /// The end of what it wrote to stderr.
    pub(super) stderr: String,
}

/// Why we have ended a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// It took longer than it may.
    TimedOut(Duration),
    /// We were told to stop.
    Interrupted,
    /// It printed more than it may.
    PrintedTooMuch,
}

/// The end of what a delegate writes to stderr.
#[derive(Default)]
pub(super) struct Complaints(Vec<u8>);

impl Complaints {
    /// Notes some more of it, here and in the log.
    pub(super) fn add(&mut self, stderr: &[u8]) {
        if !stderr.is_empty() {
            tracing::debug!(stderr = %OneLine(stderr), "the delegate writes to stderr");
        }
        self.0.extend_from_slice(stderr);
        let excess = self.0.len().saturating_sub(MOST_STDERR);
        self.0.drain(..excess);
    }

    pub(super) fn into_text(self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }
}
