//! Where log lines go: the two flavours.
//!
//! Normal: warnings and errors to stderr. Verbose (cargo feature `verbose`):
//! everything from debug level up to a file, too. Every line of a call carries
//! the attachment, so that one attachment's can be picked out of a busy node's
//! logs, across all plugins of the chain.

use std::fmt;
use std::fmt::Write as _;

use tracing::Span;

use crate::{NetworkName, Request, TraceContext};

// Spans are of the highest level, so that warnings have them in both flavours.

/// What all lines of a process carry.
pub(crate) fn trace_span(trace: &TraceContext) -> Span {
    tracing::error_span!("cni", trace = %trace.trace_id(), pid = std::process::id())
}

/// What all lines of a call carry.
pub(crate) fn call_span(request: &Request, network: &NetworkName) -> Span {
    let attachment = request.attachment();
    tracing::error_span!(
        "call",
        command = %request.command(),
        %network,
        container = attachment.map(|it| tracing::field::display(&it.container_id)),
        ifname = attachment.map(|it| tracing::field::display(&it.ifname)),
    )
}

/// Sends log lines where this flavour sends them. A log that can't be written
/// never fails a call.
#[cfg(not(feature = "verbose"))]
pub(crate) fn init(_plugin: &str) {
    let _ = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_target(false)
        .with_max_level(tracing::Level::WARN)
        .with_writer(std::io::stderr)
        .try_init();
}

#[cfg(feature = "verbose")]
pub(crate) use verbose::init;

#[cfg(feature = "verbose")]
mod verbose {
    //! The log file, `/var/log/cni/<plugin>.log`.

    use std::path::PathBuf;

    use tracing::Level;
    use tracing_appender::rolling::{InitError, RollingFileAppender, Rotation};
    use tracing_subscriber::fmt;
    use tracing_subscriber::fmt::writer::MakeWriterExt;

    /// Overrides the folder that the logs are in.
    const LOG_DIR: &str = "IPAM_DELEGATED_LOG_DIR";

    pub(crate) fn init(plugin: &str) {
        let stderr = std::io::stderr.with_max_level(Level::WARN);
        let lines = fmt().with_ansi(false).with_target(false);
        match file(plugin) {
            Ok(file) => {
                let _ = lines
                    .with_max_level(Level::DEBUG)
                    .with_writer(file.and(stderr))
                    .try_init();
            }
            Err(error) => {
                let _ = lines
                    .with_max_level(Level::WARN)
                    .with_writer(stderr)
                    .try_init();
                tracing::warn!(%error, "the log file can't be written; going on without");
            }
        }
    }

    fn file(plugin: &str) -> Result<RollingFileAppender, InitError> {
        let folder = std::env::var_os(LOG_DIR)
            .filter(|folder| !folder.is_empty())
            .map_or_else(|| PathBuf::from("/var/log/cni"), PathBuf::from);
        RollingFileAppender::builder()
            .rotation(Rotation::NEVER)
            .filename_prefix(format!("{plugin}.log"))
            .build(folder)
    }
}

/// Displays bytes as text in one line, so that a log's lines stay lines.
pub(crate) struct OneLine<'a>(pub(crate) &'a [u8]);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in String::from_utf8_lossy(self.0).trim_end().chars() {
            if c.is_control() {
                write!(f, "{}", c.escape_default())?;
            } else {
                f.write_char(c)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_lines_become_one() {
        assert_eq!(
            OneLine(b"{\n\t\"a\": \"\xff\"\n}\n").to_string(),
            "{\\n\\t\"a\": \"\u{fffd}\"\\n}"
        );
    }
}
