//! The lock that all who use a directory of reservations hold, host-local
//! included: `flock(2)` on its file `lock`.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::Instant;

use cni::Cancellation;
use ipam::LOCK_FILE;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::{Errno, retry_on_intr};

/// The lock on one directory, held exclusively until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Waits until nobody else holds it, or until the interrupt comes.
    pub(crate) fn acquire(
        directory: &Path,
        interrupt: Option<&dyn Cancellation>,
    ) -> io::Result<Self> {
        let path = directory.join(LOCK_FILE);
        loop {
            // As host-local's library creates it.
            let mode = Mode::from_raw_mode(0o750);
            // What isn't a file must not be waited for.
            let flags = OFlags::RDONLY | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NONBLOCK;
            let file = File::from(open(&path, flags, mode)?);
            lock(&file, &path, interrupt)?;
            // Whoever removed the directory meanwhile has taken the file with
            // it, and another may hold the one that is there now.
            let metadata = file.metadata()?;
            cni::must_be_file(&metadata)?;
            if metadata.nlink() > 0 {
                return Ok(Self { _file: file });
            }
        }
    }
}

fn lock(file: &File, path: &Path, interrupt: Option<&dyn Cancellation>) -> io::Result<()> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => {}
        other => return Ok(other?),
    }
    let since = Instant::now();
    tracing::debug!(path = %path.display(), "waiting for another process to let go of the lock");
    match interrupt {
        None => retry_on_intr(|| flock(file, FlockOperation::LockExclusive))?,
        Some(interrupt) => lock_unless(file, interrupt.fd()?)?,
    }
    tracing::debug!(
        path = %path.display(),
        milliseconds = format_args!("{:.3}", since.elapsed().as_secs_f64() * 1e3),
        "waited for the lock"
    );
    Ok(())
}

/// Waits in another thread, since a wait for a lock can't be one for something
/// else, too.
fn lock_unless(file: &File, interrupt: BorrowedFd<'_>) -> io::Result<()> {
    let (ours, theirs) = io::pipe()?;
    let duplicate = file.try_clone()?;
    let waiting = thread::Builder::new().spawn(move || {
        let locked = retry_on_intr(|| flock(&duplicate, FlockOperation::LockExclusive));
        drop(theirs);
        // With this one goes the lock, if nobody waits for it any more.
        drop(duplicate);
        locked
    })?;
    let [done, _] = cni::wait_for([Some(ours.as_fd()), Some(interrupt)], None)?;
    if !done {
        return Err(io::Error::other("interrupted while waiting for the lock"));
    }
    let locked = waiting.join();
    Ok(locked.map_err(|_| io::Error::other("the thread that waited for the lock panicked"))??)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::PipeReader;
    use std::time::Duration;

    struct Pipe(PipeReader);

    impl Cancellation for Pipe {
        fn is_cancelled(&self) -> bool {
            false
        }

        fn fd(&self) -> io::Result<BorrowedFd<'_>> {
            Ok(self.0.as_fd())
        }
    }

    #[test]
    fn a_wait_for_the_lock_ends_with_the_lock_or_with_the_interrupt() {
        let folder = tempfile::tempdir().unwrap();
        let (receiver, sender) = io::pipe().unwrap();
        let pipe = Pipe(receiver);
        let interrupt = || Some(&pipe as &dyn Cancellation);
        let first = Lock::acquire(folder.path(), interrupt()).unwrap();
        thread::scope(|scope| {
            let second = scope.spawn(|| Lock::acquire(folder.path(), interrupt()));
            thread::sleep(Duration::from_millis(20));
            assert!(!second.is_finished());
            drop(first);
            let second = second.join().unwrap().unwrap();
            drop(sender);
            let error = Lock::acquire(folder.path(), interrupt()).unwrap_err();
            assert!(error.to_string().contains("interrupted"), "{error}");
            drop(second);
        });
        // The wait that was given up keeps nobody from it.
        Lock::acquire(folder.path(), None).unwrap();
    }
}
