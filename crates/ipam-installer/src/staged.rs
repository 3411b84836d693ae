//! Writes a wanted file beside its place, and then renames it into place.
//!
//! Readers get the old file or the new one, and running calls keep the old one. containerd reads
//! its folder again when a file in it is written, removed, or renamed within or out of it. It
//! ignores a file that is created in it or moved into it (`cni_conf_syncer.go`, 1.6 to 2.3).

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use state_files::{names_in, remove_file};

use crate::path_context::PathContext;
use crate::wanted::{Content, KnownStates, PathContent, Wanted, classify, metadata};

/// End of the names of new files, which begin with a dot. Runtimes ignore such names.
const NEW: &str = ".ipam-installer";

impl Wanted {
    /// The path of the new file or folder, until it is put into its place.
    pub(crate) fn staged_path(&self) -> PathBuf {
        beside(&self.paths[0])
    }

    /// Writes the file under other names.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(crate) fn stage(&self) -> Result<()> {
        let (folder, new) = (self.folder(), self.staged_path());
        let stage = || -> Result<()> {
            create_all(folder)?;
            if let Content::Catalogue(files) = &self.content {
                create_all(&new)?;
                for (name, text) in files {
                    write_new(&new.join(name), text.as_bytes(), 0o644)?;
                }
                return Ok(File::open(&new)?.sync_all()?);
            }
            write_new(&new, &self.content.bytes()?, self.content.mode())?;
            let mut others = self.paths.iter().skip(1);
            others.try_for_each(|path| fs::hard_link(&new, beside(path)).context("hard link"))
        };
        let failed = || format!("{}: nothing is installed or changed", folder.display());
        stage().with_context(failed)
    }

    /// Puts what is staged into its place, in one step for each path.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(crate) fn install(&self, known: &mut KnownStates) -> Result<()> {
        let (folder, mut names) = (self.folder(), Vec::new());
        for path in &self.paths {
            let new = beside(path);
            if self.is_catalogue() && path.exists() {
                renameat_with(CWD, &new, CWD, path, RenameFlags::EXCHANGE).at(path)?;
            } else {
                fs::rename(&new, path).at(path)?;
            }
            names.push(path.file_name().unwrap_or_default().to_string_lossy());
        }
        // Executables are known once they have been read: a write in this very millisecond would not
        // change the state.
        if self.is_conflist() {
            known.insert(self.paths[0].clone(), self.states()?);
        }
        let synced = File::open(folder).and_then(|folder| folder.sync_all());
        synced.at(folder)?;
        eprintln!("installed in {}: {}", folder.display(), names.join(", "));
        Ok(())
    }
}

fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}{NEW}"))
}

/// Removes what is staged in a folder: new files that a failed or killed look has left, and
/// catalogues that were replaced.
///
/// # Errors
///
/// An I/O error.
pub(crate) fn remove_staged(folder: &Path) -> Result<()> {
    // What can't be read can't be written to either, which is named then.
    let names = names_in(folder).unwrap_or_default().into_iter();
    let mut left = names.filter(|name| name.starts_with('.') && name.ends_with(NEW));
    left.try_for_each(|name| remove(&folder.join(name)))
}

/// The folder in which an uninstallation puts the conflists of a folder aside.
pub(crate) fn aside_folder(conflists: &Path) -> PathBuf {
    conflists.join(".aside-by-ipam-installer")
}

/// Brings the conflists back that an uninstallation has put aside, unless somebody has written
/// others. The removal of the folder lets runtimes read them.
///
/// # Errors
///
/// An I/O error.
pub(crate) fn restore_conflists(conflists: &Path) -> Result<()> {
    let aside = aside_folder(conflists);
    if !aside.exists() {
        return Ok(());
    }
    for name in names_in(&aside).at(&aside)? {
        let (from, to) = (aside.join(&name), conflists.join(&name));
        match renameat_with(CWD, &from, CWD, &to, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => remove(&from)?,
            renamed => renamed.at(&to)?,
        }
    }
    fs::remove_dir(&aside).at(&aside)
}

/// Removes a file, or a folder with all that it contains. A missing one is no error.
///
/// # Errors
///
/// An I/O error, naming the path.
pub(crate) fn remove(path: &Path) -> Result<()> {
    match metadata(path)? {
        Some(found) if found.is_dir() => fs::remove_dir_all(path).at(path),
        _ => remove_file(CWD, path).at(path),
    }
}

/// Creates a folder and its missing parents, which only root may write to whatever the umask.
///
/// # Errors
///
/// An I/O error. An existing folder is none.
pub(crate) fn create_all(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o755).create(path)
}

/// Writes a new file with this mode, whatever the umask, and syncs it. Follows no link.
fn write_new(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(content)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    file.sync_all()
}

/// Removes a file that was installed. Another one stays, and is named.
///
/// # Errors
///
/// An I/O error.
pub(crate) fn remove_installed(path: &Path) -> Result<()> {
    let shown = path.display();
    match classify(path)? {
        PathContent::Missing => {}
        PathContent::Installed(..) => {
            remove(path)?;
            eprintln!("removed {shown}");
        }
        PathContent::Foreign => eprintln!("{shown} stays: ipam-installer has not installed it"),
    }
    Ok(())
}
