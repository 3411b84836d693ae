//! Waits for and terminates a child's process group.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use state_files::wait_for;

/// Longest time between SIGTERM and SIGKILL, in which a delegate can clean up.
pub(crate) const GRACE: Duration = Duration::from_secs(1);

/// Interval of the polling if the kernel has no pidfd (Linux before 5.3).
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A child that leads a process group.
pub(crate) struct ProcessGroup {
    leader: Pid,
    pidfd: Option<OwnedFd>,
}

impl ProcessGroup {
    pub(crate) fn of(child: &Child) -> Self {
        let leader = Pid::from_child(child);
        Self {
            leader,
            pidfd: pidfd_open(leader, PidfdFlags::empty()).ok(),
        }
    }

    /// A descriptor that is readable when the leader has ended.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.pidfd.as_ref().map(AsFd::as_fd)
    }

    /// True if the end of the leader must be polled for.
    pub(crate) fn must_poll(&self) -> bool {
        self.pidfd.is_none()
    }

    /// The longest wait for the leader's end before it must be polled for.
    pub(crate) fn longest_wait(&self, left: Option<Duration>) -> Option<Duration> {
        match (self.must_poll(), left) {
            (false, left) => left,
            (true, None) => Some(POLL_INTERVAL),
            (true, Some(left)) => Some(left.min(POLL_INTERVAL)),
        }
    }

    /// Terminates the group: SIGTERM, and SIGKILL for what is left after most of the
    /// time. Returns whether the leader has ended within it.
    pub(crate) fn terminate(&self, child: &mut Child, at_most: Duration) -> bool {
        let deadline = Instant::now() + at_most;
        let _ = kill_process_group(self.leader, Signal::TERM);
        let ended = self.wait(child, Instant::now() + GRACE.min(at_most * 2 / 3));
        let _ = kill_process_group(self.leader, Signal::KILL);
        ended || self.wait(child, deadline)
    }

    fn wait(&self, child: &mut Child, deadline: Instant) -> bool {
        loop {
            if matches!(child.try_wait(), Ok(Some(_))) {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || wait_for([self.fd()], self.longest_wait(Some(left))).is_err() {
                return false;
            }
        }
    }
}
