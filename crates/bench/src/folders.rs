//! Folders for the state of what is measured, in memory or on a disk.

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

/// A new folder in `parent` whose subfolders lie apart from each other on the disk.
///
/// ext4 makes a file in its folder's block group, and doesn't give an inode out again for
/// minutes after it was freed: each new file costs a search past all of them. Without
/// this, contenders would pay for each other's files, and for those of earlier runs.
pub(crate) fn spreading_folder_in(parent: &Path) -> Result<TempDir> {
    let folder = folder_in(parent)?;
    let opened = File::open(folder.path())?;
    // Other file systems know no such flag, and have no such groups.
    if let Ok(flags) = ioctl_getflags(&opened) {
        let _ = ioctl_setflags(&opened, flags | IFlags::TOPDIR);
    }
    Ok(folder)
}
