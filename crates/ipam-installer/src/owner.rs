//! Which installer keeps the plugins of a folder: the one that has started last. Two of
//! different versions would otherwise undo each other's work without end.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use anyhow::{Context, Result};
use rustix::fs::renameat;
use serde::{Deserialize, Serialize};

use crate::folder::Folder;
use crate::work_folder::NAME;

/// The file in the work folder that names it.
pub(crate) const OWNER: &str = "owner.json";

/// An installer that stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    /// Random, so that no two are the same: in a container, every process is the first.
    instance: String,
    /// Version, commit and flavour that it keeps.
    pub(crate) version: String,
}

impl Owner {
    /// This process.
    pub(crate) fn this(version: &str) -> Result<Self> {
        let file = "/proc/sys/kernel/random/uuid";
        let instance = fs::read_to_string(file).context(file)?;
        Ok(Self {
            instance: instance.trim().to_owned(),
            version: version.to_owned(),
        })
    }

    /// The owner of a folder; `None` if there is none.
    ///
    /// # Errors
    ///
    /// The system's; a file that names none.
    pub(crate) fn of(folder: &Path) -> Result<Option<Self>> {
        let file = folder.join(NAME).join(OWNER);
        let shown = || format!("{}", file.display());
        match fs::read(&file) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            content => serde_json::from_slice(&content.with_context(shown)?).with_context(shown),
        }
    }

    /// True if it is the owner of a folder.
    pub(crate) fn has(&self, folder: &Path) -> Result<bool> {
        Ok(Self::of(folder)?.as_ref() == Some(self))
    }

    /// Makes it the owner of a folder.
    pub(crate) fn take(&self, folder: &Folder) -> io::Result<()> {
        let work = folder.work();
        work.remove("owner")?;
        work.write("owner", &serde_json::to_vec(self)?, 0o600)?;
        Ok(renameat(work.file(), "owner", work.file(), OWNER)?)
    }

    /// Leaves the folder to others, if it is the owner.
    ///
    /// # Errors
    ///
    /// The system's.
    pub(crate) fn leave(&self, path: &Path) -> Result<()> {
        if self.has(path)? {
            let folder = Folder::open(path)?;
            if self.has(path)? {
                folder.work().remove(OWNER)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_that_cannot_be_read_is_not_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        assert_eq!(Owner::of(path).unwrap(), None);
        let this = Owner::this("1.0.0").unwrap();
        this.take(&Folder::open(path).unwrap()).unwrap();
        assert!(this.has(path).unwrap());
        let file = path.join(NAME).join(OWNER);
        fs::write(&file, "{").unwrap();
        assert!(Owner::of(path).is_err());
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        assert!(this.has(path).is_err() && this.leave(path).is_err());
    }
}
