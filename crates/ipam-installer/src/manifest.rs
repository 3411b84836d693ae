//! The manifest: a hidden file in each target folder, by which an installer recognises its own
//! files.
//!
//! In the plugins' folder, it names the installer that keeps the plugins; in the others, the
//! installed files.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::folder::Folder;

/// Name of the manifest. Runtimes and `ipam-ds-rules` ignore it.
pub(crate) const MANIFEST: &str = ".ipam-installer.manifest";

/// Reads a folder's manifest; `None` if it has none.
///
/// # Errors
///
/// An I/O error, or an invalid manifest.
pub(crate) fn read<T: DeserializeOwned>(folder: &Path) -> Result<Option<T>> {
    let file = folder.join(MANIFEST);
    let shown = || file.display().to_string();
    match fs::read(&file) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        content => serde_json::from_slice(&content.with_context(shown)?).with_context(shown),
    }
}

/// Writes a folder's manifest, atomically.
///
/// # Errors
///
/// An I/O error.
pub(crate) fn write(folder: &Folder, value: &impl Serialize) -> io::Result<()> {
    folder.replace(MANIFEST, &serde_json::to_vec(value)?, 0o600)
}

/// The files that were installed into a folder.
///
/// # Errors
///
/// As [`read`].
pub(crate) fn installed_files(folder: &Path) -> Result<Vec<String>> {
    Ok(read(folder)?.unwrap_or_default())
}

/// The installer that keeps the plugins of a node: the one that was started last. Otherwise, two
/// installers of different versions would replace each other's files endlessly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    /// A random number, because in a container every installer has the same process ID.
    instance: String,
    /// The version, commit and flavour of its plugins.
    pub(crate) version: String,
}

impl Owner {
    /// This process.
    ///
    /// # Errors
    ///
    /// The kernel has no random numbers.
    pub(crate) fn this(version: &str) -> Result<Self> {
        let file = "/proc/sys/kernel/random/uuid";
        let instance = fs::read_to_string(file).context(file)?;
        Ok(Self {
            instance: instance.trim().to_owned(),
            version: version.to_owned(),
        })
    }

    /// True if this installer keeps the plugins of a folder.
    ///
    /// # Errors
    ///
    /// As [`read`].
    pub(crate) fn has(&self, folder: &Path) -> Result<bool> {
        Ok(read::<Self>(folder)?.as_ref() == Some(self))
    }

    /// Gives up a folder, if this installer keeps the plugins there.
    ///
    /// # Errors
    ///
    /// An I/O error, or an invalid manifest.
    pub(crate) fn leave(&self, path: &Path) -> Result<()> {
        if self.has(path)? {
            let folder = Folder::open(path)?;
            if self.has(path)? {
                folder.remove(MANIFEST)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_that_cannot_be_read_is_not_a_missing_one() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path();
        assert!(installed_files(path).unwrap().is_empty());
        let this = Owner::this("1.0.0").unwrap();
        write(&Folder::open(path).unwrap(), &this).unwrap();
        assert!(this.has(path).unwrap());
        let file = path.join(MANIFEST);
        fs::write(&file, "{").unwrap();
        assert!(this.has(path).is_err());
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        assert!(this.has(path).is_err() && this.leave(path).is_err());
    }
}
