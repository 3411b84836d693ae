//! The logs of the two flavours.
//!
//! Normal: warnings and errors go to stderr. Verbose (cargo feature `verbose`): every
//! line from debug level up also goes to a file. Each line carries the plugin, the trace
//! and the attachment, so that one attachment's lines can be found on a busy node.
//!
//! A linked plugin logs as its own process would: to its own file, and to a stderr that
//! its caller reads.

use std::cell::RefCell;
use std::io::{self, Write};

use tracing_subscriber::fmt::MakeWriter;

pub(crate) use context::Context;

#[cfg(not(feature = "verbose"))]
use normal as flavour;
#[cfg(feature = "verbose")]
use verbose as flavour;

pub(crate) use flavour::init;

mod context;
#[cfg(feature = "verbose")]
mod daily_file;
#[cfg(not(feature = "verbose"))]
mod normal;
#[cfg(feature = "verbose")]
mod verbose;

/// Runs the call of a linked plugin; returns its stderr, too.
pub(crate) fn of_linked_plugin<T>(plugin: &str, call: impl FnOnce() -> T) -> (T, Vec<u8>) {
    // `respond` catches panics, so both are always restored.
    let before = CAPTURED.replace(Some(Vec::new()));
    let answer = flavour::with_log_of(plugin, call);
    let stderr = CAPTURED.replace(before).unwrap_or_default();
    (answer, stderr)
}

thread_local! {
    /// The stderr of the linked plugin that runs in this thread.
    static CAPTURED: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

/// The stderr of the plugin that runs: the process's, or a linked plugin's.
struct Stderr;

impl Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        CAPTURED.with_borrow_mut(|captured| match captured {
            Some(captured) => captured.extend_from_slice(bytes),
            None => crate::write_to_stderr(bytes),
        });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linked_plugins_stderr_is_its_own() {
        let (inner, outer) = of_linked_plugin("a", || {
            Stderr.write_all(b"one\n").unwrap();
            let ((), inner) = of_linked_plugin("b", || Stderr.write_all(b"two\n").unwrap());
            Stderr.write_all(b"three\n").unwrap();
            inner
        });
        assert_eq!(inner, b"two\n");
        assert_eq!(outer, b"one\nthree\n");
    }
}
