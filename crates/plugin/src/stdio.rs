//! Stdin, stdout and stderr of the process.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cni::Cancellation;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;

/// Largest configuration, in bytes. A valid attachment has about 150 bytes, so a GC may have a
/// hundred thousand of them. A plugin needs several times as much memory.
const MOST_STDIN: usize = 16 << 20;

/// `PIPE_BUF`, in bytes: a ready pipe accepts this much without blocking.
const CHUNK: usize = 4096;

/// Interval in which a signal is noticed while the caller doesn't read stdout.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(100);

/// Longest wait for a reader of stderr.
const MOST_FOR_STDERR: Duration = Duration::from_millis(200);

/// True after the wait for the reader of stderr was given up. Further text is dropped.
static GIVEN_UP: AtomicBool = AtomicBool::new(false);

/// Reads all of stdin.
///
/// # Errors
///
/// An I/O error; `FileTooLarge` for more than [`MOST_STDIN`] bytes.
pub(crate) fn read_stdin(into: &mut Vec<u8>) -> io::Result<()> {
    let stdin = io::stdin().lock();
    stdin.take(MOST_STDIN as u64 + 1).read_to_end(into)?;
    if into.len() > MOST_STDIN {
        let why = format!("the configuration is larger than {MOST_STDIN} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(())
}

/// Writes to stdout. Waits for a caller that doesn't read, until the cancellation.
///
/// # Errors
///
/// An I/O error: the caller has closed its end, or the call is cancelled.
pub(crate) fn print(bytes: &[u8], cancellation: &dyn Cancellation) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    for chunk in bytes.chunks(CHUNK) {
        while !wait_writable(&stdout, SIGNAL_INTERVAL)? {
            if cancellation.is_cancelled() {
                return Err(io::Error::other(
                    "a signal came before the caller has read it",
                ));
            }
        }
        stdout.write_all(chunk)?;
        stdout.flush()?;
    }
    Ok(())
}

/// Writes to stderr. If the pipe is full and the caller doesn't read for 200 ms, this text and all
/// later text of the process is dropped: a call must not wait for its log.
pub fn write_to_stderr(bytes: &[u8]) {
    let mut stderr = io::stderr().lock();
    for chunk in bytes.chunks(CHUNK) {
        if GIVEN_UP.load(Ordering::Relaxed) {
            return;
        }
        if !wait_writable(&stderr, MOST_FOR_STDERR).unwrap_or(true) {
            GIVEN_UP.store(true, Ordering::Relaxed);
            return;
        }
        // If stderr is closed, the error can't be reported.
        let _ = stderr.write_all(chunk);
    }
}

/// Waits at most `at_most` until the descriptor is writable or closed. Returns whether it is. After
/// a signal, the wait begins again.
fn wait_writable(fd: impl AsFd, at_most: Duration) -> io::Result<bool> {
    let mut polled = [PollFd::new(&fd, PollFlags::OUT)];
    let at_most = Timespec::try_from(at_most).map_err(io::Error::other)?;
    let ready = retry_on_intr(|| poll(&mut polled, Some(&at_most)))?;
    Ok(ready > 0)
}
