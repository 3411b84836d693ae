//! Runs calls through strace, and reads its output.

use std::collections::HashMap;
use std::path::Path;

use crate::Call;

/// strace.
pub const STRACE: &str = "/usr/bin/strace";

/// System calls that change nothing outside of the process, and waits: the state before one of them
/// is the state before the next other one.
const WITHOUT_EFFECT: [&str; 51] = [
    "accept4",
    "access",
    "brk",
    "clock_nanosleep",
    "clone3",
    "close",
    "connect",
    "epoll_ctl",
    "epoll_wait",
    "faccessat2",
    "fcntl",
    "flock",
    "fstat",
    "fstatfs",
    "futex",
    "getdents64",
    "geteuid",
    "getpid",
    "getrandom",
    "getsockopt",
    "gettid",
    "ioctl",
    "lseek",
    "madvise",
    "memfd_create",
    "mmap",
    "mprotect",
    "mremap",
    "munmap",
    "newfstatat",
    "pidfd_open",
    "pipe2",
    "poll",
    "prctl",
    "pread64",
    "read",
    "readlink",
    "readlinkat",
    "recvfrom",
    "restart_syscall",
    "rseq",
    "rt_sigaction",
    "rt_sigprocmask",
    "sched_getaffinity",
    "sched_yield",
    "set_robust_list",
    "sigaltstack",
    "socket",
    "stat",
    "statfs",
    "statx",
];

/// The bytes that a thread writes to wake up another one. The number of these writes varies.
const WAKE: &str = r#", "\1\0\0\0\0\0\0\0", 8"#;

impl Call {
    /// Runs it through strace, which writes its system calls to this file, with these further
    /// options.
    #[must_use]
    pub fn traced(self, trace: &Path, options: &[&str]) -> Self {
        let strace = [STRACE, "-qq", "-o", trace.to_str().unwrap()];
        self.through(&[&strace, options].concat())
    }

    /// Runs it through strace with this expression, such as `inject=linkat:error=EPERM`.
    #[must_use]
    pub fn injected(self, expression: &str) -> Self {
        self.traced(Path::new("/dev/null"), &["-e", expression])
    }
}

/// A system call in strace's output.
pub struct SystemCall<'a> {
    /// Its name, as strace prints it: `openat`.
    pub name: &'a str,
    /// The number of its execution in its thread: 1 for the first.
    pub time: usize,
    /// Its thread, in the output of several.
    pub thread: Option<u32>,
    /// The name, the arguments and the result.
    pub line: &'a str,
}

impl<'a> SystemCall<'a> {
    /// The system calls in strace's output.
    pub fn all(trace: &'a str) -> impl Iterator<Item = Self> {
        let mut times = HashMap::new();
        trace.lines().filter_map(move |line| {
            let (thread, line) = match line.split_once(' ') {
                Some((thread, line)) if thread.parse::<u32>().is_ok() => {
                    (thread.parse().ok(), line.trim_start())
                }
                _ => (None, line),
            };
            let (name, _) = line.split_once('(')?;
            let is_part = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
            name.bytes().all(is_part).then_some(())?;
            let time = times.entry((thread, name)).or_default();
            *time += 1;
            Some(Self {
                name,
                time: *time,
                thread,
                line,
            })
        })
    }

    /// True if a kill before it is like a kill before the next system call.
    pub fn is_without_effect(&self) -> bool {
        WITHOUT_EFFECT.contains(&self.name)
            || self.line.contains(WAKE)
            || self.name.starts_with("open") && !self.line.contains("O_CREAT")
    }
}
