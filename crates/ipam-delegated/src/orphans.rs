//! Processes that a killed call has left behind: its delegates, which may still be
//! at work. Before what they do is undone, they have to have ended.
//!
//! They are let end by themselves first. Not all are made for being killed:
//! host-local, between making a file and writing into it, leaves one that nobody
//! can tell whose it is.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cni::{Attachment, FileId, wait_readable};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

/// What the delegates of a call, and all that they start, have in their
/// environment: the call's own text.
pub(crate) const CALL: &str = "IPAM_DELEGATED_CALL";

/// How long they have to end by themselves. What an allocator does takes
/// milliseconds; after this, it hangs.
const FINISH: Duration = Duration::from_secs(2);

/// How long they have after SIGTERM.
const GRACE: Duration = Duration::from_secs(1);

/// How long we wait for the end of what has been killed.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long we wait for what is being started just now, which takes
/// microseconds.
const STARTING: Duration = Duration::from_secs(1);

/// Sees to it that all processes of this call for this attachment have ended;
/// returns how many there were.
pub(crate) fn end(call: &str, attachment: &Attachment) -> usize {
    let sought = Sought::new(call, attachment);
    let started = Instant::now();
    let mut ended = 0;
    // As often as there are some: one may start another before it ends.
    loop {
        let (found, starting) = sought.find();
        for &pid in &found {
            sought.end(pid, started);
        }
        ended += found.len();
        let patience = if found.is_empty() {
            STARTING
        } else {
            FINISH + GRACE + PATIENCE
        };
        if found.is_empty() && !starting || started.elapsed() > patience {
            return ended;
        }
        if starting {
            sleep(Duration::from_millis(1));
        }
    }
}

/// All processes but this one.
fn processes() -> Vec<Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries
        .filter_map(|entry| Pid::from_raw(entry.ok()?.file_name().to_str()?.parse().ok()?))
        .filter(|pid| *pid != rustix::process::getpid())
        .collect()
}

/// What tells the processes of a call.
struct Sought {
    /// The variable that they have.
    mark: String,
    /// The call itself, if its process is still there: the runtime may have killed
    /// only the main plugin.
    itself: Option<Pid>,
    /// The variables that the killed call had.
    attachment: [String; 2],
    /// The file that the killed call ran.
    executable: Option<FileId>,
    /// The processes that there were when we began to look. What the killed call
    /// was about to start is among them.
    at_first: HashSet<Pid>,
}

/// Whether a process is of the call.
#[derive(Debug, PartialEq, Eq)]
enum Belongs {
    Yes,
    No,
    /// It is being started, and so far has nothing of its own that could say.
    NotKnownYet,
}

impl Sought {
    fn new(call: &str, attachment: &Attachment) -> Self {
        Self {
            mark: format!("{CALL}={call}"),
            itself: call
                .split_once('-')
                .and_then(|(pid, _)| Pid::from_raw(pid.parse().ok()?))
                .filter(|pid| *pid != rustix::process::getpid()),
            attachment: [
                format!("CNI_CONTAINERID={}", attachment.container_id),
                format!("CNI_IFNAME={}", attachment.ifname),
            ],
            executable: FileId::of_this_process().ok(),
            at_first: processes().into_iter().collect(),
        }
    }

    /// Those that are of the call, and whether it isn't known of some yet.
    fn find(&self) -> (Vec<Pid>, bool) {
        let mut starting = false;
        let mut found = processes();
        found.retain(|&pid| {
            let belongs = self.belongs(pid);
            starting |= belongs == Belongs::NotKnownYet;
            belongs == Belongs::Yes
        });
        (found, starting)
    }

    fn belongs(&self, pid: Pid) -> Belongs {
        let folder = PathBuf::from(format!("/proc/{pid}"));
        // In the order in which execve(2) brings them about, so that one which
        // happens just now isn't missed.
        let (Ok(executable), Ok(environ)) = (FileId::of(&folder.join("exe")), environ(&folder))
        else {
            // Gone, another's, or the kernel's own.
            return Belongs::No;
        };
        let Some(environ) = environ else {
            return Belongs::NotKnownYet;
        };
        let variables: Vec<&[u8]> = environ.split(|byte| *byte == 0).collect();
        let has = |wanted: &String| variables.contains(&wanted.as_bytes());
        if has(&self.mark) {
            return Belongs::Yes;
        }
        let is_a_mark =
            |it: &&[u8]| it.starts_with(CALL.as_bytes()) && it.get(CALL.len()) == Some(&b'=');
        if variables.iter().any(is_a_mark) {
            return Belongs::No;
        }
        // Before execve(2), a child is a copy of the call that has started it.
        let before_exec = Some(executable) == self.executable
            && self.at_first.contains(&pid)
            && self.attachment.iter().all(has);
        match before_exec {
            true if self.itself == Some(pid) => Belongs::Yes,
            true => Belongs::NotKnownYet,
            false => Belongs::No,
        }
    }

