//! Creates files that appear with their content in one step, or not at all.

use std::collections::hash_map::RandomState;
use std::fs::File;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Write};
use std::os::fd::AsRawFd;

use rustix::fs::{
    Access, AtFlags, CWD, Mode, OFlags, RenameFlags, accessat, linkat, openat, renameat,
    renameat_with,
};
use rustix::io::Errno;
use state_files::names_in;

use crate::directory::Directory;
use crate::origin::{self, Fact};

/// Mode of a file, as the newest host-local makes it.
const MODE: Mode = Mode::from_raw_mode(0o600);

/// Name of a file whose content isn't complete, if the file system has no files without
/// a name. There is at most one, since its writer holds the lock.
const UNFINISHED: &str = "unfinished.tmp";

/// Content of a new file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Content<'a> {
    pub(crate) bytes: &'a [u8],
    /// The origin of a reservation; empty for any other file.
    pub(crate) origin: &'a [(Fact, &'a str)],
}

impl Content<'_> {
    fn write_to(self, mut file: &File) -> io::Result<()> {
        file.write_all(self.bytes)?;
        origin::note(file, self.origin)
    }
}

/// A name that no other process gives to a file: `unfinished.<16 hexadecimal digits>.tmp`.
pub(crate) fn temporary_name() -> String {
    // The standard library's source of random numbers.
    let random = RandomState::new().build_hasher().finish();
    format!("unfinished.{random:016x}.tmp")
}

/// The files that killed processes have left in the directory.
pub(crate) fn leftovers(directory: &Directory) -> io::Result<Vec<String>> {
    let mut names = names_in(directory.path())?;
    names.retain(|name| name.starts_with("unfinished.") && name.ends_with("tmp"));
    Ok(names)
}

/// Verifies that files can be made in the directory, and leaves none. Where every file must have
/// a name, only the permission is checked.
pub(crate) fn try_unnamed(directory: &Directory) -> io::Result<()> {
    match open_unnamed(directory)? {
        Some(mut file) => file.write_all(b"x"),
        None => {
            let folder = directory.folder();
            Ok(accessat(folder, ".", Access::WRITE_OK, AtFlags::empty())?)
        }
    }
}

