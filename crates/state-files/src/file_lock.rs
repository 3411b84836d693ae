//! Locks a file with `flock(2)`. The wait for the lock can be given up.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cni::Cancellation;
use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, retry_on_intr};

use crate::wait_for;

/// Number of attempts to open or lock a file that other processes replace or remove meanwhile. An
/// attempt fails only if another process does so between two system calls.
pub const MOST_RACES: usize = 100;

/// Most waits of this process that were given up and have not ended. Each ends when the lock's
/// holder unlocks, which may take as long as a daemon runs. The bound limits the threads of a
/// process that tries again and again.
const MOST_GIVEN_UP: isize = 64;

static GIVEN_UP: AtomicIsize = AtomicIsize::new(0);

/// Locks a file exclusively. Returns false if another process still holds the lock after
/// `at_most`, or after the cancellation; also at once if too many waits of this process were
/// given up and have not ended. The caller must then close the file: the wait goes on in its
/// thread, and closes its duplicate once it has the lock. A wait is logged, with this path.
///
/// # Errors
///
/// An I/O error of `flock`, or of the wait for it.
pub fn lock_file(
    file: &File,
    path: &Path,
    at_most: Option<Duration>,
    cancellation: Option<&dyn Cancellation>,
) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => return Ok(true),
        Err(Errno::WOULDBLOCK) => {}
        Err(error) => return Err(error.into()),
    }
    if at_most == Some(Duration::ZERO) {
        return Ok(false);
    }
    let since = Instant::now();
    let path = path.display();
    tracing::debug!(%path, "waiting for another process to let go of the lock");
    let is_locked = match (
        at_most,
        cancellation.and_then(|cancellation| cancellation.fd().ok()),
    ) {
        (None, None) => wait_without_bound(file)?,
        (at_most, cancelled) => wait(file, at_most, cancelled)?,
    };
    tracing::debug!(
        %path,
        milliseconds = format_args!("{:.3}", since.elapsed().as_secs_f64() * 1e3),
        is_locked,
        "waited for the lock"
    );
    Ok(is_locked)
}

fn wait_without_bound(file: &File) -> io::Result<bool> {
    retry_on_intr(|| flock(file, FlockOperation::LockExclusive))?;
    Ok(true)
}

fn wait(
    file: &File,
    at_most: Option<Duration>,
    cancelled: Option<BorrowedFd<'_>>,
) -> io::Result<bool> {
    if GIVEN_UP.load(Ordering::SeqCst) >= MOST_GIVEN_UP {
        return Ok(false);
    }
    let (ours, theirs) = io::pipe()?;
    // The duplicate shares the open file, so its lock is the caller's lock.
    let duplicate = file.try_clone()?;
    // Set by the thread when it ends or by the caller when it gives up, whichever is first.
    let is_over = Arc::new(AtomicBool::new(false));
    let is_over_there = Arc::clone(&is_over);
    // A separate thread, since a thread that waits in `flock` can't wait for anything else.
    let waiting = thread::Builder::new().spawn(move || {
        let locked = retry_on_intr(|| flock(&duplicate, FlockOperation::LockExclusive));
        drop(duplicate);
        if is_over_there.swap(true, Ordering::SeqCst) {
            GIVEN_UP.fetch_sub(1, Ordering::SeqCst);
        }
        drop(theirs);
        locked
    })?;
    let [has_ended, _] = wait_for([Some(ours.as_fd()), cancelled], at_most)?;
    if !has_ended {
        GIVEN_UP.fetch_add(1, Ordering::SeqCst);
        if is_over.swap(true, Ordering::SeqCst) {
            GIVEN_UP.fetch_sub(1, Ordering::SeqCst);
        }
        return Ok(false);
    }
    match waiting.join() {
        Ok(locked) => Ok(locked.map(|()| true)?),
        Err(_) => Err(io::Error::other("the thread that waits has panicked")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call whose other end is closed.
    struct Cancelled(io::PipeReader);

    impl Cancellation for Cancelled {
        fn is_cancelled(&self) -> bool {
            true
        }

        fn fd(&self) -> io::Result<BorrowedFd<'_>> {
            Ok(self.0.as_fd())
        }
    }

    #[test]
    fn a_lock_is_waited_for_and_a_wait_that_was_given_up_holds_no_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let open = || File::create(&path).unwrap();
        let lock = |file: &File, at_most| lock_file(file, &path, Some(at_most), None).unwrap();
        let long = Duration::from_secs(60);
        let held = open();
        assert!(lock(&held, Duration::ZERO));
        let given_up = open();
        assert!(!lock(&given_up, Duration::from_millis(5)));
        drop(given_up);
        let waiting = open();
        thread::scope(|scope| {
            let wait = scope.spawn(|| lock(&waiting, long));
            drop(held);
            assert!(wait.join().unwrap());
        });
        assert!(!lock(&open(), Duration::ZERO));
        drop(waiting);
        assert!(lock(&open(), long));
    }

    #[test]
    fn a_wait_ends_with_the_cancellation() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let open = || File::create(&path).unwrap();
        let held = open();
        assert!(lock_file(&held, &path, None, None).unwrap());
        let ended = Cancelled(io::pipe().unwrap().0);
        assert!(!lock_file(&open(), &path, None, Some(&ended)).unwrap());
        drop(held);
        assert!(lock_file(&open(), &path, None, None).unwrap());
    }
}
