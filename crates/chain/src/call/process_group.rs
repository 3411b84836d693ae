//! Waits for and terminates a child's process group.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Child;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use state_files::wait_for;

/// Longest time between SIGTERM and SIGKILL, in which a delegate can clean up.
const GRACE: Duration = Duration::from_secs(1);

/// Longest wait for the end of a process after SIGKILL. One that waits for a disk, or is frozen,
/// doesn't end.
const MOST_FOR_KILLED: Duration = Duration::from_secs(1);

/// A child that leads a process group.
pub(crate) struct ProcessGroup {
    leader: Pid,
    pidfd: OwnedFd,
    grace: Duration,
}

impl ProcessGroup {
    /// The group of a child. If its end can't be waited for, the child is killed.
    ///
    /// # Errors
    ///
    /// An I/O error of `pidfd_open`, which Linux has since 5.3.
    pub(crate) fn of(child: &mut Child) -> io::Result<Self> {
        let leader = Pid::from_child(child);
        match pidfd_open(leader, PidfdFlags::empty()) {
            Ok(pidfd) => Ok(Self {
                leader,
                pidfd,
                grace: GRACE,
            }),
            Err(error) => {
                child.kill()?;
                child.wait()?;
                Err(error.into())
            }
        }
    }

    /// A descriptor that is readable when the leader has ended.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Terminates the group: SIGTERM, and SIGKILL for what is left after a second. Returns
    /// whether the leader has ended, at most two seconds later.
    pub(crate) fn terminate(&self, child: &mut Child) -> bool {
        let _ = kill_process_group(self.leader, Signal::TERM);
        let has_ended = self.wait(child, self.grace);
        let _ = kill_process_group(self.leader, Signal::KILL);
        has_ended || self.wait(child, MOST_FOR_KILLED)
    }

    fn wait(&self, child: &mut Child, at_most: Duration) -> bool {
        let _ = wait_for([Some(self.fd())], Some(at_most));
        matches!(child.try_wait(), Ok(Some(_)))
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
        let mut child = start("trap 'sleep 0.1; exit 3' TERM");
        let mut group = ProcessGroup::of(&mut child).unwrap();
        // Any machine is fast enough.
        group.grace = Duration::from_secs(60);
        assert!(group.terminate(&mut child));
        assert_eq!(child.wait().unwrap().code(), Some(3));
        let mut child = start("trap '' TERM");
        let group = ProcessGroup::of(&mut child).unwrap();
        assert!(group.terminate(&mut child));
        let signal = child.wait().unwrap().signal();
        assert_eq!(signal, Some(Signal::KILL.as_raw()));
    }
}
