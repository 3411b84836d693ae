//! Logs what delegates write to stderr.

use chain::{Event, Observer};

/// An observer that logs.
pub(crate) struct DelegateLog;

impl Observer for DelegateLog {
    fn event(&self, event: &Event<'_>) {
        match event {
            Event::Stderr { delegate, bytes } => {
                let text = String::from_utf8_lossy(bytes);
                for line in text.lines().filter(|line| !line.trim().is_empty()) {
                    tracing::warn!(%delegate, "{line}");
                }
            }
            Event::Ended {
                delegate,
                command,
                took,
                ..
            } => tracing::trace!(%delegate, %command, ?took, "has ended"),
            Event::Started { .. } => {}
        }
    }
}
