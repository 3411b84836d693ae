//! Creates files that appear with their content in one step, or not at all.

use std::collections::hash_map::RandomState;
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Write};
use std::os::fd::AsRawFd;

use rustix::fs::{
    Access, AtFlags, CWD, Mode, OFlags, RenameFlags, accessat, linkat, openat, renameat,
    renameat_with,
};
use rustix::io::Errno;

use crate::directory::Directory;
use crate::origin::{self, Fact};

/// Mode of a file, as the newest host-local makes it.
const MODE: Mode = Mode::from_raw_mode(0o600);

/// Name of a file whose content isn't complete, if the file system has no files without
/// a name. There is at most one, since its writer holds the lock.
const UNFINISHED: &str = "unfinished.tmp";

/// A name that no other process gives to a file: `unfinished.<16 hexadecimal digits>.tmp`.
pub(crate) fn temporary_name() -> String {
    // The standard library's source of random numbers.
    let random = RandomState::new().build_hasher().finish();
    format!("unfinished.{random:016x}.tmp")
}

/// The files that killed processes have left in the directory.
pub(crate) fn leftovers(directory: &Directory) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory.path())? {
        let name = entry?.file_name().into_string().unwrap_or_default();
        if name.starts_with("unfinished.") && name.ends_with("tmp") {
            names.push(name);
        }
    }
    Ok(names)
}

/// Creates a file without a name; `None` if every file must have one.
fn create_unnamed(directory: &Directory) -> io::Result<Option<File>> {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::TMPFILE;
    match openat(directory.folder(), ".", flags, MODE) {
        Ok(file) => Ok(Some(file.into())),
        // The file system has no such files (EOPNOTSUPP), or the kernel is older than
        // the flag (EISDIR, Linux before 3.11).
        Err(Errno::OPNOTSUPP | Errno::ISDIR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// What a new file says.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Content<'a> {
    pub(crate) bytes: &'a [u8],
    /// The origin, of a reservation.
    pub(crate) origin: &'a [(Fact, &'a str)],
}

/// A file with content that doesn't have its name yet.
pub(crate) struct NewFile<'a> {
    directory: &'a Directory,
    content: Content<'a>,
    file: File,
    /// True if it is named [`UNFINISHED`].
    unfinished: bool,
}

impl<'a> NewFile<'a> {
    /// Writes a new file in the directory.
    pub(crate) fn write(directory: &'a Directory, bytes: &'a [u8]) -> io::Result<Self> {
        let origin = &[];
        Self::write_with_origin(directory, Content { bytes, origin })
    }

    /// Writes a new file in the directory, with its origin.
    pub(crate) fn write_with_origin(
        directory: &'a Directory,
        content: Content<'a>,
    ) -> io::Result<Self> {
        match create_unnamed(directory)? {
            Some(file) => Self::filled(directory, file, false, content),
            None => Self::write_unfinished(directory, content),
        }
    }

    /// Writes the file under the name [`UNFINISHED`], if every file must have a name.
    ///
    /// If a process was killed between link and unlink, its [`UNFINISHED`] is also a
    /// reservation by another name. So an old file is removed, and never written to.
    fn write_unfinished(directory: &'a Directory, content: Content<'a>) -> io::Result<Self> {
        directory.remove(UNFINISHED)?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(openat(directory.folder(), UNFINISHED, flags, MODE)?);
        Self::filled(directory, file, true, content)
    }

    fn filled(
        directory: &'a Directory,
        file: File,
        unfinished: bool,
        content: Content<'a>,
    ) -> io::Result<Self> {
        let mut it = Self {
            directory,
            content,
            file,
            unfinished,
        };
        it.file.write_all(content.bytes)?;
        origin::note(&it.file, content.origin)?;
        Ok(it)
    }

    /// Verifies that files can be made in the directory, as far as that leaves no trace.
    pub(crate) fn try_unnamed(directory: &'a Directory) -> io::Result<()> {
        match create_unnamed(directory)? {
            Some(mut file) => file.write_all(b"x"),
            None => Ok(accessat(
                directory.folder(),
                ".",
                Access::WRITE_OK,
                AtFlags::empty(),
            )?),
        }
    }

