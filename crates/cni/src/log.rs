//! Where log lines go: the two flavours.
//!
//! Normal: warnings and errors to stderr. Verbose (cargo feature `verbose`):
//! everything from debug level up to a file, too. Every line of a call carries
//! the attachment, so that one attachment's can be picked out of a busy node's
//! logs, across all plugins of the chain.
//!
//! A plugin that is called directly by another of the same executable logs as it
//! would alone: to its own file, and to a stderr that its caller reads.

use std::cell::RefCell;
use std::fmt;
use std::fmt::Write as _;
use std::io::{self, Write};

use tracing_subscriber::fmt::MakeWriter;

pub(crate) use who::Who;

#[cfg(not(feature = "verbose"))]
use normal as flavour;
#[cfg(feature = "verbose")]
use verbose as flavour;

pub(crate) use flavour::init;

/// Runs `call` with what it logs going where the plugin's own process would send
/// it; returns what it answers, and what it wrote to stderr.
pub(crate) fn as_delegate<T>(plugin: &str, call: impl FnOnce() -> T) -> (T, Vec<u8>) {
    // Whatever happens in the call, its panics included, is caught there.
    let before = COPY.replace(Some(Vec::new()));
    let answer = flavour::with_log_of(plugin, call);
    let stderr = COPY.replace(before).unwrap_or_default();
    (answer, stderr)
}

thread_local! {
    /// What has been written to stderr, for whoever wants to know.
    static COPY: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

/// The standard stderr, of which a copy is kept where one is wanted.
struct Stderr;

impl Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        COPY.with_borrow_mut(|copy| {
            if let Some(copy) = copy {
                copy.extend_from_slice(bytes);
            }
        });
        // Where it is closed there is nobody to tell.
        let _ = io::stderr().write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Stderr {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        Self
    }
}

#[cfg(not(feature = "verbose"))]
mod normal;
#[cfg(feature = "verbose")]
mod verbose;
mod who;

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

    #[test]
    fn a_delegates_stderr_is_its_own() {
        let (answer, stderr) = as_delegate("a", || {
            Stderr.write_all(b"one\n").unwrap();
            let ((), inner) = as_delegate("b", || Stderr.write_all(b"two\n").unwrap());
            Stderr.write_all(b"three\n").unwrap();
            inner
        });
        assert_eq!(answer, b"two\n");
        assert_eq!(stderr, b"one\nthree\n");
    }
}
