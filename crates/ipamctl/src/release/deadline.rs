//! The bound of a release: locks and plugins together.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::Duration;

use cni::Cancellation;

use crate::output::times::rounded;

/// The longest that the release of an attachment by `ipamctl gc` waits.
pub(crate) const LONGEST: Duration = Duration::from_secs(20);

/// A time from which on a release gives up.
#[derive(Debug)]
pub(crate) struct Deadline {
    deadline: state_files::Deadline,
    /// The whole time.
    time: Duration,
}

impl Deadline {
    /// The deadline after this time.
    ///
    /// # Errors
    ///
    /// An I/O error: without a timer, there would be no bound.
    pub(crate) fn after(time: Duration) -> io::Result<Self> {
        let deadline = state_files::Deadline::after(time)?;
        Ok(Self { deadline, time })
    }

    /// The reason of a release that was not finished in time.
    pub(crate) fn is_over(&self) -> String {
        format!("not released within {}", rounded(self.time))
    }

    /// The error of a wait for a directory's lock; says so if the wait was too long.
    pub(crate) fn explain(&self, error: anyhow::Error, directory: &Path) -> anyhow::Error {
        if !self.is_cancelled() {
            return error;
        }
        anyhow::anyhow!(
            "another process has held {}/lock for {}",
            directory.display(),
            rounded(self.time)
        )
    }
}

impl Cancellation for Deadline {
    fn is_cancelled(&self) -> bool {
        self.deadline.is_cancelled()
    }

    fn fd(&self) -> io::Result<BorrowedFd<'_>> {
        self.deadline.fd()
    }
}
