//! SIGKILL of a running daemon at the system calls of its own threads, with strace. Its child
//! processes are neither traced nor killed.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use harness::DockerDaemon;

use crate::waiting::wait_for;

pub(crate) const STRACE: &str = "/usr/bin/strace";

/// Longest wait for the end of a daemon after the answer to a call. Its work after the answer
/// takes less time.
const PATIENCE: Duration = Duration::from_millis(150);

/// Kinds of a daemon's threads: the main thread, which serves connections, and those that run
/// calls. Any waiting thread may take the next call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Threads {
    /// Those that run calls.
    OfCalls,
    /// The one that serves connections.
    OfConnections,
}

/// A system call of one of the daemon's threads: its name, and the number of its execution in the
/// thread.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Point {
    pub(crate) threads: Threads,
    pub(crate) name: String,
    pub(crate) time: usize,
}

/// True if one process may trace another here.
pub(crate) fn can_trace(test: &str) -> bool {
    let strace = Command::new(STRACE)
        .args(["-qq", "-o", "/dev/null", "true"])
        .status();
    let works = strace.is_ok_and(|status| status.success());
    if !works {
        harness::skip(test, "strace may not trace here");
    }
    works
}

/// strace on the threads of a daemon.
pub(crate) struct Traced(Child);

impl Traced {
    /// Writes the system calls of all threads to a file.
    pub(crate) fn recorded(daemon: &DockerDaemon, trace: &Path) -> Self {
        let threads = threads(daemon);
        let all: Vec<u32> = threads.values().flatten().copied().collect();
        Self::attach(daemon, &all, trace, "trace=all")
    }

    /// Kills the daemon before it makes this system call.
    pub(crate) fn killing(daemon: &DockerDaemon, point: &Point) -> Self {
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
    pub(crate) fn end(mut self) {
        self.0.wait().unwrap();
    }
}

/// True if the daemon was killed.
pub(crate) fn is_killed(daemon: &DockerDaemon) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", daemon.id()));
    status.map_or(true, |text| text.contains("State:\tZ"))
}

/// True if the daemon was killed, or will be killed soon after an answer.
pub(crate) fn is_killed_soon(daemon: &DockerDaemon) -> bool {
    let started = Instant::now();
    while !is_killed(daemon) {
        if started.elapsed() > PATIENCE {
            return false;
        }
        sleep(Duration::from_millis(2));
    }
    true
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
const BACKGROUND: [&str; 2] = ["comparison", "upkeep"];

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

/// System calls that change nothing: waits, and calls for threads and memory. The state before one
/// of them is the state before the next other one, and their number varies.
const IDLE: [&str; 16] = [
    "brk",
    "clone3",
    "epoll_wait",
    "futex",
    "gettid",
    "madvise",
    "mmap",
    "mprotect",
    "munmap",
    "prctl",
    "restart_syscall",
    "rseq",
    "rt_sigprocmask",
    "sched_getaffinity",
    "sched_yield",
    "set_robust_list",
];

/// True if a system call changes nothing, and its number varies.
pub(crate) fn is_idle(name: &str) -> bool {
    IDLE.contains(&name)
}

/// A line of strace's output with `-f` and `-o`: the thread, the name of the system call, and the
/// whole call.
pub(crate) fn traced_call(line: &str) -> Option<(&str, &str, &str)> {
    let (thread, call) = line.split_once(' ')?;
    let (name, _) = call.trim_start().split_once('(')?;
    let is_part = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    name.bytes().all(is_part).then_some((thread, name, call))
}

/// System calls without an effect that survives the daemon: a kill before one of them is like a
/// kill before the next call. Waits for processes are not in this list.
const WITHOUT_EFFECT: [&str; 25] = [
    "accept4",
    "clock_nanosleep",
    "close",
    "connect",
    "epoll_ctl",
    "fcntl",
    "flock",
    "fstat",
    "fstatfs",
    "getdents64",
    "getpid",
    "getrandom",
    "getsockopt",
    "ioctl",
    "lseek",
    "memfd_create",
    "newfstatat",
    "pidfd_open",
    "pipe2",
    "read",
    "recvfrom",
    "socket",
    "stat",
    "statfs",
    "statx",
];

/// Set to walk every system call, which takes six times as long.
pub(crate) const ALL: &str = "IPAM_DELEGATED_ALL_KILL_POINTS";

/// The bytes that a thread writes to wake up another one. The number of these writes varies.
const WAKE: &str = r#", "\1\0\0\0\0\0\0\0", 8"#;

/// True if a kill before this system call is like a kill before the next one.
fn is_without_effect(name: &str, line: &str) -> bool {
    WITHOUT_EFFECT.contains(&name)
        || line.contains(WAKE)
        || name.starts_with("open") && !line.contains("O_CREAT")
}

/// The wait for a plugin's output. Its number depends on the pieces in which the output arrives.
const WAIT_FOR_OUTPUT: &str = "ppoll";

/// The points that several recordings have in common, as far as they are waits for output, and all
/// others.
pub(crate) fn recorded(recording: impl Fn() -> BTreeSet<Point>) -> BTreeSet<Point> {
    let recordings: Vec<BTreeSet<Point>> = (0..3).map(|_| recording()).collect();
    let is_sure = |point: &&Point| {
        point.name != WAIT_FOR_OUTPUT
            || recordings.iter().all(|recording| recording.contains(point))
    };
    recordings
        .iter()
        .flatten()
        .filter(is_sure)
        .cloned()
        .collect()
}

/// The points in a recorded trace of the daemon. Of each system call with an effect, the largest
/// number that one thread of a kind has executed.
///
/// The first system call of each thread is left out: the thread waits in it for a call, and it is
/// restarted when strace attaches.
pub(crate) fn points(daemon: &DockerDaemon, trace: &Path) -> BTreeSet<Point> {
    let kinds = threads(daemon);
    let text = fs::read_to_string(trace).unwrap();
    let mut times: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut points = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let all = std::env::var_os(ALL).is_some();
    for line in text.lines() {
        let Some((thread, name, call)) = traced_call(line) else {
            continue;
        };
        let id: u32 = thread.parse().unwrap();
        let Some((&threads, _)) = kinds.iter().find(|(_, ids)| ids.contains(&id)) else {
            continue;
        };
        let time = times.entry((thread, name)).or_default();
        *time += 1;
        if seen.insert(thread) {
            continue;
        }
        if !is_idle(name) && (all || !is_without_effect(name, call)) {
            points.insert(Point {
                threads,
                name: name.to_owned(),
                time: *time,
            });
        }
    }
    points
}
