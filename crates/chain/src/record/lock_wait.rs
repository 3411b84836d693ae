//! Waits for a file's lock in the kernel, for a bounded time.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, retry_on_intr};

/// The most waits of one process at once. A wait that was given up ends with the lock's
/// holder, which may be a daemon: without a bound, a process that tries again and again would
/// have more and more of them.
const MOST_WAITS: usize = 64;

static WAITS: AtomicUsize = AtomicUsize::new(0);

/// Locks a file, `flock(2)`; returns `false` if somebody else still holds the lock after this
/// time. The file must then be closed: the wait goes on, and ends with its lock.
///
/// # Errors
///
/// An I/O error of `flock`.
pub(crate) fn lock(file: &File, at_most: Duration) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => return Ok(true),
        Err(Errno::WOULDBLOCK) if !at_most.is_zero() => {}
        Err(Errno::WOULDBLOCK) => return Ok(false),
        Err(error) => return Err(error.into()),
    }
    if WAITS.fetch_add(1, Ordering::Relaxed) >= MOST_WAITS {
        WAITS.fetch_sub(1, Ordering::Relaxed);
        return Ok(false);
    }
    let (sender, receiver) = mpsc::channel();
    // The same open file, so the lock is the caller's.
    let waiting = file.try_clone().and_then(|file| {
        thread::Builder::new().spawn(move || {
            let locked = retry_on_intr(|| flock(&file, FlockOperation::LockExclusive));
            drop(file);
            WAITS.fetch_sub(1, Ordering::Relaxed);
            let _ = sender.send(locked);
        })
    });
    if let Err(error) = waiting {
        WAITS.fetch_sub(1, Ordering::Relaxed);
        return Err(error);
    }
    match receiver.recv_timeout(at_most) {
        Ok(locked) => Ok(locked.map(|()| true)?),
        Err(_) => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_waited_for_and_a_wait_that_was_given_up_keeps_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let open = || File::create(&path).unwrap();
        let held = open();
        assert!(lock(&held, Duration::ZERO).unwrap());
        let given_up = open();
        assert!(!lock(&given_up, Duration::from_millis(5)).unwrap());
        drop(given_up);
        let waiting = open();
        thread::scope(|scope| {
            let wait = scope.spawn(|| lock(&waiting, Duration::from_secs(60)));
            drop(held);
            assert!(wait.join().unwrap().unwrap());
        });
        assert!(!lock(&open(), Duration::ZERO).unwrap());
        drop(waiting);
        assert!(lock(&open(), Duration::from_secs(60)).unwrap());
    }
}
