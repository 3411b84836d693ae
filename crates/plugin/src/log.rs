//! The logs of the two flavours.
//!
//! Normal: warnings and errors go to stderr. Verbose (cargo feature `verbose`): all lines from
//! debug level on also go to a file. Each line has the plugin, the trace and the attachment, so
//! that the lines of one attachment can be found on a busy node.
//!
//! A linked plugin logs like a separate process: to its own file, and to a stderr that its caller
//! reads.

use std::cell::RefCell;
use std::io::{self, Write};
use std::panic;

pub(crate) use context::{Context, Entered};

#[cfg(not(feature = "verbose"))]
use normal as flavour;
#[cfg(feature = "verbose")]
use verbose as flavour;

mod context;
#[cfg(feature = "verbose")]
mod daily_file;
#[cfg(not(feature = "verbose"))]
mod normal;
#[cfg(feature = "verbose")]
mod verbose;

/// Installs the log of this process's plugin. Panics are logged as well.
pub(crate) fn init(plugin: &str) {
    flavour::init(plugin);
    panic::set_hook(Box::new(|info| {
        tracing::error!(at = info.location().map(tracing::field::display), "panic");
    }));
}

/// The log and the stderr of a linked plugin in this thread. The caller must catch its panics, so
/// that its own log is always restored.
pub(crate) struct LinkedLog {
    log_before: flavour::ThreadLog,
    stderr_before: Option<Vec<u8>>,
}

impl LinkedLog {
    /// From now on, lines go to this plugin's log, and stderr is captured.
    pub(crate) fn begin(plugin: &str) -> Self {
        let stderr_before = CAPTURED.replace(Some(Vec::new()));
        Self {
            log_before: flavour::switch_to(plugin),
            stderr_before,
        }
    }

    /// Restores the log and the stderr of the caller; returns the plugin's stderr.
    pub(crate) fn end(self) -> Vec<u8> {
        flavour::restore(self.log_before);
        CAPTURED.replace(self.stderr_before).unwrap_or_default()
    }
}

thread_local! {
    /// The stderr of the linked plugin that runs in this thread.
    static CAPTURED: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

/// The stderr of the running plugin: the process's, or a linked plugin's.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linked_plugins_stderr_is_its_own() {
        let outer = LinkedLog::begin("a");
        Stderr.write_all(b"one\n").unwrap();
        let inner = LinkedLog::begin("b");
        Stderr.write_all(b"two\n").unwrap();
        let inner = inner.end();
        Stderr.write_all(b"three\n").unwrap();
        let outer = outer.end();
        assert_eq!(inner, b"two\n");
        assert_eq!(outer, b"one\nthree\n");
    }
}