/// Makes a file. `false` if a file of that name exists, which is not changed.
///
/// It is written without a name, and then linked. Where the file system can't do that, it is
/// written as [`UNFINISHED`], and then linked, or renamed without replacing a file.
pub(crate) fn create(directory: &Directory, name: &str, content: Content<'_>) -> io::Result<bool> {
    if let Some(file) = open_unnamed(directory)? {
        content.write_to(&file)?;
        match link_unnamed(directory, &file, name) {
            Ok(()) => return Ok(true),
            Err(Errno::EXIST) => return Ok(false),
            Err(error) if is_without_links(error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    create_by_name(directory, name, content)
}

fn create_by_name(directory: &Directory, name: &str, content: Content<'_>) -> io::Result<bool> {
    let mut new = Unfinished::write(directory, UNFINISHED, content)?;
    let folder = directory.folder();
    let no_links = match linkat(folder, UNFINISHED, folder, name, AtFlags::empty()) {
        Ok(()) => return Ok(true),
        Err(Errno::EXIST) => return Ok(false),
        Err(error) if is_without_links(error) => error,
        Err(error) => return Err(error.into()),
    };
    match new.rename(name, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        Err(error) if is_without_flags(error) => Err(no_links.into()),
        Err(error) => Err(error.into()),
    }
}

/// Makes a file, or replaces the one of that name in one step.
pub(crate) fn replace(directory: &Directory, name: &str, bytes: &[u8]) -> io::Result<()> {
    let content = Content { bytes, origin: &[] };
    let mut new = Unfinished::write(directory, UNFINISHED, content)?;
    Ok(new.rename(name, RenameFlags::empty())?)
}

/// Replaces a file that may be replaced; `false` if the file of that name may not.
///
/// The new and the old file exchange their names, and `may_be_replaced` is asked after that. So
/// it is asked about the file that is removed, even if a program that doesn't take the lock
/// makes another file of that name meanwhile.
pub(crate) fn replace_if(
    directory: &Directory,
    name: &str,
    content: Content<'_>,
    may_be_replaced: impl Fn(&str) -> bool,
) -> io::Result<bool> {
    // Not UNFINISHED: a program that doesn't take the lock may replace a file at the same time.
    let temporary = temporary_name();
    let mut new = Unfinished::write(directory, &temporary, content)?;
    match new.rename(name, RenameFlags::EXCHANGE) {
        // The old file has the temporary name now, and is removed on drop.
        Ok(()) if may_be_replaced(&temporary) => Ok(true),
        Ok(()) => Ok(new.put_back(name).map(|()| false)?),
        // The file system can't exchange names: only the lock protects the file.
        Err(error) if is_without_flags(error) && may_be_replaced(name) => {
            Ok(new.rename(name, RenameFlags::empty()).map(|()| true)?)
        }
        Err(error) if is_without_flags(error) => Ok(false),
        Err(error) => Err(error.into()),
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

/// A file under a temporary name, which is removed on drop.
struct Unfinished<'a> {
    directory: &'a Directory,
    name: &'a str,
    /// False after a rename that left no file under the temporary name.
    exists: bool,
}

impl<'a> Unfinished<'a> {
    /// Writes a file under this name.
    ///
    /// If a process was killed between link and unlink, its [`UNFINISHED`] is a second name of
    /// a reservation's file. So an old file is removed, and never written to.
    fn write(directory: &'a Directory, name: &'a str, content: Content<'_>) -> io::Result<Self> {
        directory.remove(name)?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(openat(directory.folder(), name, flags, MODE)?);
        let exists = true;
        let new = Self {
            directory,
            name,
            exists,
        };
        content.write_to(&file)?;
        Ok(new)
    }

    fn rename(&mut self, name: &str, flags: RenameFlags) -> Result<(), Errno> {
        let folder = self.directory.folder();
        if flags.is_empty() {
            renameat(folder, self.name, folder, name)?;
        } else {
            renameat_with(folder, self.name, folder, name, flags)?;
        }
        self.exists = flags.contains(RenameFlags::EXCHANGE);
        Ok(())
    }

    /// Gives the old file its name back after an exchange. If the names can't be exchanged again,
    /// the old file replaces the new one. It is never removed: it is somebody's reservation.
    fn put_back(&mut self, name: &str) -> Result<(), Errno> {
        self.rename(name, RenameFlags::EXCHANGE).or_else(|_| {
            self.exists = false;
            self.rename(name, RenameFlags::empty())
        })
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if self.exists {
            let _ = self.directory.remove(self.name);
        }
    }
}

/// True if an error of link(2) can mean that the file system has no hard links.
fn is_without_links(error: Errno) -> bool {
    matches!(error, Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS)
}

/// True if an error of renameat2(2) means that the file system doesn't know the flag.
fn is_without_flags(error: Errno) -> bool {
    matches!(error, Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
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

    fn content(bytes: &[u8]) -> Content<'_> {
        Content { bytes, origin: &[] }
    }

    type Create = fn(&Directory, &str, Content<'_>) -> io::Result<bool>;

    /// Both ways to make a file: with and without files that have no name.
    const WAYS: [Create; 2] = [create, create_by_name];

    #[test]
    fn only_a_file_that_may_be_replaced_is_replaced() {
        let (folder, directory) = directory();
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        fs::write(folder.path().join("torn"), "").unwrap();
        fs::write(folder.path().join("whole"), "theirs").unwrap();
        let is_torn = |name: &str| read(name).is_empty();
        let replace = |name: &str| replace_if(&directory, name, content(b"ours"), is_torn).unwrap();
        assert!(replace("torn") && !replace("whole"));
        assert_eq!(read("torn"), "ours");
        assert_eq!(read("whole"), "theirs");
        assert_eq!(names(folder.path()), ["torn", "whole"]);
    }

    #[test]
    fn a_file_that_may_not_be_replaced_stays_if_the_names_cannot_be_exchanged_again() {
        let (folder, directory) = directory();
        let path = folder.path().join("whole");
        fs::write(&path, "theirs").unwrap();
        // The second exchange fails, since there is nothing to exchange with.
        let is_torn = |_: &str| {
            fs::remove_file(&path).unwrap();
            false
        };
        let replaced = replace_if(&directory, "whole", content(b"ours"), is_torn);
        assert_eq!(names(folder.path()), ["whole"]);
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs");
        assert!(!replaced.unwrap());

        // Neither an exchange nor a rename is possible: the old file stays where it is.
        let put_aside = folder.path().join("aside");
        let is_torn = |temporary: &str| {
            fs::remove_file(&path).unwrap();
            fs::create_dir(&path).unwrap();
            fs::rename(folder.path().join(temporary), &put_aside).unwrap();
            false
        };
        replace_if(&directory, "whole", content(b"ours"), is_torn).unwrap_err();
        assert_eq!(fs::read_to_string(&put_aside).unwrap(), "theirs");
    }

    #[test]
    fn a_file_appears_whole_and_only_its_owner_may_read_it() {
        for create in WAYS {
            let (folder, directory) = directory();
            assert!(create(&directory, "a", content(b"content")).unwrap());
            assert_eq!(names(folder.path()), ["a"]);
            assert_eq!(fs::read(folder.path().join("a")).unwrap(), b"content");
            let mode = fs::metadata(folder.path().join("a")).unwrap().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn a_name_that_is_taken_stays_as_it_is_unless_it_is_replaced() {
        for create in WAYS {
            let (folder, directory) = directory();
            let path = folder.path().join("a");
            fs::write(&path, "old").unwrap();
            assert!(!create(&directory, "a", content(b"new")).unwrap());
            assert_eq!(fs::read(&path).unwrap(), b"old");
            replace(&directory, "a", b"new").unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"new");
            assert_eq!(names(folder.path()), ["a"]);
        }
    }

    #[test]
    fn a_kill_between_link_and_unlink_costs_no_reservation() {
        let (folder, directory) = directory();
        let killed = Unfinished::write(&directory, UNFINISHED, content(b"first")).unwrap();
        let at = directory.folder();
        linkat(at, UNFINISHED, at, "10.0.0.2", AtFlags::empty()).unwrap();
        std::mem::forget(killed);
        assert_eq!(names(folder.path()), ["10.0.0.2", UNFINISHED]);

        assert!(create_by_name(&directory, "10.0.0.3", content(b"second")).unwrap());
        assert_eq!(names(folder.path()), ["10.0.0.2", "10.0.0.3"]);
        assert_eq!(fs::read(folder.path().join("10.0.0.2")).unwrap(), b"first");
    }

    #[test]
    fn a_link_in_the_place_of_the_unfinished_file_is_not_followed() {
        let (folder, directory) = directory();
        let victim = tempfile::NamedTempFile::new().unwrap();
        fs::write(victim.path(), "precious").unwrap();
        let link = || symlink(victim.path(), folder.path().join(UNFINISHED)).unwrap();
        link();
        replace(&directory, "a", b"new").unwrap();
        link();
        create_by_name(&directory, "b", content(b"new")).unwrap();
        assert_eq!(fs::read(victim.path()).unwrap(), b"precious");
        assert_eq!(names(folder.path()), ["a", "b"]);
    }

    #[test]
    fn a_missing_file_is_not_replaced() {
        let (folder, directory) = directory();
        replace_if(&directory, "a", content(b"new"), |_| true).unwrap_err();
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn two_files_of_killed_processes_have_different_names_and_both_are_leftovers() {
        let (folder, directory) = directory();
        let mut unfinished = [temporary_name(), temporary_name(), UNFINISHED.to_owned()];
        for name in &unfinished {
            File::create_new(folder.path().join(name)).unwrap();
        }
        for other in ["unfinished.", "10.0.0.2", "other.tmp"] {
            fs::write(folder.path().join(other), "").unwrap();
        }
        unfinished.sort();
        assert_eq!(leftovers(&directory).unwrap(), unfinished);
    }

    #[test]
    fn only_an_error_of_a_lacking_function_leads_to_another_way_to_make_a_file() {
        for (error, [links, flags]) in [
            (Errno::PERM, [true, false]),
            (Errno::INVAL, [false, true]),
            (Errno::NOSYS, [true, true]),
            (Errno::OPNOTSUPP, [true, true]),
            (Errno::NOSPC, [false, false]),
            (Errno::IO, [false, false]),
        ] {
            assert_eq!(is_without_links(error), links, "{error}");
            assert_eq!(is_without_flags(error), flags, "{error}");
        }
    }
}
