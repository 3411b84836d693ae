//! Running a delegate's process: stdin in, stdout, stderr and status out.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{Errno, ioctl_fionread, retry_on_intr};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::Command;
use crate::log::OneLine;

/// What a delegate may print at most, in bytes; one that prints more is ended.
/// A result is some hundred, and a delegate that prints without end must not
/// take the node's memory.
pub(super) const MOST_OUTPUT: usize = 16 << 20;

/// How much of the end of a delegate's stderr is kept, in bytes.
const MOST_STDERR: usize = 4 << 10;

/// A process that has ended.
pub(super) struct Finished {
    pub(super) status: ExitStatus,
    pub(super) stdout: Vec<u8>,
    /// The end of what it wrote to stderr.
    pub(super) stderr: String,
}

/// Runs `executable` to its end.
pub(super) fn run(executable: &Path, command: Command, stdin: &[u8]) -> io::Result<Finished> {
    let mut child = spawn(executable, command, stdin)?;
    let output = collect(&mut child);
    if output.is_err() {
        // Nobody else knows of it: it must not outlive the call.
        let _ = child.kill();
    }
    let status = child.wait()?;
    let (stdout, stderr) = output?;
    Ok(Finished {
        status,
        stdout,
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
    })
}

fn spawn(executable: &Path, command: Command, stdin: &[u8]) -> io::Result<Child> {
    let mut process = std::process::Command::new(executable);
    process
        .env("CNI_COMMAND", command.as_str())
        .stdin(in_memory(stdin)?)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // An executable that is being replaced just now can be started a moment
    // later. libcni waits in the same way (pkg/invoke, RawExec).
    for _ in 0..50 {
        match process.spawn() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => {
                sleep(Duration::from_millis(100));
            }
            other => return other,
        }
    }
    process.spawn()
}

/// A file that holds `bytes` and has no name. A pipe holds 64 KiB and then
/// waits for its reader, which may be waiting for us; this holds any amount.
fn in_memory(bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create("cni-stdin", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}

/// Reads what the child prints until it has ended; not until its pipes are
/// closed, which a process that it leaves behind may never do.
fn collect(child: &mut Child) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let mut stdout = Stream(child.stdout.take());
    let mut stderr = Stream(child.stderr.take());
    let (mut said, mut complained) = (Vec::new(), Vec::new());
    let end = End::of(child)?;
    loop {
        let [stdout_ready, stderr_ready, ended] =
            wait_for([stdout.fd(), stderr.fd(), end.fd()], end.timeout())?;
        // Looked at before the pipes: what was printed before the end is read.
        let ended = ended || end.must_ask() && child.try_wait()?.is_some();
        if stdout_ready || ended {
            stdout.read_what_is_there(&mut said)?;
        }
        if stderr_ready || ended {
            let from = complained.len();
            stderr.read_what_is_there(&mut complained)?;
            pass_on(&complained[from..]);
            let excess = complained.len().saturating_sub(MOST_STDERR);
            complained.drain(..excess);
        }
        if ended {
            return Ok((said, complained));
        }
        if said.len() > MOST_OUTPUT {
            child.kill()?;
            return Ok((said, complained));
        }
    }
}

/// What a delegate complains of goes where our own complaints go.
fn pass_on(stderr: &[u8]) {
    if !stderr.is_empty() {
        // Where our stderr is closed there is nobody to tell.
        let _ = io::stderr().write_all(stderr);
        tracing::debug!(stderr = %OneLine(stderr), "the delegate writes to stderr");
    }
}

/// Our end of a pipe that the child writes to, until the other is closed.
struct Stream<R>(Option<R>);

impl<R: AsFd + Read> Stream<R> {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(AsFd::as_fd)
    }

    /// Reads what the pipe holds now, without waiting for more.
    fn read_what_is_there(&mut self, into: &mut Vec<u8>) -> io::Result<()> {
        if let Some(pipe) = &mut self.0 {
            let available = ioctl_fionread(&*pipe)?;
            pipe.take(available).read_to_end(into)?;
            if available == 0 {
                // Ready with nothing to read: closed, or the child has ended.
                self.0 = None;
            }
        }
        Ok(())
    }
}

/// How the end of a child is noticed.
enum End {
    /// The kernel says so.
    Told(OwnedFd),
    /// Linux before 5.3: we ask every now and then.
    Asked,
}

impl End {
    fn of(child: &Child) -> io::Result<Self> {
        match pidfd_open(Pid::from_child(child), PidfdFlags::empty()) {
            Ok(fd) => Ok(Self::Told(fd)),
            Err(Errno::NOSYS) => Ok(Self::Asked),
            Err(error) => Err(error.into()),
        }
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Told(fd) => Some(fd.as_fd()),
            Self::Asked => None,
        }
    }

    fn must_ask(&self) -> bool {
        matches!(self, Self::Asked)
    }

    fn timeout(&self) -> Option<Duration> {
        self.must_ask().then_some(Duration::from_millis(10))
    }
}

/// Waits until one of these is readable or closed, and says which.
fn wait_for<const N: usize>(
    fds: [Option<BorrowedFd<'_>>; N],
    timeout: Option<Duration>,
) -> io::Result<[bool; N]> {
    let timeout = timeout.map(|t| Timespec::try_from(t).expect("a short time"));
    let mut polled: Vec<PollFd<'_>> = fds
        .iter()
        .flatten()
        .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN))
        .collect();
    retry_on_intr(|| poll(&mut polled, timeout.as_ref()))?;
    let mut answers = polled.iter().map(|fd| !fd.revents().is_empty());
    Ok(fds.map(|fd| fd.is_some() && answers.next().unwrap_or_default()))
}
