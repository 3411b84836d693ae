//! Starts a delegate's process, which inherits the attachment's lock.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cni::Environment;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::pipe::{PipeFlags, pipe_with};

/// Longest time of the attempts to start an executable that is being replaced. libcni
/// waits as long (`pkg/invoke`, `RawExec`).
const BUSY: Duration = Duration::from_secs(5);

/// Held while descriptors are inheritable, so that a delegate of another chain in this
/// process doesn't inherit them.
static INHERITING: Mutex<()> = Mutex::new(());

/// A pipe that no one writes to. Every process that a chain starts inherits its writing
/// end, so it is closed when all of them have ended.
pub(crate) struct Lifeline {
    reader: PipeReader,
    writer: PipeWriter,
}

impl Lifeline {
    pub(crate) fn new() -> io::Result<Self> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        Ok(Self {
            reader: reader.into(),
            writer: writer.into(),
        })
    }

    /// True unless all processes that have inherited it end within this time. No more can
    /// inherit it.
    pub(crate) fn has_holder(self, at_most: Duration) -> bool {
        drop(self.writer);
        !state_files::wait_readable(&self.reader, at_most).unwrap_or(false)
    }
}

/// Starts `executable` with exactly this environment, as the leader of a process group.
pub(crate) fn spawn(
    executable: &Path,
    arguments: &[&str],
    environment: &Environment,
    stdin: &[u8],
    inherited: [Option<BorrowedFd<'_>>; 2],
    deadline: Option<Instant>,
) -> io::Result<Child> {
    let mut process = Command::new(executable);
    process
        .args(arguments)
        .env_clear()
        .envs(environment.iter())
        .stdin(in_memory(stdin)?)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // So that it can be terminated with every process that it starts.
        .process_group(0);
    let busy_until = Instant::now() + BUSY;
    let until = deadline.map_or(busy_until, |deadline| deadline.min(busy_until));
    loop {
        match spawn_inheriting(&mut process, inherited) {
            Err(error)
                if error.kind() == io::ErrorKind::ExecutableFileBusy && Instant::now() < until =>
            {
                sleep(Duration::from_millis(100).min(until - Instant::now()));
            }
            other => return other,
        }
    }
}

fn spawn_inheriting(
    process: &mut Command,
    inherited: [Option<BorrowedFd<'_>>; 2],
) -> io::Result<Child> {
    let _held = INHERITING.lock().unwrap_or_else(PoisonError::into_inner);
    for fd in inherited.into_iter().flatten() {
        fcntl_setfd(fd, FdFlags::empty())?;
    }
    let child = process.spawn();
    for fd in inherited.into_iter().flatten() {
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

impl AsFd for Lifeline {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.writer.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::thread;

    fn start(executable: &Path) -> io::Result<Child> {
        spawn(
            executable,
            &[],
            &Environment::default(),
            b"",
            [None; 2],
            None,
        )
    }

    #[test]
    fn a_lifeline_has_a_holder_until_every_copy_of_it_is_closed() {
        let lifeline = Lifeline::new().unwrap();
        let copy = lifeline.as_fd().try_clone_to_owned().unwrap();
        assert!(lifeline.has_holder(Duration::from_millis(1)));
        drop(copy);
        let lifeline = Lifeline::new().unwrap();
        drop(lifeline.as_fd().try_clone_to_owned().unwrap());
        // Another test's child may hold it until it is executed.
        assert!(!lifeline.has_holder(Duration::from_secs(60)));
    }

    #[test]
    fn an_executable_that_is_being_written_is_tried_again_and_a_missing_one_is_not() {
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
            let mut child = start(&executable).unwrap();
            assert_eq!(child.wait().unwrap().code(), Some(3));
        });
        let started = Instant::now();
        let error = start(&folder.path().join("missing")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(started.elapsed() < BUSY);
    }
}