    /// Waits for the end of a process that was found so long after we started to
    /// look, and brings it about if it doesn't come.
    fn end(&self, pid: Pid, started: Instant) {
        let process = pidfd_open(pid, PidfdFlags::empty());
        // Once more: until it was opened, its number may have become another's.
        if self.belongs(pid) != Belongs::Yes {
            return;
        }
        let ends_by = |deadline: Duration| {
            let left = || (started + deadline).saturating_duration_since(Instant::now());
            match &process {
                Ok(process) => wait_readable(process, left()).unwrap_or_default(),
                // Linux before 5.3.
                Err(_) => {
                    while self.belongs(pid) == Belongs::Yes && !left().is_zero() {
                        sleep(Duration::from_millis(1));
                    }
                    self.belongs(pid) != Belongs::Yes
                }
            }
        };
        tracing::warn!(%pid, "an earlier call has left a process behind: waiting for its end");
        if ends_by(FINISH) {
            return;
        }
        for (signal, deadline) in [
            (Signal::TERM, FINISH + GRACE),
            (Signal::KILL, FINISH + GRACE + PATIENCE),
        ] {
            tracing::warn!(%pid, ?signal, "ending a process that an earlier call has left behind");
            let _ = match &process {
                Ok(process) => pidfd_send_signal(process, signal),
                Err(_) => kill_process(pid, signal),
            };
            if ends_by(deadline) {
                return;
            }
        }
    }
}

/// The environment of a process; `None` within execve(2), where there is a moment
/// without.
fn environ(folder: &Path) -> io::Result<Option<Vec<u8>>> {
    let read = || fs::read(folder.join("environ"));
    let first = read()?;
    if !first.is_empty() {
        return Ok(Some(first));
    }
    // The kernel sets `startcode` (proc(5), /proc/pid/stat, the 26th) after the
    // environment. What is empty then stays so.
    let stat = fs::read_to_string(folder.join("stat"))?;
    let (_, behind_the_name) = stat.rsplit_once(')').unwrap_or_default();
    match behind_the_name.split_whitespace().nth(26 - 3) {
        Some("0") => Ok(None),
        _ => read().map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::attachment;
    use std::process::{Command, Stdio};

    #[test]
    fn all_processes_of_a_call_are_ended_and_no_others() {
        let start = |call: &str| {
            Command::new("sh")
                .args(["-c", "sleep 100 & sleep 100"])
                .env(CALL, call)
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        };
        let running = |call: &str| Sought::new(call, &attachment()).find().0.len();
        let call = format!("test-{}", std::process::id());
        let (mut one, mut other) = (start(&call), start(&format!("{call}-other")));
        while running(&call) < 3 {
            sleep(Duration::from_millis(5));
        }
        assert!(end(&call, &attachment()) >= 3);
        assert!(!one.wait().unwrap().success());
        assert_eq!(running(&call), 0);
        assert!(other.try_wait().unwrap().is_none());
        end(&format!("{call}-other"), &attachment());
        other.wait().unwrap();
    }

    #[test]
    fn a_copy_of_a_call_may_become_one_of_its_processes() {
        let belongs = |container: &str| {
            // This very executable, with the variables of a call.
            let mut copy = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "orphans::tests::reads_to_the_end"])
                .stdin(Stdio::piped())
                .env("CNI_CONTAINERID", container)
                .env("CNI_IFNAME", "eth0")
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            let pid = Pid::from_child(&copy);
            while fs::read(format!("/proc/{pid}/cmdline")).unwrap().is_empty() {}
            let mut sought = Sought::new("x", &attachment());
            let belongs = sought.belongs(pid);
            sought.at_first.clear();
            assert_eq!(sought.belongs(pid), Belongs::No);
            copy.kill().unwrap();
            copy.wait().unwrap();
            belongs
        };
        assert_eq!(belongs("c1"), Belongs::NotKnownYet);
        assert_eq!(belongs("c2"), Belongs::No);
    }

    /// What the other test runs, which keeps stdin open.
    #[test]
    fn reads_to_the_end() {
        io::copy(&mut io::stdin(), &mut io::sink()).unwrap();
    }
}
