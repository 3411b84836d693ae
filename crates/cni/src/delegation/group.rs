//! A child with all that it has started: how its end is noticed, and how it is
//! brought about.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::wait::wait_for;

/// How long a delegate that is to end has for its own clearing up.
const GRACE: Duration = Duration::from_secs(1);

/// How long we wait for the end of what has been killed. It takes that long only
/// where the kernel itself waits, for a disk or a server.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often we ask, where the kernel doesn't tell.
const NOW_AND_THEN: Duration = Duration::from_millis(10);

/// A child that leads a process group.
pub(super) struct Group {
    leader: Pid,
    /// Readable when the leader has ended. Linux before 5.3 has no such thing.
    end: Option<OwnedFd>,
}

impl Group {
    pub(super) fn of(child: &Child) -> Self {
        let leader = Pid::from_child(child);
        Self {
            leader,
            end: pidfd_open(leader, PidfdFlags::empty()).ok(),
        }
    }

    /// Readable when the leader has ended.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.end.as_ref().map(AsFd::as_fd)
    }

    /// Whether one must ask if the leader has ended.
    pub(super) fn must_ask(&self) -> bool {
        self.end.is_none()
    }

    /// How long to wait at most, if there is time `left`.
    pub(super) fn soonest(&self, left: Option<Duration>) -> Option<Duration> {
        match (self.must_ask(), left) {
            (false, left) => left,
            (true, None) => Some(NOW_AND_THEN),
            (true, Some(left)) => Some(left.min(NOW_AND_THEN)),
        }
    }

    /// Ends them all: the leader by SIGTERM if it follows, all that is left by
    /// SIGKILL.
    pub(super) fn end(&self, child: &mut Child) {
        let _ = kill_process_group(self.leader, Signal::TERM);
        self.wait(child, GRACE);
        let _ = kill_process_group(self.leader, Signal::KILL);
        self.wait(child, PATIENCE);
    }

    fn wait(&self, child: &mut Child, at_most: Duration) {
        let deadline = Instant::now() + at_most;
        while !matches!(child.try_wait(), Ok(Some(_))) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || wait_for([self.fd()], self.soonest(Some(left))).is_err() {
                return;
            }
        }
    }
}
