//! Lock of an endpoint: its file's. Every program that is executed for the endpoint inherits
//! it, so it is held as long as one is at work, even if the daemon was killed.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::thread::sleep;
use std::time::{Duration, Instant};

use chain::{Execution, terminate_left};
use cni::StateFolder;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use crate::plugin_list::PluginRunner;
use crate::refusal::{Refusal, impossible};

/// The time for programs that an earlier call has left to end by themselves.
const PATIENCE: Duration = Duration::from_secs(2);

/// The time for their termination.
const TERMINATION: Duration = Duration::from_secs(3);

/// Time between two attempts.
const RETRY: Duration = Duration::from_millis(5);

/// The lock, held.
pub(crate) struct EndpointLock {
    file: File,
    owner: String,
}

impl EndpointLock {
    /// Locks the endpoint of this file, which no other call of this process has locked. What
    /// an earlier call has left is waited for, and then terminated, except for daemons.
    ///
    /// # Errors
    ///
    /// The file can't be opened, or a process can't be terminated.
    pub(crate) fn acquire(folder: &StateFolder, name: &str) -> Result<Self, Refusal> {
        let failed = |error: io::Error| {
            let file = folder.path_of(name);
            impossible(format!("{}: {error}", file.display()))
        };
        let file = folder.open_file(name, OFlags::RDWR).map_err(failed)?;
        let owner = folder.path_of(name).display().to_string();
        let it = Self { file, owner };
        if it.is_acquired_within(PATIENCE).map_err(failed)? {
            return Ok(it);
        }
        let unterminated = terminate_left(&it.owner, TERMINATION);
        if !unterminated.is_empty() {
            let pids: Vec<String> = unterminated.iter().map(u32::to_string).collect();
            return Err(impossible(format!(
                "an earlier call for this endpoint is still running (process {})",
                pids.join(", ")
            )));
        }
        if !it.is_acquired_within(PATIENCE).map_err(failed)? {
            tracing::warn!(
                file = it.owner,
                "a daemon that a plugin has left holds the lock"
            );
        }
        Ok(it)
    }

    /// The execution of programs for the endpoint.
    pub(crate) fn execution<'a>(&'a self, plugins: &'a PluginRunner) -> Execution<'a> {
        plugins.execution(&self.owner, Some(self.file.as_fd()))
    }

    fn is_acquired_within(&self, at_most: Duration) -> io::Result<bool> {
        let deadline = Instant::now() + at_most;
        loop {
            match flock(&self.file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(true),
                Err(Errno::WOULDBLOCK) if Instant::now() < deadline => sleep(RETRY),
                Err(Errno::WOULDBLOCK) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
    }
}
