//! Lock of an endpoint: its file's. Every program that is executed for the endpoint inherits
//! it, so it is held as long as one is at work, even if the daemon was killed.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::thread::sleep;
use std::time::{Duration, Instant};

use chain::{Execution, LockHolder, lock_holders};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use state_files::StateFolder;

use crate::http::refusal::{Refusal, impossible};
use crate::network::plugin_list::PluginRunner;

/// The time for programs that an earlier call has left to end by themselves.
const PATIENCE: Duration = Duration::from_secs(2);

/// Time between two attempts.
const RETRY: Duration = Duration::from_millis(5);

/// The lock, held.
pub(crate) struct EndpointLock(File);

impl EndpointLock {
    /// Locks the endpoint of this file, which no other call of this process has locked. What
    /// a killed daemon has left is waited for.
    ///
    /// # Errors
    ///
    /// The file can't be opened, or a process holds on; it is named.
    pub(crate) fn acquire(folder: &StateFolder, name: &str) -> Result<Self, Refusal> {
        let failed = |error: io::Error| {
            let file = folder.path_of(name);
            impossible(format!("{}: {error}", file.display()))
        };
        let it = Self(folder.open_file(name, OFlags::RDWR).map_err(failed)?);
        if it.is_acquired_within(PATIENCE).map_err(failed)? {
            return Ok(it);
        }
        let holders = lock_holders(&it.0).map_err(failed)?;
        let holders: Vec<String> = holders.iter().map(LockHolder::to_string).collect();
        Err(impossible(format!(
            "an earlier call for this endpoint is still running (process {})",
            holders.join(", ")
        )))
    }

    /// The execution of programs for the endpoint.
    pub(crate) fn execution<'a>(&'a self, plugins: &'a PluginRunner) -> Execution<'a> {
        plugins.execution(Some(self.0.as_fd()))
    }

    fn is_acquired_within(&self, at_most: Duration) -> io::Result<bool> {
        let deadline = Instant::now() + at_most;
        loop {
            match flock(&self.0, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(true),
                Err(Errno::WOULDBLOCK) if Instant::now() < deadline => sleep(RETRY),
                Err(Errno::WOULDBLOCK) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Drop for EndpointLock {
    /// The call has waited for each program. What one has left behind, such as a daemon, does
    /// not keep the endpoint locked.
    fn drop(&mut self) {
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}
