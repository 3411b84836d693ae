//! A new file, which gets its name only when it is complete: a reservation appears whole or not
//! at all.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, openat};
use rustix::io::Errno;

use crate::directory::Directory;

/// Mode of a file, as the newest host-local makes it.
const MODE: Mode = Mode::from_raw_mode(0o600);

/// Name of a file that isn't complete, if the file system has no files without a name. There is
/// at most one, since its writer holds the lock.
const UNFINISHED: &str = "unfinished.tmp";

/// A complete file without a name.
pub(crate) struct NewFile<'a> {
    directory: &'a Directory,
    /// `None` if it is called [`UNFINISHED`], because the file system has no files without a name.
    unnamed: Option<File>,
}

impl<'a> NewFile<'a> {
    /// Writes a file.
    pub(crate) fn write(directory: &'a Directory, content: &[u8]) -> io::Result<Self> {
        if let Some(mut file) = open_unnamed(directory)? {
            file.write_all(content)?;
            let unnamed = Some(file);
            return Ok(Self { directory, unnamed });
        }
        Self::write_unfinished(directory, content)
    }

    /// If a process was killed between link and unlink, its [`UNFINISHED`] is a second name of
    /// a reservation's file. So an old file is removed, and never written to.
    fn write_unfinished(directory: &'a Directory, content: &[u8]) -> io::Result<Self> {
        directory.remove(UNFINISHED)?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(directory.folder(), UNFINISHED, flags, MODE)?);
        let unnamed = None;
        // Before the write: if that fails, the file is removed.
        let new = Self { directory, unnamed };
        file.write_all(content)?;
        Ok(new)
    }

    /// Gives it this name. `false` if a file of that name exists, which is not changed.
    pub(crate) fn link(&self, name: &str) -> io::Result<bool> {
        let folder = self.directory.folder();
        let linked = match &self.unnamed {
            Some(file) => link_unnamed(self.directory, file, name),
            None => linkat(folder, UNFINISHED, folder, name, AtFlags::empty()),
        };
        match linked {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS) => {
                Err(io::Error::other("the file system has no hard links"))
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for NewFile<'_> {
    fn drop(&mut self) {
        if self.unnamed.is_none() {
            // The next writer removes it otherwise.
            let _ = self.directory.remove(UNFINISHED);
        }
    }
}

/// Opens a new file without a name; `None` if the file system or the kernel has no such files.
fn open_unnamed(directory: &Directory) -> io::Result<Option<File>> {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::TMPFILE;
    match openat(directory.folder(), ".", flags, MODE) {
        Ok(file) => Ok(Some(file.into())),
        // The file system has no such files (EOPNOTSUPP), or the kernel is older than
        // the flag (EISDIR, Linux before 3.11).
        Err(Errno::OPNOTSUPP | Errno::ISDIR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn link_unnamed(directory: &Directory, file: &File, name: &str) -> Result<(), Errno> {
    let folder = directory.folder();
    match linkat(file, "", folder, name, AtFlags::EMPTY_PATH) {
        // AT_EMPTY_PATH needs CAP_DAC_READ_SEARCH. Without it, the file's path in /proc is linked.
        Err(Errno::NOENT | Errno::PERM) => {
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            linkat(CWD, path, folder, name, AtFlags::SYMLINK_FOLLOW)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};
    use std::path::Path;

    use super::*;

    type Write = for<'a> fn(&'a Directory, &[u8]) -> io::Result<NewFile<'a>>;

    /// Both ways to make a file: with and without files that have no name.
    const WAYS: [Write; 2] = [
        |directory, content| NewFile::write(directory, content),
        |directory, content| NewFile::write_unfinished(directory, content),
    ];

    fn names(path: &Path) -> Vec<String> {
        let entries = fs::read_dir(path).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn directory() -> (tempfile::TempDir, Directory) {
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory::open(folder.path()).unwrap().unwrap();
        (folder, directory)
    }

    #[test]
    fn a_file_appears_whole_and_only_its_owner_may_read_it() {
        for write in WAYS {
            let (folder, directory) = directory();
            let new = write(&directory, b"content").unwrap();
            assert!(new.link("a").unwrap());
            drop(new);
            assert_eq!(names(folder.path()), ["a"]);
            assert_eq!(fs::read(folder.path().join("a")).unwrap(), b"content");
            let mode = fs::metadata(folder.path().join("a")).unwrap().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn a_name_that_is_taken_stays_as_it_is_and_the_next_one_is_tried() {
        for write in WAYS {
            let (folder, directory) = directory();
            fs::write(folder.path().join("a"), "old").unwrap();
            let new = write(&directory, b"new").unwrap();
            assert!(!new.link("a").unwrap() && new.link("b").unwrap());
            drop(new);
            assert_eq!(fs::read(folder.path().join("a")).unwrap(), b"old");
            assert_eq!(fs::read(folder.path().join("b")).unwrap(), b"new");
            assert_eq!(names(folder.path()), ["a", "b"]);
        }
    }

    #[test]
    fn a_kill_between_link_and_unlink_costs_no_reservation() {
        let (folder, directory) = directory();
        let killed = NewFile::write_unfinished(&directory, b"first").unwrap();
        assert!(killed.link("10.0.0.2").unwrap());
        std::mem::forget(killed);
        assert_eq!(names(folder.path()), ["10.0.0.2", UNFINISHED]);

        let next = NewFile::write_unfinished(&directory, b"second").unwrap();
        assert!(next.link("10.0.0.3").unwrap());
        drop(next);
        assert_eq!(names(folder.path()), ["10.0.0.2", "10.0.0.3"]);
        assert_eq!(fs::read(folder.path().join("10.0.0.2")).unwrap(), b"first");
    }

    #[test]
    fn a_link_in_the_place_of_the_unfinished_file_is_not_followed() {
        let (folder, directory) = directory();
        let victim = tempfile::NamedTempFile::new().unwrap();
        fs::write(victim.path(), "precious").unwrap();
        symlink(victim.path(), folder.path().join(UNFINISHED)).unwrap();
        let new = NewFile::write_unfinished(&directory, b"new").unwrap();
        assert!(new.link("b").unwrap());
        drop(new);
        assert_eq!(fs::read(victim.path()).unwrap(), b"precious");
        assert_eq!(names(folder.path()), ["b"]);
    }
}
