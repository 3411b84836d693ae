//! The lock that all who use a directory of reservations hold, host-local
//! included: `flock(2)` on its file `lock`.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Instant;

use ipam::LOCK_FILE;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat, open};
use rustix::io::{Errno, retry_on_intr};

/// The lock on one directory, held exclusively until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Waits until nobody else holds it. The wait is the kernel's.
    pub(crate) fn acquire(directory: &Path) -> io::Result<Self> {
        let path = directory.join(LOCK_FILE);
        loop {
            // As host-local's library creates it.
            let mode = Mode::from_raw_mode(0o750);
            let flags = OFlags::RDONLY | OFlags::CREATE | OFlags::CLOEXEC;
            let file = File::from(open(&path, flags, mode)?);
            lock(&file, &path)?;
            // Whoever removed the directory meanwhile has taken the file with
            // it, and another may hold the one that is there now.
            if fstat(&file)?.st_nlink > 0 {
                return Ok(Self { _file: file });
            }
        }
    }
}

fn lock(file: &File, path: &Path) -> io::Result<()> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => {}
        other => return Ok(other?),
    }
    let since = Instant::now();
    tracing::debug!(path = %path.display(), "waiting for another process to let go of the lock");
    retry_on_intr(|| flock(file, FlockOperation::LockExclusive))?;
    tracing::debug!(
        path = %path.display(),
        milliseconds = format_args!("{:.3}", since.elapsed().as_secs_f64() * 1e3),
        "waited for the lock"
    );
    Ok(())
}
