//! Runs a delegate's process: stdin in; stdout, stderr and exit status out.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cni::{Cancellation, Environment};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{FdFlags, fcntl_setfd, ioctl_fionread};
use state_files::wait_for;

use crate::call::outcome::{MOST_OUTPUT, Reason, Terminated};
use crate::call::output::{ProcessOutput, StderrTail};
use crate::call::process_group::ProcessGroup;

/// Longest time of the attempts to start an executable that is being replaced. libcni
/// waits as long (`pkg/invoke`, `RawExec`).
const BUSY: Duration = Duration::from_secs(5);

/// Held while a lock is inheritable, so that a delegate of another chain in this process
/// doesn't inherit it.
static INHERITING: Mutex<()> = Mutex::new(());

/// A lock that a process inherits and may hold on after this process has ended.
pub(crate) trait InheritedLock {
    /// The locked file; `None` if it isn't locked.
    fn fd(&self) -> Option<BorrowedFd<'_>>;

    /// From now on, the lock is left to the processes that have inherited it: one was killed, and
    /// what it has started may still be at work.
    fn leave_to_heirs(&self);
}

/// A run of a delegate's process.
pub(crate) struct ProcessRun<'a> {
    pub(crate) executable: &'a Path,
    /// Its arguments; plugins have none.
    pub(crate) arguments: &'a [&'a str],
    /// All of its environment.
    pub(crate) environment: &'a Environment,
    pub(crate) stdin: &'a [u8],
    /// The longest that it may take.
    pub(crate) timeout: Option<Duration>,
    pub(crate) cancellation: Option<&'a dyn Cancellation>,
    /// The lock that it inherits.
    pub(crate) lock: Option<&'a dyn InheritedLock>,
}

impl ProcessRun<'_> {
    /// Runs the process to its end, or terminates it. `on_stderr` receives its stderr while
    /// it runs. The error is that the process could not be started.
    ///
    /// A process that it leaves behind isn't waited for, even if it still holds the pipes.
    pub(crate) fn to_its_end(&self, on_stderr: &mut dyn FnMut(&[u8])) -> io::Result<ProcessOutput> {
        let deadline = self.timeout.map(|timeout| Instant::now() + timeout);
        let mut child = self.spawn(deadline)?;
        let output = match ProcessGroup::of(&mut child) {
            Ok(group) => self.follow(child, &group, deadline, on_stderr),
            // It was started and killed, and may have done its work.
            Err(error) => ProcessOutput {
                terminated: Some(Terminated {
                    reason: Reason::Lost(error),
                    still_running: None,
                }),
                ..ProcessOutput::default()
            },
        };
        if output.is_of_killed()
            && let Some(lock) = self.lock
        {
            lock.leave_to_heirs();
        }
        Ok(output)
    }

    /// Reads the process's output until it has ended, or terminates it.
    fn follow(
        &self,
        mut child: Child,
        group: &ProcessGroup,
        deadline: Option<Instant>,
        on_stderr: &mut dyn FnMut(&[u8]),
    ) -> ProcessOutput {
        let mut pipes = Pipes {
            stdout: child.stdout.take().map(OwnedFd::from).map(File::from),
            stderr: child.stderr.take().map(OwnedFd::from).map(File::from),
            output: Vec::new(),
            tail: StderrTail::default(),
            on_stderr,
        };
        let reason = match self.wait(&mut child, group, &mut pipes, deadline) {
            Ok(reason) => reason,
            Err(error) => Some(Reason::Lost(error)),
        };
        let terminated = reason.map(|reason| {
            let has_ended = group.terminate(&mut child);
            // Reads output that the process wrote before its termination.
            let _ = pipes.read(true, true);
            let still_running = (!has_ended).then(|| child.id());
            Terminated {
                reason,
                still_running,
            }
        });
        ProcessOutput {
            terminated,
            // Reaped already, or not to be waited for.
            status: child.try_wait().unwrap_or_default(),
            stdout: pipes.output,
            stderr: pipes.tail.into_text(),
        }
    }

    /// Starts the process with exactly this environment, as the leader of a process group.
    fn spawn(&self, deadline: Option<Instant>) -> io::Result<Child> {
        let mut process = Command::new(self.executable);
        process
            .args(self.arguments)
            .env_clear()
            .envs(self.environment.iter())
            .stdin(in_memory(self.stdin)?)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // So that it can be terminated with every process that it starts.
            .process_group(0);
        let lock = self.lock.and_then(InheritedLock::fd);
        let busy_until = Instant::now() + BUSY;
        let until = deadline.map_or(busy_until, |deadline| deadline.min(busy_until));
        loop {
            match spawn_inheriting(&mut process, lock) {
                Err(error)
                    if error.kind() == io::ErrorKind::ExecutableFileBusy
                        && Instant::now() < until =>
                {
                    sleep(Duration::from_millis(100).min(until - Instant::now()));
                }
                other => return other,
            }
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
                    pipes.stdout.as_ref().map(AsFd::as_fd),
                    pipes.stderr.as_ref().map(AsFd::as_fd),
                    Some(group.fd()),
                    cancellation,
                ],
                left,
            )?;
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

