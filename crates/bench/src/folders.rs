//! Folders for the state of contenders.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::Result;
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