    /// Gives it this name; `false` if a file of that name exists.
    pub(crate) fn link(&mut self, name: &str) -> io::Result<bool> {
        match self.hard_link(name) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(error) if has_no_links(error) => self.rename(name, error),
            Err(error) => Err(error.into()),
        }
    }

    fn hard_link(&self, name: &str) -> Result<(), Errno> {
        let folder = self.directory.folder();
        if self.unfinished {
            return linkat(folder, UNFINISHED, folder, name, AtFlags::empty());
        }
        match linkat(&self.file, "", folder, name, AtFlags::EMPTY_PATH) {
            // Not root: only through the name that /proc has for it.
            Err(Errno::NOENT | Errno::PERM) => {
                let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
                linkat(CWD, path, folder, name, AtFlags::SYMLINK_FOLLOW)
            }
            other => other,
        }
    }

    /// Gives it this name by a rename that replaces no file; `false` if a file of that
    /// name exists. A file system that can't do that either returns `no_links`.
    fn rename(&mut self, name: &str, no_links: Errno) -> io::Result<bool> {
        self.give_unfinished_name()?;
        let folder = self.directory.folder();
        match renameat_with(folder, UNFINISHED, folder, name, RenameFlags::NOREPLACE) {
            Ok(()) => {
                self.unfinished = false;
                Ok(true)
            }
            Err(Errno::EXIST) => Ok(false),
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Err(no_links.into()),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives it this name, in place of a file that may be replaced; `false` if the one
    /// that has the name by then may not.
    ///
    /// The two exchange their names, and the old one is looked at afterwards: it can't
    /// become a reservation in between, even if somebody works without the lock.
    pub(crate) fn replace_if(
        mut self,
        name: &str,
        may_be_replaced: impl Fn(&str) -> bool,
    ) -> io::Result<bool> {
        let folder = self.directory.folder();
        // A name of its own: somebody who works without the lock may do the same.
        let temporary = temporary_name();
        if self.unfinished {
            renameat(folder, UNFINISHED, folder, &temporary)?;
            self.unfinished = false;
        } else if !self.link(&temporary)? {
            return Ok(false);
        }
        let exchange = || renameat_with(folder, &temporary, folder, name, RenameFlags::EXCHANGE);
        let replaced = match exchange() {
            Ok(()) if may_be_replaced(&temporary) => Ok(true),
            Ok(()) => exchange().map(|()| false),
            // The file system has no exchange. The lock has to do.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) if may_be_replaced(name) => {
                renameat(folder, &temporary, folder, name).map(|()| true)
            }
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(false),
            Err(error) => Err(error),
        };
        // The old file, or ours. Without an exchange, ours has the name already.
        self.directory.remove(&temporary)?;
        Ok(replaced?)
    }

    fn give_unfinished_name(&mut self) -> io::Result<()> {
        if self.unfinished {
            return Ok(());
        }
        self.directory.remove(UNFINISHED)?;
        match self.hard_link(UNFINISHED) {
            Ok(()) => self.unfinished = true,
            Err(error) if has_no_links(error) => {
                *self = Self::write_unfinished(self.directory, self.content)?;
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Gives it this name, in place of the file that has it.
    pub(crate) fn replace(mut self, name: &str) -> io::Result<()> {
        self.give_unfinished_name()?;
        let folder = self.directory.folder();
        renameat(folder, UNFINISHED, folder, name)?;
        self.unfinished = false;
        Ok(())
    }
}

/// True if an error of link(2) can mean that the file system has no hard links.
fn has_no_links(error: Errno) -> bool {
    matches!(error, Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS)
}

impl Drop for NewFile<'_> {
    fn drop(&mut self) {
        if self.unfinished {
            let _ = self.directory.remove(UNFINISHED);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};
    use std::path::Path;

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

    type Write = for<'a> fn(&'a Directory, &'a [u8]) -> io::Result<NewFile<'a>>;

    /// With files without a name, and without them.
    const WAYS: [Write; 2] = [
        |directory, content| NewFile::write(directory, content),
        |directory, bytes| {
            let origin = &[];
            NewFile::write_unfinished(directory, Content { bytes, origin })
        },
    ];

    #[test]
    fn only_a_file_that_may_be_replaced_is_replaced() {
        for write in WAYS {
            let (folder, directory) = directory();
            let content = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
            fs::write(folder.path().join("torn"), "").unwrap();
            fs::write(folder.path().join("whole"), "theirs").unwrap();
            let is_torn = |name: &str| content(name).is_empty();
            let replace = |name: &str| {
                let file = write(&directory, b"ours").unwrap();
                file.replace_if(name, is_torn).unwrap()
            };
            assert!(replace("torn") && !replace("whole"));
            assert_eq!(content("torn"), "ours");
            assert_eq!(content("whole"), "theirs");
            assert_eq!(names(folder.path()), ["torn", "whole"]);
        }
    }

    #[test]
    fn a_file_appears_whole_and_only_its_owner_may_read_it() {
        for write in WAYS {
            let (folder, directory) = directory();
            let mut file = write(&directory, b"content").unwrap();
            assert!(!folder.path().join("a").exists());
            assert!(file.link("a").unwrap());
            drop(file);
            assert_eq!(names(folder.path()), ["a"]);
            assert_eq!(fs::read(folder.path().join("a")).unwrap(), b"content");
            let mode = fs::metadata(folder.path().join("a")).unwrap().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn a_name_that_is_taken_stays_as_it_is_unless_it_is_replaced() {
        for write in WAYS {
            let (folder, directory) = directory();
            let path = folder.path().join("a");
            fs::write(&path, "old").unwrap();
            assert!(!write(&directory, b"new").unwrap().link("a").unwrap());
            assert_eq!(fs::read(&path).unwrap(), b"old");
            write(&directory, b"new").unwrap().replace("a").unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"new");
            assert_eq!(names(folder.path()), ["a"]);
        }
    }

    #[test]
    fn a_kill_between_link_and_unlink_costs_no_reservation() {
        let (folder, directory) = directory();
        let mut killed = (WAYS[1])(&directory, b"first").unwrap();
        killed.link("10.0.0.2").unwrap();
        std::mem::forget(killed);
        assert_eq!(names(folder.path()), ["10.0.0.2", UNFINISHED]);

        let mut next = (WAYS[1])(&directory, b"second").unwrap();
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
        for write in WAYS {
            write(&directory, b"new").unwrap().replace("a").unwrap();
        }
        assert_eq!(fs::read(victim.path()).unwrap(), b"precious");
    }
}
