//! Which installer keeps the plugins of a folder: the one that has started last. Two of
//! different versions would otherwise undo each other's work without end.

use std::fs;
use std::io;
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

    /// The owner of a folder; `None` if there is none, or it can't be read.
    pub(crate) fn of(folder: &Path) -> Option<Self> {
        let content = fs::read(folder.join(NAME).join(OWNER)).ok()?;
        serde_json::from_slice(&content).ok()
    }

    /// Makes it the owner of a folder.
    pub(crate) fn take(&self, folder: &Folder) -> io::Result<()> {
        let work = folder.work();
        work.remove("owner")?;
        work.write("owner", &serde_json::to_vec(self)?, 0o600)?;
        Ok(renameat(work.file(), "owner", work.file(), OWNER)?)
    }

    /// Leaves the folder to others, if it is the owner.
    pub(crate) fn leave(&self, path: &Path) {
        if Self::of(path).as_ref() != Some(self) {
            return;
        }
        let folder = Folder::open(path);
        if Self::of(path).as_ref() == Some(self)
            && let Ok(folder) = folder
        {
            let _ = folder.work().remove(OWNER);
        }
    }
}
