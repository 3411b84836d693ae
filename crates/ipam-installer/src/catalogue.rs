//! Replaces the catalogue of pools atomically. The catalogue is a folder.
//!
//! A rule in one file may name a pool of another. So the new files must appear all at once: the
//! folder is exchanged with a new one.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{AtFlags, RenameFlags, renameat_with, unlinkat};
use rustix::io::Errno;
use state_files::names_in;

use crate::config_map::{Files, read_all};
use crate::folder::{Folder, NEW, explained, write_new};
use crate::manifest::{self, MANIFEST};

/// A new catalogue beside the one in use.
#[derive(Debug)]
pub(crate) struct Staged<'a> {
    parent: &'a Folder,
    target: &'a Path,
}

/// True if the folder contains exactly these files.
///
/// # Errors
///
/// An I/O error.
pub(crate) fn is_in_place(target: &Path, files: &Files) -> Result<bool> {
    if !is_installed(target)? {
        return Ok(false);
    }
    let names = names_in(target).with_context(|| target.display().to_string())?;
    // The manifest is in the folder as well. An unreadable file is installed again.
    Ok(names.len() == files.len() + 1 && read_all(target).is_ok_and(|found| found == *files))
}

/// True if the folder has a catalogue from the installer.
///
/// # Errors
///
/// An I/O error.
pub(crate) fn is_installed(target: &Path) -> Result<bool> {
    let manifest = target.join(MANIFEST);
    manifest
        .try_exists()
        .with_context(|| manifest.display().to_string())
}

impl<'a> Staged<'a> {
    /// Writes the files to a new folder beside `target`, which is in `parent`.
    ///
    /// # Errors
    ///
    /// The folder has files that were not installed; an I/O error.
    pub(crate) fn write(parent: &'a Folder, target: &'a Path, files: &Files) -> Result<Self> {
        refuse_foreign(target)?;
        let staged = Self { parent, target };
        let path = staged.path();
        let write = || -> std::io::Result<()> {
            parent.remove(NEW)?;
            DirBuilder::new().mode(0o755).create(&path)?;
            let folder = File::open(&path)?;
            rustix::fs::fchmod(&folder, rustix::fs::Mode::from_raw_mode(0o755))?;
            for (name, content) in files {
                write_new(&folder, name, content, 0o644)?;
            }
            let names: Vec<&String> = files.keys().collect();
            write_new(&folder, MANIFEST, &serde_json::to_vec(&names)?, 0o644)?;
            folder.sync_all()
        };
        write()
            .map_err(|error| explained(parent.file(), error))
            .inspect_err(|_| drop(parent.remove(NEW)))
            .with_context(|| format!("{}: the catalogue stays as it was", target.display()))?;
        Ok(staged)
    }

    /// The folder of the new catalogue.
    pub(crate) fn path(&self) -> PathBuf {
        self.parent.path_of(NEW)
    }

    /// Puts the files into place, atomically.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(crate) fn put(self) -> Result<()> {
        let folder = self.parent.file();
        let name = self.target.file_name().context("--pools has no name")?;
        let rename = |flags| renameat_with(folder, NEW, folder, name, flags);
        let put = match rename(RenameFlags::EXCHANGE) {
            Err(Errno::NOENT) => rename(RenameFlags::NOREPLACE),
            // A folder in the lower layer of an overlay can't be renamed; an empty one can be
            // removed.
            Err(Errno::XDEV) => unlinkat(folder, name, AtFlags::REMOVEDIR)
                .and_then(|()| rename(RenameFlags::NOREPLACE)),
            other => other,
        };
        let failed = || format!("{}: the catalogue stays as it was", self.target.display());
        put.map_err(|error| explained(folder, error.into()))
            .with_context(failed)?;
        folder.sync_all().with_context(failed)?;
        // After the exchange, this name has the old files.
        let old = self.path();
        self.parent
            .remove(NEW)
            .with_context(|| old.display().to_string())
    }
}

/// Removes the folder.
///
/// # Errors
///
/// It contains files that were not installed; an I/O error.
pub(crate) fn remove(parent: &Folder, target: &Path) -> Result<()> {
    refuse_foreign(target)?;
    let name = target.file_name().context("--pools has no name")?;
    let folder = parent.file();
    renameat_with(folder, name, folder, NEW, RenameFlags::NOREPLACE)
        .with_context(|| target.display().to_string())?;
    Ok(parent.remove(NEW)?)
}

/// Refuses foreign files, because they would be removed with the folder.
fn refuse_foreign(target: &Path) -> Result<()> {
    let kind = match fs::symlink_metadata(target) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        other => other.with_context(|| format!("{}", target.display()))?,
    };
    ensure!(kind.is_dir(), "{} is no folder", target.display());
    let installed = manifest::installed_files(target)?;
    for entry in fs::read_dir(target).with_context(|| format!("{}", target.display()))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name != MANIFEST && !installed.contains(&name) {
            bail!(
                "{} was not installed from the ConfigMap, and the catalogue stays as it was: move it into the \
                 ConfigMap, or away",
                target.join(name).display()
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config_map::tests::files;

    fn put(target: &Path, files: &Files) -> Result<()> {
        let parent = Folder::open(target.parent().unwrap())?;
        Staged::write(&parent, target, files)?.put()?;
        assert!(is_in_place(target, files)?);
        Ok(())
    }

    #[test]
    fn the_folder_is_replaced_as_a_whole_and_what_is_foreign_stays() {
        let root = tempfile::tempdir().unwrap();
        let target = root.path().join("ipam.d");
        put(&target, &files(&[("a.json", "1"), ("b.json", "1")])).unwrap();
        let second = files(&[("b.json", "2"), ("c.json", "2")]);
        assert!(!is_in_place(&target, &second).unwrap());
        put(&target, &second).unwrap();
        assert!(!target.join("a.json").exists());
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
        // A file that was edited is restored.
        fs::write(target.join("b.json"), "3").unwrap();
        assert!(!is_in_place(&target, &second).unwrap());
        put(&target, &second).unwrap();

        fs::write(target.join("by-hand.json"), "{}").unwrap();
        let error = put(&target, &files(&[("d.json", "4")])).unwrap_err();
        assert!(error.to_string().contains("by-hand.json"), "{error}");
        assert!(target.join("c.json").exists());
        let parent = Folder::open(root.path()).unwrap();
        assert!(remove(&parent, &target).is_err());
        fs::remove_file(target.join("by-hand.json")).unwrap();
        remove(&parent, &target).unwrap();
        assert!(!target.exists());
    }
}
