//! Where what is measured keeps its state: as in production, the data on a disk,
//! the cache in memory.

use std::env;
use std::path::PathBuf;

use anyhow::Result;
use tempfile::{Builder, TempDir};

use crate::build::Flavour;

/// On the disk that the build is on.
pub(crate) fn data_folder() -> Result<TempDir> {
    let parent = Flavour::Normal.target_dir();
    Ok(Builder::new().prefix("bench-data-").tempdir_in(parent)?)
}

/// In memory, if the machine has such a folder.
pub(crate) fn cache_folder() -> Result<TempDir> {
    let memory = PathBuf::from("/dev/shm");
    let parent = if memory.is_dir() {
        memory
    } else {
        env::temp_dir()
    };
    Ok(Builder::new().prefix("bench-cache-").tempdir_in(parent)?)
}
