use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use cni::Cancellation;

/// The time at which a call gives up.
#[derive(Debug)]
pub struct Deadline {
    timer: OwnedFd,
    at: Instant,
}

impl Deadline {
    /// The deadline after this duration.
    ///
    /// # Errors
    ///
    /// An I/O error of the timer: without a timer, the call would have no deadline.
    pub fn after(time: Duration) -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // A timer that is set to zero never ends.
        let first = time.max(Duration::from_nanos(1));
        let spec = Itimerspec {
            it_interval: Timespec::default(),
            it_value: Timespec::try_from(first).map_err(io::Error::other)?,
        };
        timerfd_settime(&timer, TimerfdTimerFlags::empty(), &spec)?;
        Ok(Self {
            timer,
            at: Instant::now() + time,
        })
    }

    /// The time that is left.
    pub fn left(&self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
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

#[cfg(test)]
mod tests {
    use super::*;
    use state_files::wait_for;

    #[test]
    fn a_deadline_of_no_time_ends_a_wait_at_once() {
        let deadline = Deadline::after(Duration::ZERO).unwrap();
        assert!(deadline.is_cancelled());
        let fds = [deadline.fd().ok()];
        assert_eq!(wait_for(fds, Some(Duration::from_secs(5))).unwrap(), [true]);
    }
}