fn spawn_inheriting(process: &mut Command, lock: Option<BorrowedFd<'_>>) -> io::Result<Child> {
    let _held = INHERITING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(fd) = lock {
        fcntl_setfd(fd, FdFlags::empty())?;
    }
    let child = process.spawn();
    if let Some(fd) = lock {
        // If it stays inheritable, a later delegate inherits it, too.
        let _ = fcntl_setfd(fd, FdFlags::CLOEXEC);
    }
    child
}

/// A file that holds `bytes` and has no name. A pipe holds 64 KiB and then waits for its
/// reader, which may wait for us; a file holds any amount.
fn in_memory(bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create("cni-stdin", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}

/// The pipes of a child, and what was read from them.
struct Pipes<'a> {
    /// The reading end, until the other end is closed.
    stdout: Option<File>,
    /// The reading end, until the other end is closed.
    stderr: Option<File>,
    output: Vec<u8>,
    tail: StderrTail,
    on_stderr: &'a mut dyn FnMut(&[u8]),
}

impl Pipes<'_> {
    fn read(&mut self, stdout: bool, stderr: bool) -> io::Result<()> {
        if stdout {
            read_available(&mut self.stdout, &mut self.output)?;
        }
        if stderr {
            let mut more = Vec::new();
            read_available(&mut self.stderr, &mut more)?;
            if !more.is_empty() {
                (self.on_stderr)(&more);
                self.tail.add(&more);
            }
        }
        Ok(())
    }
}

/// Reads what a pipe holds, without waiting for more.
fn read_available(pipe: &mut Option<File>, into: &mut Vec<u8>) -> io::Result<()> {
    if let Some(reader) = pipe {
        let available = ioctl_fionread(&*reader)?;
        into.reserve(available.try_into().unwrap_or_default());
        reader.take(available).read_to_end(into)?;
        if available == 0 {
            // Ready with nothing to read: closed, or the child has ended.
            *pipe = None;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::ExitStatusExt;
    use std::thread;

    /// Runs a shell script; returns its output, and the number of bytes of its stderr.
    fn run(script: &str, timeout: Duration) -> (ProcessOutput, usize) {
        let environment = Environment::default().with("PATH", "/usr/bin:/bin");
        let run = ProcessRun {
            executable: Path::new("/bin/sh"),
            arguments: &["-c", script],
            environment: &environment,
            stdin: b"",
            timeout: Some(timeout),
            cancellation: None,
            lock: None,
        };
        let mut stderr = 0;
        let output = run.to_its_end(&mut |bytes| stderr += bytes.len());
        (output.unwrap(), stderr)
    }

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn a_process_past_its_time_is_terminated() {
        let (output, _) = run("exec sleep 60", Duration::from_millis(10));
        let Some(terminated) = output.terminated else {
            panic!("it is not terminated");
        };
        assert!(matches!(terminated.reason, Reason::TimedOut(_)));
        assert_eq!(terminated.still_running, None);
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

    #[test]
    fn an_executable_that_is_being_written_is_tried_again_and_a_missing_one_is_not() {
        let start = |executable: &Path| {
            let run = ProcessRun {
                executable,
                arguments: &[],
                environment: &Environment::default(),
                stdin: b"",
                timeout: None,
                cancellation: None,
                lock: None,
            };
            run.to_its_end(&mut |_| {})
        };
        let folder = tempfile::tempdir().unwrap();
        let executable = folder.path().join("plugin");
        fs::write(&executable, "#!/bin/sh\nexit 3\n").unwrap();
        fs::set_permissions(&executable, fs::Permissions::from_mode(0o755)).unwrap();
        let writer = File::options().append(true).open(&executable).unwrap();
        thread::scope(|scope| {
            scope.spawn(move || {
                sleep(Duration::from_millis(200));
                drop(writer);
            });
            let output = start(&executable).unwrap();
            assert_eq!(output.status.unwrap().code(), Some(3));
        });
        let missing = start(&folder.path().join("missing"));
        let error = missing.map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
