//! Where what is measured keeps its state, and where it is installed.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
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

/// Copies an executable into this folder, as an installation does it; all that are
/// compared at the same moment. What the linker has left behind, and what has been in
/// the system's memory for long, is slower to start, by up to a fifth.
pub(crate) fn install(executable: &Path, folder: &Path) -> Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let installed = folder.join(executable.file_name().unwrap_or_default());
    fs::copy(executable, &installed)
        .with_context(|| format!("copying {}", executable.display()))?;
    Ok(installed)
}
