//! Where what is measured keeps its state.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::Result;
use tempfile::{Builder, TempDir};

/// In memory, if the machine has such a folder.
pub(crate) fn in_memory() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    if memory.is_dir() {
        memory
    } else {
        env::temp_dir()
    }
}

/// A new one in there.
pub(crate) fn folder_in(parent: &Path) -> Result<TempDir> {
    Ok(Builder::new().prefix("ipam-bench-").tempdir_in(parent)?)
}
