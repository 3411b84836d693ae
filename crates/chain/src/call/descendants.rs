//! Terminates the processes that delegates have left behind in a process that is their
//! subreaper (`PR_SET_CHILD_SUBREAPER`, prctl(2)): the kernel makes them its children.
//!
//! A PID in `/proc` is only a candidate: waitid(2) tells whether it is a child of this process,
//! and the kernel doesn't use a child's PID again before the child is waited for.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::io::{Errno, retry_on_intr};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, getpid, kill_process, pidfd_open, waitid,
};

use crate::call::process_group::GRACE;
use crate::leftover_processes::Left;

/// Longest wait for the end of one process before all are looked at again.
const INTERVAL: Duration = Duration::from_millis(50);

/// Wait for a process that has become a child while `/proc` was being listed.
const RETRY: Duration = Duration::from_millis(1);

/// Terminates all children of this process except daemons, and their children when the kernel
/// has made them this process's: SIGTERM, and SIGKILL for those that are left after most of the
/// time.
pub(crate) fn terminate(at_most: Duration) -> Left {
    let started = Instant::now();
    let grace = GRACE.min(at_most * 2 / 3);
    let mut sent = HashSet::new();
    while reap() {
        let children = children();
        let spent = started.elapsed();
        let signal = if spent < grace {
            Signal::TERM
        } else {
            Signal::KILL
        };
        match &children {
            // A process that has ended may have left others: looked at again.
            Ok(Children {
                running,
                ended: 0,
                daemons: 1..,
            }) if running.is_empty() => return Left::Daemons,
            Ok(Children { running, .. }) if spent < at_most => {
                for pid in running {
                    if sent.insert((pid.as_raw_pid(), signal.as_raw())) {
                        tracing::warn!(%pid, ?signal, "terminating a process that a delegate has left behind");
                        let _ = kill_process(*pid, signal);
                    }
                }
                match running.first() {
                    Some(first) => wait_for_end(*first),
                    None => sleep(RETRY),
                }
            }
            Ok(Children { running, .. }) => {
                let pids = running.iter().map(|pid| pid.as_raw_pid().unsigned_abs());
                return Left::Running(pids.collect());
            }
            Err(error) => {
                tracing::warn!(%error, "a delegate has left a process behind, and /proc doesn't list it");
                return Left::Running(Vec::new());
            }
        }
    }
    Left::Nothing
}

/// Waits for children that have ended. Returns whether there are others.
fn reap() -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    loop {
        match waitid(WaitId::All, options) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return true,
            Err(error) => return error != Errno::CHILD,
        }
    }
}

/// Children of this process.
#[derive(Default)]
struct Children {
    /// All except daemons.
    running: Vec<Pid>,
    /// The number of those that have ended.
    ended: usize,
    /// The number of those in sessions that they have made.
    daemons: usize,
}

/// Finds the children of this process.
///
/// # Errors
///
/// An I/O error; `Unsupported` if `/proc` is not of this PID namespace.
fn children() -> io::Result<Children> {
    let own = getpid().as_raw_pid().to_string();
    if fs::read_link("/proc/self")? != Path::new(&own) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let own_session = session("self")?;
    let mut children = Children::default();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(name) = name.to_str() else { continue };
        let Some(pid) = name.parse().ok().and_then(Pid::from_raw) else {
            continue;
        };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match retry_on_intr(|| waitid(WaitId::Pid(pid), options)) {
            Err(Errno::CHILD) => {}
            Err(error) => return Err(error.into()),
            Ok(Some(_)) => children.ended += 1,
            Ok(None) if session(name)? == own_session => children.running.push(pid),
            Ok(None) => children.daemons += 1,
        }
    }
    Ok(children)
}

/// The session of a process, `/proc/PID/stat`, proc(5). This process's is 0 if it was made
/// outside of the PID namespace.
fn session(process: &str) -> io::Result<i32> {
    let stat = fs::read(format!("/proc/{process}/stat"))?;
    let stat = String::from_utf8_lossy(&stat);
    // The name is in parentheses, and may hold anything. Behind it: state, parent, group.
    let field = stat
        .rsplit_once(')')
        .and_then(|(_, behind)| behind.split_whitespace().nth(3)?.parse().ok());
    field.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn wait_for_end(pid: Pid) {
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(pidfd) => drop(state_files::wait_readable(&pidfd, INTERVAL)),
        Err(_) => sleep(RETRY),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_have_left_is_what_each_has_left() {
        let running = |pids: &[u32]| Left::Running(pids.to_vec());
        assert_eq!(running(&[2, 1]).and(running(&[1])), running(&[1, 2]));
        assert_eq!(Left::Daemons.and(running(&[])), running(&[]));
        assert_eq!(Left::Nothing.and(Left::Daemons), Left::Daemons);
        assert!(running(&[]).is_at_work() && !Left::Daemons.is_at_work());
    }
}
