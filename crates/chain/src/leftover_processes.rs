//! Terminates processes that a call has left behind: its delegates, and the processes
//! that they have started, in any process group.
//!
//! They are found by their environment. A process that has made a session of its own is
//! a daemon, which other containers may depend on: it is not terminated.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant, UNIX_EPOCH};

use cni::{Attachment, CHAIN_CALL, Environment, ROLLBACK, wait_readable};
use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, kill_process, pidfd_open, pidfd_send_signal,
};
use serde::{Deserialize, Serialize};

use crate::proc;

/// Interval of the polling if the kernel has no pidfd (Linux before 5.3).
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// The ID of a call: `<pid>-<nanoseconds since 1970>-<number>`. Every process that the
/// call starts has it in its environment, as [`CHAIN_CALL`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(crate) struct CallId {
    text: String,
    pid: i32,
}

impl CallId {
    /// The ID of a new call of this process.
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let pid = getpid().as_raw_nonzero().get();
        let now = UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self {
            text: format!("{pid}-{now}-{number}"),
            pid,
        }
    }

    /// Start of the call, in nanoseconds since 1970; 0 if the ID doesn't say it.
    pub(crate) fn nanoseconds(&self) -> u64 {
        let mut parts = self.text.split('-').skip(1);
        parts.next().and_then(|it| it.parse().ok()).unwrap_or(0)
    }

    /// The environment of the call's delegates.
    pub(crate) fn mark(&self, environment: Environment) -> Environment {
        environment.with(CHAIN_CALL, self.text.as_str())
    }

    /// The environment of delegates that undo this call, which may be an earlier one.
    pub(crate) fn mark_rollback(&self, environment: Environment) -> Environment {
        environment.with(ROLLBACK, self.text.as_str())
    }

    /// The variable with its value.
    fn marked(&self) -> Vec<u8> {
        format!("{CHAIN_CALL}={}", self.text).into_bytes()
    }

    /// The process that makes or made the call, if it isn't this one.
    fn process(&self) -> Option<Pid> {
        Pid::from_raw(self.pid).filter(|pid| *pid != getpid())
    }
}

impl TryFrom<String> for CallId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let pid = text.split_once('-').map(|(pid, _)| pid.parse());
        match pid {
            Some(Ok(pid)) if pid > 0 && !text.contains('\0') => Ok(Self { pid, text }),
            _ => Err(format!("{text:?} is no ID of a call")),
        }
    }
}

impl From<CallId> for String {
    fn from(id: CallId) -> Self {
        id.text
    }
}

/// Variable of every process of an owner outside of a chain.
const OWNER: &str = "IPAM_DELEGATED_OWNER";

/// The mark of the processes that are executed for an owner: its name, and, in the
/// environment, the session of the process that has started them.
pub(crate) struct OwnerMark<'a>(&'a str);

impl<'a> OwnerMark<'a> {
    /// The mark of this owner.
    pub(crate) fn of(owner: &'a str) -> Self {
        Self(owner)
    }

    /// The environment of the owner's processes.
    pub(crate) fn mark(&self, environment: Environment) -> Environment {
        environment.with(OWNER, self.value(proc::own_session().unwrap_or_default()))
    }

    fn value(&self, session: i32) -> String {
        format!("{}@{session}", self.0)
    }

    /// True if the owner's process is still there, and no daemon: it is in the session
    /// in which it was started.
    fn is_on(&self, pid: Pid) -> bool {
        let Some(environment) = proc::environment(pid) else {
            return false;
        };
        let start = format!("{OWNER}={}@", self.0).into_bytes();
        let Some(marked) = environment.iter().find(|it| it.starts_with(&start)) else {
            return false;
        };
        let session = proc::session(pid);
        let marked = |session| format!("{OWNER}={}", self.value(session)).as_bytes() == marked;
        session.is_some_and(marked) && !proc::has_ended(pid)
    }
}

/// The calls that had processes at the first query. A node has thousands of processes,
/// and a GC may query many calls: the processes are read once.
#[derive(Default)]
pub(crate) struct RunningCalls(OnceCell<HashSet<Vec<u8>>>);

impl RunningCalls {
    /// True if a call had processes.
    pub(crate) fn has(&self, call: &CallId) -> bool {
        let marks = || {
            let environments = proc::others().into_iter().filter_map(proc::environment);
            let is_mark = |it: &Vec<u8>| it.starts_with(CHAIN_CALL.as_bytes());
            environments.flatten().filter(is_mark).collect()
        };
        self.0.get_or_init(marks).contains(&call.marked())
    }
}

/// True if a call in this session has started the process, and it is no daemon.
fn is_of_call(pid: Pid, call: &CallId, session: i32) -> bool {
    let mark = call.marked();
    // The environment first: nothing else is read of a process that isn't the call's.
    proc::environment(pid).is_some_and(|it| it.contains(&mark))
        && proc::session(pid) == Some(session)
        && !proc::has_ended(pid)
}

/// Finds the process that makes a call for an attachment, if it is still there: the
/// runtime may have killed only the main plugin.
pub(crate) fn making_call(call: &CallId, attachment: &Attachment) -> Option<Pid> {
    let pid = call.process().filter(|_| proc::is_of_this_namespace())?;
    // The PID may be another process's by now.
    let environment = proc::environment(pid)?;
    let has = |name: &str, value: &str| {
        let variable = format!("{name}={value}").into_bytes();
        environment.contains(&variable)
    };
    (proc::name(pid) == proc::own_name()
        && has("CNI_CONTAINERID", attachment.container_id.as_str())
        && has("CNI_IFNAME", attachment.ifname.as_str())
        && !proc::has_ended(pid))
    .then_some(pid)
}

