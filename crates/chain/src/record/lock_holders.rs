//! Names the processes that hold a file's lock, for a message. Nothing is decided by it.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// A process that holds a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockHolder {
    /// Its PID, in the PID namespace of `/proc`.
    pub pid: u32,
    /// Its name, as the kernel has it from the executable: at most 15 bytes.
    pub command: String,
}

impl fmt::Display for LockHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.pid, self.command)
    }
}

/// The processes that hold the `flock(2)` lock of an open file, as far as `/proc` shows
/// them: not those of another user, nor of another PID namespace.
///
/// Links and small files of `/proc` are read, which waits for no file system and for no
/// process.
///
/// # Errors
///
/// An I/O error: `/proc` can't be listed.
pub fn lock_holders(file: &File) -> io::Result<Vec<LockHolder>> {
    let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    let mut holders = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let process = entry?.path();
        let Some(pid) = process
            .file_name()
            .and_then(|name| name.to_str()?.parse().ok())
        else {
            continue;
        };
        if holds(&process, &path) {
            let command = fs::read(process.join("comm")).unwrap_or_default();
            holders.push(LockHolder {
                pid,
                command: String::from_utf8_lossy(&command).trim_end().to_owned(),
            });
        }
    }
    Ok(holders)
}

/// True if a process has the file open, by a descriptor that has its lock.
fn holds(process: &Path, path: &PathBuf) -> bool {
    let descriptors = fs::read_dir(process.join("fd")).into_iter().flatten();
    descriptors.flatten().any(|descriptor| {
        fs::read_link(descriptor.path()).is_ok_and(|link| link == *path)
            && fs::read_to_string(process.join("fdinfo").join(descriptor.file_name()))
                .is_ok_and(|info| info.contains("FLOCK"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{FlockOperation, flock};

    #[test]
    fn who_holds_the_lock_is_named_and_who_only_has_the_file_open_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let file = File::create(&path).unwrap();
        let other = File::open(&path).unwrap();
        assert_eq!(lock_holders(&file).unwrap(), []);
        flock(&other, FlockOperation::LockExclusive).unwrap();
        let holders = lock_holders(&file).unwrap();
        let pids: Vec<u32> = holders.iter().map(|holder| holder.pid).collect();
        assert_eq!(pids, [std::process::id()]);
        assert!(!holders[0].command.is_empty());
    }
}
