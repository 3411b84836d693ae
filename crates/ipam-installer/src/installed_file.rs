//! Classifies a file in a folder: missing, wanted, another of this project, foreign.

use std::fs::File;
use std::io::{self, Read};

use memchr::memmem;
use plugin::VERSION_MARK;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use rustix::io::Errno;
use semver::Version;

/// The mode of an installed executable.
pub(crate) const EXECUTABLE: u32 = 0o755;

/// State of an installed file. A comparison of states shows a later change, without a read of the
/// file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileState {
    device: u64,
    inode: u64,
    size: i64,
    mode: u32,
    modified: (i64, u64),
}

impl FileState {
    /// The state of a file in an open folder; `None` if it is missing.
    pub(crate) fn of(folder: &File, name: &str) -> io::Result<Option<Self>> {
        match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(None),
            other => Ok(Some(Self::of_stat(&other?))),
        }
    }

    fn of_stat(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: stat.st_size,
            mode: stat.st_mode,
            modified: (stat.st_mtime, stat.st_mtime_nsec),
        }
    }
}

/// Class of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// There is no such file.
    Nothing,
    /// It has the wanted content and mode. The state was read before the content, so that a later
    /// change is noticed.
    Wanted(FileState),
    /// Another executable of this project with its version; or, without a version, a truncated or
    /// empty file, or one with the wanted content and another mode.
    Ours(Option<Version>),
    /// A foreign file, with its kind.
    Foreign(String),
}

/// Classifies a file in a folder. Doesn't follow links.
///
/// # Errors
///
/// An I/O error: the owner of an unreadable file is unknown. Root without capabilities can't read
/// a file with mode 0.
pub(crate) fn look(folder: &File, name: &str, wanted: &[u8]) -> io::Result<Found> {
    let stat = match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(Found::Nothing),
        other => other?,
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {}
        FileType::Symlink => return Ok(Found::Foreign("a symbolic link".to_owned())),
        FileType::Directory => return Ok(Found::Foreign("a folder".to_owned())),
        _ => return Ok(Found::Foreign("no regular file".to_owned())),
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut content = Vec::new();
    let mut file = match openat(folder, name, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(Found::Nothing),
        other => File::from(other?),
    };
    let state = FileState::of_stat(&fstat(&file)?);
    file.read_to_end(&mut content)?;
    if content == wanted && state.mode & 0o7777 == EXECUTABLE {
        return Ok(Found::Wanted(state));
    }
    if content == wanted || content.is_empty() {
        return Ok(Found::Ours(None));
    }
    Ok(match version_in(&content) {
        Some(version) => Found::Ours(Some(version)),
        // A truncated file of this project.
        None if wanted.starts_with(&content) => Found::Ours(None),
        None => Found::Foreign("no executable of ipam-delegated".to_owned()),
    })
}

/// The version of an executable of this project; `None` for another file.
pub(crate) fn version_in(content: &[u8]) -> Option<Version> {
    let mark = VERSION_MARK.as_bytes();
    memmem::find_iter(content, mark).find_map(|at| {
        let rest = &content[at + mark.len()..];
        let end = rest.iter().take(64).position(|byte| *byte == b')')?;
        Version::parse(str::from_utf8(&rest[..end]).ok()?).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn own_and_foreign_files_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let open = File::open(folder.path()).unwrap();
        let wanted = b"\x7fELF wanted";
        let path = |name: &str| folder.path().join(name);
        let write = |name: &str, content: &[u8]| {
            fs::write(path(name), content).unwrap();
            fs::set_permissions(path(name), Permissions::from_mode(0o755)).unwrap();
        };
        write("same", wanted);
        write("mode", wanted);
        fs::set_permissions(path("mode"), Permissions::from_mode(0o700)).unwrap();
        write("empty", b"");
        write("cut", &wanted[..6]);
        write("older", format!("x{VERSION_MARK}0.0.9)").as_bytes());
        write("script", b"#!/bin/sh\n");
        symlink("same", path("link")).unwrap();
        fs::create_dir(path("folder")).unwrap();
        let look = |name: &str| look(&open, name, wanted).unwrap();
        assert_eq!(look("none"), Found::Nothing);
        assert!(matches!(look("same"), Found::Wanted(_)));
        for name in ["mode", "empty", "cut"] {
            assert_eq!(look(name), Found::Ours(None), "{name}");
        }
        assert_eq!(look("older"), Found::Ours(Some(Version::new(0, 0, 9))));
        for name in ["script", "link", "folder"] {
            assert!(matches!(look(name), Found::Foreign(_)), "{name}");
        }
    }

    #[test]
    fn a_mark_without_a_version_is_passed_over() {
        let marked = |version: &str| format!("{VERSION_MARK}{version})");
        let content = [marked("x"), marked("1.2.3-rc.1")].concat();
        let version = version_in(content.as_bytes()).unwrap();
        assert_eq!(version.to_string(), "1.2.3-rc.1");
        assert_eq!(version_in(marked("").as_bytes()), None);
        assert_eq!(version_in(VERSION_MARK.as_bytes()), None);
    }
}