/// Terminates processes: SIGTERM, and SIGKILL after two thirds of the time. Returns
/// those that have not ended. `is_still` is true if a PID still means the process.
pub(crate) fn terminate(
    processes: Vec<Pid>,
    at_most: Duration,
    is_still: impl Fn(Pid) -> bool,
) -> Vec<Pid> {
    let started = Instant::now();
    let mut handles: Vec<ProcessHandle> = processes.into_iter().map(ProcessHandle::new).collect();
    // Checked after pidfd_open: before it, the PID may have become another process's.
    handles.retain(|process| is_still(process.pid));
    for (signal, until) in [(Signal::TERM, at_most * 2 / 3), (Signal::KILL, at_most)] {
        for process in &handles {
            tracing::warn!(pid = %process.pid, ?signal, "terminating a process that a call has left behind");
            process.send(signal);
        }
        handles.retain(|process| !process.ends_by(started + until, &is_still));
    }
    handles.into_iter().map(|process| process.pid).collect()
}

/// Terminates the processes that a call in this session has started; returns those that
/// have not ended.
pub(crate) fn terminate_call(call: &CallId, session: i32, at_most: Duration) -> Vec<Pid> {
    terminate_all(|pid| is_of_call(pid, call, session), at_most)
}

/// Terminates the processes of an owner; returns those that have not ended.
pub(crate) fn terminate_owned(mark: &OwnerMark<'_>, at_most: Duration) -> Vec<Pid> {
    terminate_all(|pid| mark.is_on(pid), at_most)
}

fn terminate_all(is_meant: impl Fn(Pid) -> bool, at_most: Duration) -> Vec<Pid> {
    let deadline = Instant::now() + at_most;
    loop {
        let mut found = proc::others();
        found.retain(|&pid| is_meant(pid));
        let left = deadline.saturating_duration_since(Instant::now());
        if found.is_empty() || left.is_zero() {
            return found;
        }
        // Once more, as one may have started another before it ended.
        terminate(found, left, &is_meant);
    }
}

/// A process and its pidfd, if the kernel has one: it never means another process.
struct ProcessHandle {
    pid: Pid,
    pidfd: Option<OwnedFd>,
}

impl ProcessHandle {
    fn new(pid: Pid) -> Self {
        Self {
            pid,
            pidfd: pidfd_open(pid, PidfdFlags::empty()).ok(),
        }
    }

    fn send(&self, signal: Signal) {
        let _ = match &self.pidfd {
            Some(pidfd) => pidfd_send_signal(pidfd, signal),
            None => kill_process(self.pid, signal),
        };
    }

    fn ends_by(&self, deadline: Instant, is_still: &impl Fn(Pid) -> bool) -> bool {
        let left = || deadline.saturating_duration_since(Instant::now());
        if let Some(pidfd) = &self.pidfd {
            return wait_readable(pidfd.as_fd(), left()).unwrap_or_default();
        }
        while is_still(self.pid) && !left().is_zero() {
            sleep(POLL_INTERVAL);
        }
        !is_still(self.pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    fn session() -> i32 {
        proc::own_session().unwrap()
    }

    fn start(script: &str, call: &CallId) -> Child {
        Command::new("sh")
            .args(["-c", script])
            .env(CHAIN_CALL, String::from(call.clone()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    fn of_call(call: &CallId, session: i32) -> Vec<Pid> {
        let mut found = proc::others();
        found.retain(|&pid| is_of_call(pid, call, session));
        found
    }

    fn wait_for_processes(call: &CallId, count: usize) {
        while of_call(call, session()).len() < count {
            sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn all_processes_of_a_call_are_terminated_and_no_others() {
        let (call, other_call) = (CallId::new(), CallId::new());
        // `timeout` makes a process group of its own.
        let mut one = start("timeout 100 sleep 100 & sleep 100", &call);
        let mut other = start("sleep 100", &other_call);
        wait_for_processes(&call, 4);
        wait_for_processes(&other_call, 1);
        assert_eq!(
            terminate_call(&call, session(), Duration::from_secs(10)),
            []
        );
        assert!(!one.wait().unwrap().success());
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn a_daemon_is_left_alone() {
        let call = CallId::new();
        let mut child = start("setsid sleep 100 & echo $!; sleep 100", &call);
        wait_for_processes(&call, 2);
        let has_daemon = || {
            let marked =
                |pid: &Pid| proc::environment(*pid).is_some_and(|it| it.contains(&call.marked()));
            proc::others()
                .into_iter()
                .find(|pid| marked(pid) && proc::session(*pid) != Some(session()))
        };
        let daemon = loop {
            if let Some(pid) = has_daemon() {
                break pid;
            }
        };
        assert_eq!(
            terminate_call(&call, session(), Duration::from_secs(10)),
            []
        );
        child.wait().unwrap();
        assert_eq!(has_daemon(), Some(daemon));
        kill_process(daemon, Signal::KILL).unwrap();
    }

    #[test]
    fn an_id_reads_back_as_itself() {
        let id = CallId::new();
        let json = serde_json::to_string(&id).unwrap();
        assert_eq!(serde_json::from_str::<CallId>(&json).unwrap(), id);
        for bad in ["\"\"", "\"1\"", "\"x-1-2\"", "\"-1-1\"", "\"1-1\\u0000-1\""] {
            assert!(serde_json::from_str::<CallId>(bad).is_err(), "{bad}");
        }
    }
}
