//! SIGKILL of a running daemon at the system calls of its own threads, with strace. Its child
//! processes are neither traced nor killed.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::strace::{STRACE, SystemCall};
use crate::{DockerDaemon, sample};

use crate::waiting::wait_for;

/// Kinds of a daemon's threads: the main thread, which serves connections, and those that run
/// calls. Any waiting thread may take the next call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Threads {
    /// Those that run calls.
    OfCalls,
    /// The one that serves connections.
    OfConnections,
}

/// A system call of one of the daemon's threads: its name, and the number of its execution in the
/// thread.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    /// The threads that execute it.
    pub threads: Threads,
    /// The name of the system call.
    pub name: String,
    /// 1 for its first execution.
    pub time: usize,
}

/// strace on the threads of a daemon.
pub struct Traced(Child);

impl Traced {
    /// Writes the system calls of all threads to a file.
    pub fn recorded(daemon: &DockerDaemon, trace: &Path) -> Self {
        let threads = threads(daemon);
        let all: Vec<u32> = threads.values().flatten().copied().collect();
        Self::attach(daemon, &all, trace, "trace=all")
    }

    /// Kills the daemon before it makes this system call.
    pub fn killing(daemon: &DockerDaemon, point: &Point) -> Self {
        let Point {
            threads: kind,
            name,
            time,
        } = point;
        let expression = format!("inject={name}:signal=SIGKILL:when={time}");
        let threads = threads(daemon).remove(kind).unwrap_or_default();
        Self::attach(daemon, &threads, Path::new("/dev/null"), &expression)
    }

    fn attach(daemon: &DockerDaemon, threads: &[u32], trace: &Path, expression: &str) -> Self {
        let strace = Command::new(STRACE)
            .args(["-qq", "-e", expression, "-o"])
            .arg(trace)
            .args(threads.iter().map(|id| format!("--attach={id}")))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let is_traced = |id: &u32| {
            let status = fs::read_to_string(format!("/proc/{}/task/{id}/status", daemon.id()));
            // A thread that was idle for too long may have ended.
            status.map_or(true, |text| !text.contains("TracerPid:\t0\n"))
        };
        wait_for(|| threads.iter().all(is_traced) || is_killed(daemon));
        Self(strace)
    }

    /// Waits for its end, which follows the daemon's.
    pub fn end(mut self) {
        self.0.wait().unwrap();
    }
}

/// True if the daemon was killed.
pub fn is_killed(daemon: &DockerDaemon) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", daemon.id()));
    status.map_or(true, |text| text.contains("State:\tZ"))
}

/// True if the daemon was killed, or is killed in its work after an answer, before all of its threads
/// are idle.
pub fn is_killed_soon(daemon: &DockerDaemon) -> bool {
    threads(daemon);
    is_killed(daemon)
}

/// The daemon's threads, once all of them are idle. If a thread still ran an earlier call, the
/// next call would start another thread, which wouldn't be traced.
fn threads(daemon: &DockerDaemon) -> BTreeMap<Threads, Vec<u32>> {
    let all = RefCell::default();
    wait_for(|| {
        let resting = resting(daemon);
        let is_whole = resting.is_some();
        *all.borrow_mut() = resting.unwrap_or_default();
        is_whole || is_killed(daemon)
    });
    all.into_inner()
}

/// The names of threads that serve no call.
const BACKGROUND: [&str; 2] = ["releases", "sweep"];

/// The daemon's threads that serve calls; `None` if one of them isn't idle.
fn resting(daemon: &DockerDaemon) -> Option<BTreeMap<Threads, Vec<u32>>> {
    let tasks = format!("/proc/{}/task", daemon.id());
    let mut all: BTreeMap<Threads, Vec<u32>> = BTreeMap::new();
    for entry in fs::read_dir(&tasks).ok()?.flatten() {
        let id = entry.file_name().into_string().unwrap();
        let name = fs::read_to_string(format!("{tasks}/{id}/comm")).ok()?;
        if BACKGROUND.contains(&name.trim_end()) {
            continue;
        }
        let waits_in = fs::read_to_string(format!("{tasks}/{id}/syscall")).ok()?;
        let kind = kind_of(&waits_in)?;
        all.entry(kind).or_default().push(id.parse().unwrap());
    }
    Some(all)
}

/// The kind of an idle thread, by its system call in `/proc/PID/task/ID/syscall`; `None` if it
/// isn't idle. The thread for connections waits for the network. A thread for calls waits for the
/// next call with a timeout, after which it ends; if strace attaches meanwhile, it waits in
/// another system call.
fn kind_of(waits_in: &str) -> Option<Threads> {
    const FUTEX: &str = "202";
    const RESTART_SYSCALL: &str = "219";
    const EPOLL_WAIT: &str = "232";
    let words: Vec<&str> = waits_in.split(' ').collect();
    match words.as_slice() {
        [EPOLL_WAIT, ..] => Some(Threads::OfConnections),
        [FUTEX, _, _, _, "0x0", ..] => None,
        [FUTEX | RESTART_SYSCALL, ..] => Some(Threads::OfCalls),
        _ => None,
    }
}

/// The wait for a plugin's output. Its number depends on the pieces in which the output arrives.
const WAIT_FOR_OUTPUT: &str = "ppoll";

/// The points that several recordings have in common, as far as they are waits for output, and all
/// others; or a sample of them.
pub fn recorded(recording: impl Fn() -> BTreeSet<Point>) -> BTreeSet<Point> {
    let recordings: Vec<BTreeSet<Point>> = (0..3).map(|_| recording()).collect();
    let is_sure = |point: &&Point| {
        point.name != WAIT_FOR_OUTPUT
            || recordings.iter().all(|recording| recording.contains(point))
    };
    let points: BTreeSet<&Point> = recordings.iter().flatten().filter(is_sure).collect();
    let points = points.into_iter().cloned().collect();
    sample(points).into_iter().collect()
}

/// The points in a recorded trace of the daemon. Of each system call with an effect, the largest
/// number that one thread of a kind has executed.
///
/// The first system call of each thread is left out: the thread waits in it for a call, and it is
/// restarted when strace attaches.
pub fn points(daemon: &DockerDaemon, trace: &Path) -> BTreeSet<Point> {
    let kinds = threads(daemon);
    let text = fs::read_to_string(trace).unwrap();
    let mut seen = BTreeSet::new();
    SystemCall::all(&text)
        .filter(|call| !seen.insert(call.thread) && !call.is_without_effect())
        .filter_map(|call| {
            let id = call.thread?;
            let (&threads, _) = kinds.iter().find(|(_, ids)| ids.contains(&id))?;
            Some(Point {
                threads,
                name: call.name.to_owned(),
                time: call.time,
            })
        })
        .collect()
}
