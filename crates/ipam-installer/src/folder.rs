//! Locks a target folder, and replaces each file in it atomically.
//!
//! A new file is written beside the old one and renamed. Readers get the old file or the new one;
//! running calls keep the old file.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use rustix::fs::{AtFlags, Mode, OFlags, fchmod, linkat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;
use state_files::lock_file;

use crate::installed_file::EXECUTABLE;

/// The lock file of a folder. It exists during an installation.
const LOCK: &str = ".ipam-installer.lock";

/// Prefix of new files, links and folders before they are renamed. Runtimes ignore such names, and
/// the remains of a killed installation are recognised by them.
pub(crate) const NEW: &str = ".ipam-installer.new";

/// Longest wait for another installation.
const PATIENCE: Duration = Duration::from_secs(20);

/// A folder, open and locked against other installations.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    folder: File,
    _lock: File,
}

impl Folder {
    /// Opens a folder, or creates it, locks it, and removes the remains of a killed installation.
    ///
    /// # Errors
    ///
    /// It can't be created or written, or another installation is running in it.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let shown = || path.display().to_string();
        create_all(path, 0o755)
            .map_err(|error| match fs::read_link(path) {
                Ok(to) => anyhow!("it is a link to {}, which isn't there", to.display()),
                Err(_) => error.into(),
            })
            .with_context(shown)?;
        let folder = File::open(path).with_context(shown)?;
        let lock = lock(&folder)
            .map_err(|error| explained(&folder, error))
            .with_context(shown)?;
        let locked = Self {
            path: path.to_owned(),
            folder,
            _lock: lock,
        };
        locked.remove_new().with_context(shown)?;
        Ok(locked)
    }

    /// Removes the remains of a killed installation in a folder, if there are any.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub(crate) fn clean(path: &Path) -> Result<()> {
        let lock = path.join(LOCK);
        let is_left = lock
            .try_exists()
            .with_context(|| lock.display().to_string())?;
        if is_left {
            Self::open(path)?;
        }
        Ok(())
    }

    /// The open folder.
    pub(crate) fn file(&self) -> &File {
        &self.folder
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The path of the file of this name.
    pub(crate) fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Replaces or creates a file, atomically.
    ///
    /// # Errors
    ///
    /// An I/O error; the old file is kept.
    pub(crate) fn replace(&self, name: &str, content: &[u8], mode: u32) -> io::Result<()> {
        self.remove(NEW)?;
        write_new(&self.folder, NEW, content, mode)?;
        Ok(renameat(&self.folder, NEW, &self.folder, name)?)
    }

    /// Replaces these names by hard links to one new executable. All links are created before the
    /// first name is replaced, so a full disk changes nothing.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(crate) fn replace_links(&self, names: &[String], content: &[u8]) -> Result<()> {
        let replace = || -> io::Result<()> {
            let folder = &self.folder;
            write_new(folder, NEW, content, EXECUTABLE)?;
            let link = |name: &str| format!("{NEW}-{name}");
            for name in names {
                linkat(folder, NEW, folder, link(name), AtFlags::empty())?;
            }
            for name in names {
                renameat(folder, link(name), folder, name)?;
            }
            self.remove(NEW)?;
            folder.sync_all()
        };
        let replaced = replace().map_err(|error| {
            let _ = self.remove_new();
            explained(&self.folder, error)
        });
        replaced.with_context(|| format!("{}: nothing is installed", self.path.display()))
    }

    /// Removes a file or a folder, if it exists.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        match unlinkat(&self.folder, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(Errno::ISDIR | Errno::PERM) => fs::remove_dir_all(self.path.join(name)),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes all new files.
    fn remove_new(&self) -> io::Result<()> {
        for entry in rustix::fs::Dir::read_from(&self.folder)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name.starts_with(NEW) {
                self.remove(&name)?;
            }
        }
        Ok(())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = self.remove_new();
        // A process that waits for the lock sees that its file was removed, and creates another.
        let _ = self.remove(LOCK);
    }
}

