//! Running a delegate's process: stdin in, stdout, stderr and status out.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::ioctl_fionread;

use super::Invocation;
use super::finished::{Complaints, Ended, Finished, MOST_OUTPUT};
use super::group::Group;
use crate::wait::wait_for;

/// Runs `executable` to its end, or to ours.
pub(super) fn run(executable: &Path, invocation: &Invocation<'_>) -> io::Result<Finished> {
    let mut child = spawn(executable, invocation)?;
    let group = Group::of(&child);
    let mut output = Output::of(&mut child);
    let ended = output.collect(&mut child, &group, invocation);
    if !matches!(ended, Ok(None)) {
        group.end(&mut child);
    }
    let ended = ended?;
    Ok(Finished {
        ended,
        status: child.wait()?,
        stdout: output.said,
        stderr: output.complaints.into_text(),
    })
}

fn spawn(executable: &Path, invocation: &Invocation<'_>) -> io::Result<Child> {
    let mut process = std::process::Command::new(executable);
    process
        .env("CNI_COMMAND", invocation.command.as_str())
        .stdin(in_memory(invocation.stdin)?)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // So that it can be ended with all that it has started.
        .process_group(0);
    for (name, value) in invocation.environment {
        process.env(name, value);
    }
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

/// What a child prints.
struct Output {
    stdout: Stream<std::process::ChildStdout>,
    stderr: Stream<std::process::ChildStderr>,
    said: Vec<u8>,
    complaints: Complaints,
}

impl Output {
    fn of(child: &mut Child) -> Self {
        Self {
            stdout: Stream(child.stdout.take()),
            stderr: Stream(child.stderr.take()),
            said: Vec::new(),
            complaints: Complaints::default(),
        }
    }

    /// Reads until the child has ended, or has to be ended; not until its pipes
    /// are closed, which a process that it leaves behind may never do.
    fn collect(
        &mut self,
        child: &mut Child,
        group: &Group,
        invocation: &Invocation<'_>,
    ) -> io::Result<Option<Ended>> {
        let interrupt = invocation.interrupt.and_then(|it| it.fd().ok());
        let deadline = invocation.timeout.map(|timeout| Instant::now() + timeout);
        loop {
            let left = deadline.map(|it| it.saturating_duration_since(Instant::now()));
            let [stdout_ready, stderr_ready, gone, interrupted] = wait_for(
                [self.stdout.fd(), self.stderr.fd(), group.fd(), interrupt],
                group.soonest(left),
            )?;
            // Looked at before the pipes: what was printed before the end is read.
            let gone = gone || group.must_ask() && child.try_wait()?.is_some();
            if stdout_ready || gone {
                self.stdout.read_what_is_there(&mut self.said)?;
            }
            if stderr_ready || gone {
                let mut more = Vec::new();
                self.stderr.read_what_is_there(&mut more)?;
                // Where our stderr is closed there is nobody to tell.
                let _ = io::stderr().write_all(&more);
                self.complaints.add(&more);
            }
            if self.said.len() > MOST_OUTPUT {
                return Ok(Some(Ended::PrintedTooMuch));
            }
            if gone {
                return Ok(None);
            }
            if interrupted {
                return Ok(Some(Ended::Interrupted));
            }
            if let Some(limit) = invocation.timeout.filter(|_| left == Some(Duration::ZERO)) {
                return Ok(Some(Ended::TimedOut(limit)));
            }
        }
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
            into.reserve(available.try_into().unwrap_or_default());
            pipe.take(available).read_to_end(into)?;
            if available == 0 {
                // Ready with nothing to read: closed, or the child has ended.
                self.0 = None;
            }
        }
        Ok(())
    }
}
