//! Writes the events of a chain to the log, and the delegates' stderr to stderr.

use chain::{Event, Observer, Outcome};
use cni::OneLine;
use plugin::write_to_stderr;

/// Observer that logs the events of a chain, and writes the delegates' stderr to stderr.
pub struct LogObserver;

impl Observer for LogObserver {
    fn event(&self, event: &Event<'_>) {
        match event {
            Event::Started {
                delegate,
                command,
                executable,
                prev_result,
            } => tracing::debug!(
                %delegate,
                asked = %command,
                executable = executable.map(|path| tracing::field::display(path.display())),
                prev_result = prev_result.map(|result| tracing::field::display(result.get())),
                "running the delegate"
            ),
            Event::Stderr { delegate, bytes } => {
                tracing::debug!(%delegate, stderr = %OneLine(bytes), "the delegate writes to stderr");
                write_to_stderr(bytes);
            }
            Event::Ended {
                delegate,
                command,
                outcome,
                took,
            } => {
                let took = took.as_secs_f64() * 1e3;
                let (said, failure) = match outcome {
                    Outcome::Failed(failure) => ("failed", Some(tracing::field::debug(failure))),
                    Outcome::Nothing => ("succeeded without output", None),
                    // The result is logged as the next delegate's prevResult, or as the answer.
                    Outcome::Result(_) => ("succeeded", None),
                };
                tracing::debug!(%delegate, asked = %command, milliseconds = format_args!("{took:.3}"), failure, "the delegate has {said}");
            }
        }
    }
}