/// Writes a new file with this mode, regardless of the umask, and syncs it to the disk. Doesn't
/// follow a link with this name.
///
/// # Errors
///
/// An I/O error; the name already exists.
pub(crate) fn write_new(folder: &File, name: &str, content: &[u8], mode: u32) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(mode);
    let mut file = File::from(openat(folder, name, flags, mode)?);
    file.write_all(content)?;
    fchmod(&file, mode)?;
    file.sync_all()
}

/// An I/O error, with advice about a folder that root may not write to.
pub(crate) fn explained(folder: &File, error: io::Error) -> anyhow::Error {
    let owner = folder
        .metadata()
        .map(|metadata| metadata.uid())
        .unwrap_or_default();
    let is_denied = error.kind() == ErrorKind::PermissionDenied;
    let user = rustix::process::geteuid().as_raw();
    let error = anyhow::Error::from(error);
    if is_denied && owner != user {
        return error.context(format!(
            "the folder belongs to user {owner}: give it to user {user}, or give the container \
             the capability DAC_OVERRIDE"
        ));
    }
    error
}

/// Creates a folder and its missing parents with this mode, whatever the umask allows others.
///
/// # Errors
///
/// An I/O error. An existing folder is none.
pub(crate) fn create_all(path: &Path, mode: u32) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(mode).create(path)
}

/// Creates and locks the lock file, which only root can open.
fn lock(folder: &File) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let file = File::from(openat(folder, LOCK, flags, Mode::RUSR | Mode::WUSR)?);
        let left = deadline.saturating_duration_since(Instant::now());
        if !lock_file(&file, Some(left), None)? {
            break;
        }
        // The lock counts only if its file still has this name.
        let inode = statat(folder, LOCK, AtFlags::SYMLINK_NOFOLLOW).map(|stat| stat.st_ino);
        if inode == Ok(file.metadata()?.ino()) {
            return Ok(file);
        }
    }
    let text = "another installation is at work in it";
    Err(io::Error::new(ErrorKind::WouldBlock, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn all_names_are_links_to_one_file_and_nothing_else_is_left() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("bin");
        let folder = Folder::open(&path).unwrap();
        fs::write(path.join("a"), "old").unwrap();
        folder
            .replace_links(&["a", "b"].map(str::to_owned), b"new")
            .unwrap();
        drop(folder);
        assert_eq!(names(&path), ["a", "b"]);
        let files = ["a", "b"].map(|name| {
            assert_eq!(fs::read(path.join(name)).unwrap(), b"new");
            let metadata = fs::metadata(path.join(name)).unwrap();
            assert_eq!(metadata.mode() & 0o7777, 0o755);
            metadata.ino()
        });
        assert_eq!(files[0], files[1]);
    }

    #[test]
    fn what_a_killed_installation_has_left_is_removed_and_links_are_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path();
        fs::write(path.join("victim"), "precious").unwrap();
        symlink("victim", path.join(NEW)).unwrap();
        fs::create_dir(path.join(format!("{NEW}-folder"))).unwrap();
        fs::write(path.join(LOCK), "").unwrap();
        Folder::clean(path).unwrap();
        assert_eq!(names(path), ["victim"]);
        let folder = Folder::open(path).unwrap();
        symlink("victim", path.join(NEW)).unwrap();
        folder.replace("a", b"x", 0o644).unwrap();
        assert!(fs::symlink_metadata(path.join("a")).unwrap().is_file());
        assert_eq!(fs::read(path.join("victim")).unwrap(), b"precious");
        drop(folder);
        symlink("victim", path.join(LOCK)).unwrap();
        assert!(Folder::open(path).is_err());
    }

    #[test]
    fn a_second_installation_waits_for_the_first() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::open(root.path()).unwrap();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| Folder::open(root.path()).map(|_| ()));
            std::thread::sleep(Duration::from_millis(60));
            assert!(!second.is_finished());
            drop(folder);
            second.join().unwrap().unwrap();
        });
        assert!(names(root.path()).is_empty());
    }
}
