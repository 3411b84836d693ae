//! Writes to the process's stderr without waiting for its reader.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use state_files::wait_writable;

/// `PIPE_BUF`, in bytes: a pipe that is ready takes as much without blocking.
const CHUNK: usize = 4096;

/// Longest time for which a caller may leave its end of the pipe full.
const PATIENCE: Duration = Duration::from_millis(200);

/// True if the reader was too slow once. The rest is dropped.
static GIVEN_UP: AtomicBool = AtomicBool::new(false);

/// Writes to stderr. If the caller doesn't read its end of a full pipe, the text is
/// dropped after 200 ms, once for the process: a call must not wait for its log.
pub fn write_to_stderr(bytes: &[u8]) {
    let mut stderr = io::stderr().lock();
    for chunk in bytes.chunks(CHUNK) {
        if GIVEN_UP.load(Ordering::Relaxed) {
            return;
        }
        if !wait_writable(&stderr, PATIENCE).unwrap_or(true) {
            GIVEN_UP.store(true, Ordering::Relaxed);
            return;
        }
        // A closed stderr has no reader to be told.
        let _ = stderr.write_all(chunk);
    }
}
