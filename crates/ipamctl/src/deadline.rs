//! The bound of a release: locks and plugins together.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use cni::Cancellation;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::age::rounded;

/// The longest that the release of an attachment by `ipamctl gc` waits.
pub(crate) const LONGEST: Duration = Duration::from_secs(20);

/// A time from which on a release gives up.
#[derive(Debug)]
pub(crate) struct Deadline {
    timer: OwnedFd,
    at: Instant,
    /// The whole time.
    time: Duration,
}

impl Deadline {
    /// The deadline after this time.
    ///
    /// # Errors
    ///
    /// The system's: without a timer, there would be no bound.
    pub(crate) fn after(time: Duration) -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let spec = Itimerspec {
            it_interval: Timespec::default(),
            it_value: Timespec::try_from(time).map_err(io::Error::other)?,
        };
        timerfd_settime(&timer, TimerfdTimerFlags::empty(), &spec)?;
        Ok(Self {
            timer,
            at: Instant::now() + time,
            time,
        })
    }

    /// The time that is left.
    pub(crate) fn left(&self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
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
        self.left().is_zero()
    }

    fn fd(&self) -> io::Result<BorrowedFd<'_>> {
        Ok(self.timer.as_fd())
    }
}
