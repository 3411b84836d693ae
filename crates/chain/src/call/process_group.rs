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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::{Command, Stdio};

    /// A shell that leads a group, runs this command, and then prints a line and waits a minute.
    fn start(command: &str) -> Child {
        let script = format!("{command}\necho ready\nfor i in $(seq 600); do sleep 0.1; done");
        let mut shell = Command::new("sh");
        let shell = shell.args(["-c", &script]);
        let shell = shell.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = shell.process_group(0).spawn().unwrap();
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        child
    }

    #[test]
    fn a_group_has_time_to_end_by_itself_and_is_then_killed() {
        for has_pidfd in [true, false] {
            let mut child = start("trap 'sleep 0.1; exit 3' TERM");
            let mut group = ProcessGroup::of(&child);
            group.pidfd = group.pidfd.filter(|_| has_pidfd);
            assert!(group.terminate(&mut child, Duration::from_secs(60)));
            assert_eq!(child.wait().unwrap().code(), Some(3));
        }
        let mut child = start("trap '' TERM");
        let group = ProcessGroup::of(&child);
        assert!(group.terminate(&mut child, Duration::from_secs(60)));
        let signal = child.wait().unwrap().signal();
        assert_eq!(signal, Some(Signal::KILL.as_raw()));
    }

    #[test]
    fn a_leader_without_a_pidfd_is_polled_for() {
        let mut child = start("");
        let mut group = ProcessGroup::of(&child);
        let (short, long) = (Duration::from_millis(1), Duration::from_secs(1));
        assert!(!group.must_poll());
        for left in [None, Some(short), Some(long)] {
            assert_eq!(group.longest_wait(left), left);
        }
        group.pidfd = None;
        assert!(group.must_poll());
        for (left, wait) in [
            (None, POLL_INTERVAL),
            (Some(short), short),
            (Some(long), POLL_INTERVAL),
        ] {
            assert_eq!(group.longest_wait(left), Some(wait));
        }
        group.terminate(&mut child, long);
        child.wait().unwrap();
    }
}
