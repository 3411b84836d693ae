//! Files that appear with their content in one step, or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open};
use rustix::io::Errno;

use cni::open_to_write;

/// As the newest host-local creates its files.
const MODE: Mode = Mode::from_raw_mode(0o600);

/// The name of a file that is not yet what it will be. There is one of it at
/// most, since only one process at a time writes to the directory.
pub(crate) const UNFINISHED: &str = "unfinished.tmp";

/// A file with content that has no name yet.
pub(crate) struct Nameless {
    file: File,
    /// The name that it has had to be given, on a file system that knows no
    /// nameless files.
    unfinished: Option<PathBuf>,
}

impl Nameless {
    /// Writes `content` to a file in `directory` that nobody sees.
    pub(crate) fn write(directory: &Path, content: &[u8]) -> io::Result<Self> {
        let nameless = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::TMPFILE;
        let mut it = match open(directory, nameless, MODE) {
            Ok(fd) => Self {
                file: fd.into(),
                unfinished: None,
            },
            // The file system has none (EOPNOTSUPP), or the kernel is older
            // than the flag (EISDIR, Linux before 3.11).
            Err(Errno::OPNOTSUPP | Errno::ISDIR) => {
                let path = directory.join(UNFINISHED);
                Self {
                    file: open_to_write(&path, OFlags::CREATE | OFlags::TRUNC)?.0,
                    unfinished: Some(path),
                }
            }
            Err(error) => return Err(error.into()),
        };
        it.file.write_all(content)?;
        Ok(it)
    }

    /// Gives it this name, too; `false` if a file of that name is there.
    pub(crate) fn link(&self, path: &Path) -> io::Result<bool> {
        let linked = match &self.unfinished {
            Some(unfinished) => linkat(CWD, unfinished, CWD, path, AtFlags::empty()),
            None => match linkat(&self.file, "", CWD, path, AtFlags::EMPTY_PATH) {
                // Not root: only through the name that /proc has for it.
                Err(Errno::NOENT | Errno::PERM) => {
                    let name = format!("/proc/self/fd/{}", self.file.as_raw_fd());
                    linkat(CWD, name, CWD, path, AtFlags::SYMLINK_FOLLOW)
                }
                other => other,
            },
        };
        match linked {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Nameless {
    fn drop(&mut self) {
        if let Some(unfinished) = &self.unfinished {
            let _ = fs::remove_file(unfinished);
        }
    }
}

/// Gives the file `name` in `directory` this content, whether it is there or not.
pub(crate) fn replace(directory: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    cni::replace_file_through(&directory.join(UNFINISHED), &directory.join(name), content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn names(directory: &Path) -> Vec<String> {
        fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    #[test]
    fn nothing_is_seen_before_the_file_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let file = Nameless::write(dir.path(), b"content").unwrap();
        assert!(names(dir.path()).is_empty());
        assert!(file.link(&dir.path().join("a")).unwrap());
        drop(file);
        assert_eq!(names(dir.path()), ["a"]);
        assert_eq!(fs::read(dir.path().join("a")).unwrap(), b"content");
        let mode = fs::metadata(dir.path().join("a"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_name_that_is_taken_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a"), "old").unwrap();
        let file = Nameless::write(dir.path(), b"new").unwrap();
        assert!(!file.link(&dir.path().join("a")).unwrap());
        assert_eq!(fs::read(dir.path().join("a")).unwrap(), b"old");
    }

    #[test]
    fn without_nameless_files_an_unfinished_one_does() {
        let dir = tempfile::tempdir().unwrap();
        let unfinished = dir.path().join(UNFINISHED);
        fs::write(&unfinished, "content").unwrap();
        let file = Nameless {
            file: File::open(&unfinished).unwrap(),
            unfinished: Some(unfinished),
        };
        assert!(file.link(&dir.path().join("a")).unwrap());
        assert!(!file.link(&dir.path().join("a")).unwrap());
        drop(file);
        assert_eq!(names(dir.path()), ["a"]);
    }

    #[test]
    fn a_file_is_replaced_by_a_whole_one() {
        let dir = tempfile::tempdir().unwrap();
        replace(dir.path(), "a", b"10.0.0.200").unwrap();
        replace(dir.path(), "a", b"10.0.0.3").unwrap();
        assert_eq!(fs::read(dir.path().join("a")).unwrap(), b"10.0.0.3");
        assert_eq!(names(dir.path()), ["a"]);
    }
}
