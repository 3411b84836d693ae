//! Folders for the state of contenders, in memory or on a disk.

use std::env;
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::Result;
use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
use tempfile::{Builder, TempDir};

/// A folder in memory, if the machine has one; otherwise the temporary folder.
pub(crate) fn in_memory() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    if memory.is_dir() {
        memory
    } else {
        env::temp_dir()
    }
}

/// A new folder in `parent`.
pub(crate) fn folder_in(parent: &Path) -> Result<TempDir> {
    Ok(Builder::new().prefix("ipam-bench-").tempdir_in(parent)?)
}

/// A new folder in `parent`, whose subfolders ext4 places in different block groups.
///
/// ext4 creates a file in its folder's block group, and doesn't reuse an inode for minutes after
/// it was freed, so each new file costs a search past the freed inodes. In one block group,
/// contenders would pay for each other's files, and for those of earlier runs.
pub(crate) fn spreading_folder_in(parent: &Path) -> Result<TempDir> {
    let folder = folder_in(parent)?;
    let opened = File::open(folder.path())?;
    // Other file systems don't have this flag, or such block groups.
    if let Ok(flags) = ioctl_getflags(&opened) {
        let _ = ioctl_setflags(&opened, flags | IFlags::TOPDIR);
    }
    Ok(folder)
}
