//! Whether a process holds the lock of an attachment, and which.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::attached::Attached;

/// The lock of an attachment's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lock {
    /// Nobody holds it.
    Free,
    /// These processes hold it: a call, or what a call has started and left. None, if they
    /// can't be seen from here.
    Held(Vec<String>),
    /// It can't be asked for, for this reason.
    Unknown(String),
}

impl Lock {
    /// The lock of this attachment; one without a record has none.
    pub(crate) fn of(it: &Attached<'_>) -> Self {
        let Some(record) = it.record else {
            return Self::Free;
        };
        let file = &record.listed.file;
        match chain::tools::is_locked(file) {
            Ok(false) => Self::Free,
            Ok(true) => Self::Held(holders(file)),
            Err(error) => Self::Unknown(format!("{}: {error}", file.display())),
        }
    }

    /// True, false, or `None` if it is unknown.
    pub(crate) fn is_held(&self) -> Option<bool> {
        match self {
            Self::Free => Some(false),
            Self::Held(_) => Some(true),
            Self::Unknown(_) => None,
        }
    }

    /// The reason to leave the attachment alone; `None` if the lock is free.
    pub(crate) fn reason(&self) -> Option<String> {
        match self {
            Self::Free => None,
            Self::Held(holders) if holders.is_empty() => {
                Some("its lock is held by a process that can't be seen from here".to_owned())
            }
            Self::Held(holders) => Some(format!("its lock is held by {}", holders.join(", "))),
            Self::Unknown(reason) => Some(format!("whether its lock is held is unknown: {reason}")),
        }
    }
}

/// The processes that hold a lock on this file, for messages alone: `process 4711 (sleep)`.
fn holders(file: &Path) -> Vec<String> {
    let Ok(inode) = fs::symlink_metadata(file).map(|it| it.ino()) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|it| it.parse::<u32>().ok()) else {
            continue;
        };
        let infos = fs::read_dir(entry.path().join("fdinfo"));
        let mut infos = infos.into_iter().flatten().flatten();
        let holds = infos.any(|info| {
            let is_the_file = fs::read_link(entry.path().join("fd").join(info.file_name()))
                .is_ok_and(|it| it.file_name() == file.file_name());
            is_the_file && fs::read_to_string(info.path()).is_ok_and(|it| has_lock(&it, inode))
        });
        if holds {
            let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            found.push(format!("process {pid} ({})", name.trim()));
        }
    }
    found
}

/// True if the kernel says in `/proc/PID/fdinfo/FD` that the descriptor holds a lock on this
/// inode: `lock: 1: FLOCK  ADVISORY  WRITE 4711 00:2f:12345 0 EOF`.
fn has_lock(info: &str, inode: u64) -> bool {
    let mut locks = info.lines().filter(|line| line.starts_with("lock:"));
    let end = format!(":{inode}");
    locks.any(|line| line.contains("FLOCK") && line.split_whitespace().any(|it| it.ends_with(&end)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{FlockOperation, flock};

    #[test]
    fn the_holder_of_a_lock_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record");
        let file = fs::File::create(&path).unwrap();
        assert!(holders(&path).is_empty());
        flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
        let found = holders(&path);
        let own = format!("process {} (", std::process::id());
        assert!(found.len() == 1 && found[0].starts_with(&own), "{found:?}");
    }
}
