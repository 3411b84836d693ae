//! The catalogue of pools: a folder that is replaced as a whole.
//!
//! A rule of one file may lead to a pool of another. So there is never a moment with some of
//! the new files: the folder is exchanged with a new one.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{AtFlags, RenameFlags, renameat_with, unlinkat};
use rustix::io::Errno;

use crate::folder::{Folder, explained};
use crate::source::Files;
use crate::work_folder::write_new;

/// Says which files of the folder the installer has put there. The selector reads no file
/// whose name begins with a dot.
const LIST: &str = ".ipam-installer.json";

/// The new folder, in the work folder.
pub(crate) const STAGED: &str = "pools";

/// A catalogue beside the one in use.
#[derive(Debug)]
pub(crate) struct Staged<'a> {
    parent: &'a Folder,
    target: &'a Path,
}

/// True if the folder holds these files and nothing else.
///
/// # Errors
///
/// The system's.
pub(crate) fn is_in_place(target: &Path, files: &Files) -> Result<bool> {
    let shown = || format!("{}", target.display());
    if !is_installed(target)? {
        return Ok(false);
    }
    // The list of files is there as well.
    let mut left = files.len() + 1;
    for entry in fs::read_dir(target).with_context(shown)? {
        let entry = entry.with_context(shown)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_right = match files.get(&name) {
            // One that can't be read is put there anew.
            Some(content) => fs::read(entry.path()).is_ok_and(|it| it == *content),
            None => name == LIST,
        };
        if !is_right {
            return Ok(false);
        }
        left -= 1;
    }
    Ok(left == 0)
}

/// True if the installer has put a catalogue there.
///
/// # Errors
///
/// The system's.
pub(crate) fn is_installed(target: &Path) -> Result<bool> {
    let list = target.join(LIST);
    list.try_exists()
        .with_context(|| format!("{}", list.display()))
}

impl<'a> Staged<'a> {
    /// Writes the files beside the folder `target`, which stands in `parent`.
    ///
    /// # Errors
    ///
    /// The folder has files that were not installed; the system's.
    pub(crate) fn write(parent: &'a Folder, target: &'a Path, files: &Files) -> Result<Self> {
        refuse_foreign(target)?;
        let path = parent.work().path_of(STAGED);
        let failed = || format!("{}: the catalogue stays as it was", target.display());
        parent.work().remove(STAGED).with_context(failed)?;
        let write = || -> std::io::Result<()> {
            DirBuilder::new().mode(0o755).create(&path)?;
            let folder = File::open(&path)?;
            rustix::fs::fchmod(&folder, rustix::fs::Mode::from_raw_mode(0o755))?;
            for (name, content) in files {
                write_new(&folder, name, content, 0o644)?;
            }
            let names: Vec<&String> = files.keys().collect();
            write_new(&folder, LIST, &serde_json::to_vec(&names)?, 0o644)?;
            folder.sync_all()
        };
        write()
            .map_err(|error| explained(parent.file(), error))
            .inspect_err(|_| drop(parent.work().remove(STAGED)))
            .with_context(failed)?;
        Ok(Self { parent, target })
    }

    /// Puts the files into place, in one step.
    ///
    /// # Errors
    ///
    /// The system's.
    pub(crate) fn put(self) -> Result<()> {
        let (work, folder) = (self.parent.work(), self.parent.file());
        let name = self.target.file_name().context("poolsDir has no name")?;
        let exchange = || renameat_with(work.file(), STAGED, folder, name, RenameFlags::EXCHANGE);
        let make = || renameat_with(work.file(), STAGED, folder, name, RenameFlags::NOREPLACE);
        let put = match exchange() {
            Err(Errno::NOENT) => make(),
            // A folder of an overlay's lower layer can't be renamed; an empty one can go.
            Err(Errno::XDEV) => unlinkat(folder, name, AtFlags::REMOVEDIR).and_then(|()| make()),
            other => other,
        };
        let failed = || format!("{}: the catalogue stays as it was", self.target.display());
        put.map_err(|error| explained(folder, error.into()))
            .with_context(failed)?;
        folder.sync_all().with_context(failed)?;
        // The old files.
        work.remove(STAGED)
            .with_context(|| format!("{}", work.path_of(STAGED).display()))
    }
}

/// Removes the folder, if it holds nothing but what was installed.
pub(crate) fn remove(parent: &Folder, target: &Path) -> Result<bool> {
    if !is_installed(target)? {
        return Ok(false);
    }
    refuse_foreign(target)?;
    let (work, folder) = (parent.work(), parent.file());
    let name = target.file_name().context("poolsDir has no name")?;
    renameat_with(folder, name, work.file(), STAGED, RenameFlags::NOREPLACE)
        .with_context(|| format!("{}", target.display()))?;
    work.remove(STAGED)?;
    Ok(true)
}

/// Refuses files that the installer has not put there: they would be gone with the folder.
fn refuse_foreign(target: &Path) -> Result<()> {
    let kind = match fs::symlink_metadata(target) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        other => other.with_context(|| format!("{}", target.display()))?,
    };
    ensure!(kind.is_dir(), "{} is no folder", target.display());
    let file = target.join(LIST);
    let shown = || format!("{}", file.display());
    let list: Vec<String> = match fs::read(&file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        content => serde_json::from_slice(&content.with_context(shown)?).with_context(shown)?,
    };
    for entry in fs::read_dir(target).with_context(|| format!("{}", target.display()))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name != LIST && !list.contains(&name) {
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
    use crate::source::tests::files;

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
        // One that was edited is put right again.
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
        assert!(remove(&parent, &target).unwrap());
        assert!(!target.exists());
    }
}
