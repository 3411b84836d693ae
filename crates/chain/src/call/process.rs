//! Runs a delegate's process: stdin in; stdout, stderr and exit status out.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout};
use std::time::{Duration, Instant};

use cni::{Cancellation, Environment};
use rustix::io::ioctl_fionread;
use state_files::wait_for;

use crate::call::outcome::{MOST_OUTPUT, Reason};
use crate::call::output::{Output, StderrTail, Terminated};
use crate::call::process_group::ProcessGroup;
use crate::call::spawn::spawn;
use crate::leftover_processes::Left;
use crate::overtime::Overtime;

/// A run of a delegate's process.
pub(crate) struct Run<'a> {
    pub(crate) executable: &'a Path,
    /// Its arguments; plugins have none.
    pub(crate) arguments: &'a [&'a str],
    /// All of its environment.
    pub(crate) environment: &'a Environment,
    pub(crate) stdin: &'a [u8],
    /// The longest that it may take.
    pub(crate) timeout: Option<Duration>,
    pub(crate) cancellation: Option<&'a dyn Cancellation>,
    /// The time for its termination.
    pub(crate) overtime: &'a Overtime,
    /// Descriptors that it inherits.
    pub(crate) inherited: [Option<BorrowedFd<'a>>; 2],
}

impl Run<'_> {
    /// Runs the process to its end, or terminates it. `on_stderr` receives its stderr while
    /// it runs. The error is that the process could not be started.
    ///
    /// A process that it leaves behind isn't waited for, even if it still holds the pipes.
    pub(crate) fn to_its_end(&self, on_stderr: &mut dyn FnMut(&[u8])) -> io::Result<Output> {
        let deadline = self.timeout.map(|timeout| Instant::now() + timeout);
        let mut child = spawn(
            self.executable,
            self.arguments,
            self.environment,
            self.stdin,
            self.inherited,
            deadline,
        )?;
        let group = ProcessGroup::of(&child);
        let mut pipes = Pipes::of(&mut child, on_stderr);
        let reason = match self.wait(&mut child, &group, &mut pipes, deadline) {
            Ok(reason) => reason,
            Err(error) => Some(Reason::Lost(error)),
        };
        let terminated = reason.map(|reason| {
            let left = self.terminate(&mut child, &group);
            // Reads output that the process wrote before its termination.
            let _ = pipes.read(true, true);
            Terminated { reason, left }
        });
        Ok(Output {
            terminated,
            // Reaped already, or not to be waited for.
            status: child.try_wait().unwrap_or_default(),
            stdout: pipes.output,
            stderr: pipes.tail.into_text(),
        })
    }

    /// Terminates the group; returns the leader if it doesn't end.
    fn terminate(&self, child: &mut Child, group: &ProcessGroup) -> Left {
        if self.overtime.spend(|most| group.terminate(child, most)) {
            Left::Nothing
        } else {
            Left::Running(vec![child.id()])
        }
    }

    /// Reads the pipes until the child has ended, or until there is a reason to
    /// terminate it.
    fn wait(
        &self,
        child: &mut Child,
        group: &ProcessGroup,
        pipes: &mut Pipes<'_>,
        deadline: Option<Instant>,
    ) -> io::Result<Option<Reason>> {
        let cancellation = self
            .cancellation
            .and_then(|cancellation| cancellation.fd().ok());
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let [stdout, stderr, ended, cancelled] = wait_for(
                [
                    pipes.stdout.fd(),
                    pipes.stderr.fd(),
                    group.fd(),
                    cancellation,
                ],
                group.longest_wait(left),
            )?;
            // Asked before the pipes are read: they hold everything that was printed.
            let ended = ended || group.must_poll() && child.try_wait()?.is_some();
            pipes.read(stdout || ended, stderr || ended)?;
            if pipes.output.len() > MOST_OUTPUT {
                return Ok(Some(Reason::PrintedTooMuch));
            }
            if ended {
                child.wait()?;
                return Ok(None);
            }
            if cancelled {
                return Ok(Some(Reason::Cancelled));
            }
            if let Some(limit) = self.timeout.filter(|_| left == Some(Duration::ZERO)) {
                return Ok(Some(Reason::TimedOut(limit)));
            }
        }
    }
}

/// The pipes of a child, and what was read from them.
struct Pipes<'a> {
    stdout: Pipe<ChildStdout>,
    stderr: Pipe<ChildStderr>,
    output: Vec<u8>,
    tail: StderrTail,
    on_stderr: &'a mut dyn FnMut(&[u8]),
}

impl<'a> Pipes<'a> {
    fn of(child: &mut Child, on_stderr: &'a mut dyn FnMut(&[u8])) -> Self {
        Self {
            stdout: Pipe(child.stdout.take()),
            stderr: Pipe(child.stderr.take()),
            output: Vec::new(),
            tail: StderrTail::default(),
            on_stderr,
        }
    }

    fn read(&mut self, stdout: bool, stderr: bool) -> io::Result<()> {
        if stdout {
            self.stdout.read_available(&mut self.output)?;
        }
        if stderr {
            let mut more = Vec::new();
            self.stderr.read_available(&mut more)?;
            if !more.is_empty() {
                (self.on_stderr)(&more);
                self.tail.add(&more);
            }
        }
        Ok(())
    }
}

/// The reading end of a pipe, until the other end is closed.
struct Pipe<R>(Option<R>);

impl<R: AsFd + Read> Pipe<R> {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(AsFd::as_fd)
    }

    /// Reads what the pipe holds, without waiting for more.
    fn read_available(&mut self, into: &mut Vec<u8>) -> io::Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    /// Runs a shell script; returns its output, and the number of bytes of its stderr.
    fn run(script: &str, timeout: Duration) -> (Output, usize) {
        let environment = Environment::default().with("PATH", "/usr/bin:/bin");
        let run = Run {
            executable: Path::new("/bin/sh"),
            arguments: &["-c", script],
            environment: &environment,
            stdin: b"",
            timeout: Some(timeout),
            cancellation: None,
            overtime: &Overtime::new(false),
            inherited: [None; 2],
        };
        let mut stderr = 0;
        let output = run.to_its_end(&mut |bytes| stderr += bytes.len());
        (output.unwrap(), stderr)
    }

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn a_process_past_its_time_is_terminated() {
        let (output, _) = run("exec sleep 60", Duration::from_millis(10));
        let Some(Terminated { reason, left }) = output.terminated else {
            panic!("it is not terminated");
        };
        assert!(matches!(reason, Reason::TimedOut(_)), "{reason:?}");
        assert_eq!(left, Left::Nothing);
        assert!(output.status.unwrap().signal().is_some());
    }

    #[test]
    fn a_process_may_print_no_more_than_the_most() {
        for (bytes, is_terminated) in [(MOST_OUTPUT, false), (MOST_OUTPUT + 1, true)] {
            let (output, _) = run(&format!("head -c {bytes} /dev/zero"), MINUTE);
            assert_eq!(output.terminated.is_some(), is_terminated, "{bytes}");
        }
    }

    #[test]
    fn stderr_is_read_while_the_process_runs() {
        // More than a pipe holds.
        let (output, stderr) = run("head -c 1000000 /dev/zero >&2", MINUTE);
        assert!(output.terminated.is_none());
        assert_eq!(stderr, 1_000_000);
    }
}
