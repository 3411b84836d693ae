//! Classifies a file: missing, wanted, another of this project, foreign.

use std::fs::{self, Metadata};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use memchr::memmem;
use plugin::VERSION_MARK;
use rustix::fs::{CWD, Mode, OFlags};
use semver::Version;
use state_files::{FileId, open_regular};

/// The mode of an installed executable.
pub(crate) const EXECUTABLE: u32 = 0o755;

/// State of an installed file. A comparison of states shows a later change, without a read of the
/// file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileState {
    file: FileId,
    /// The change time: the kernel sets it with each write, rename, link and change of the mode.
    changed: (i64, i64),
}

impl FileState {
    /// The state of the file with this metadata.
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self {
            file: metadata.into(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
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
    Foreign(&'static str),
}

/// Classifies a file. Doesn't follow links.
///
/// # Errors
///
/// An I/O error: the owner of an unreadable file is unknown. Root without capabilities can't read
/// a file with mode 0.
pub(crate) fn look(path: &Path, wanted: &[u8]) -> io::Result<Found> {
    let kind = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::Nothing),
        metadata => metadata?.file_type(),
    };
    if !kind.is_file() {
        let foreign = match kind {
            _ if kind.is_symlink() => "a symbolic link",
            _ if kind.is_dir() => "a folder",
            _ => "no regular file",
        };
        return Ok(Found::Foreign(foreign));
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW;
    let (mut file, metadata) = match open_regular(CWD, path, flags, Mode::empty()) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::Nothing),
        opened => opened?,
    };
    let mut content = Vec::new();
    file.read_to_end(&mut content)?;
    if content == wanted && metadata.mode() & 0o7777 == EXECUTABLE {
        return Ok(Found::Wanted(FileState::of(&metadata)));
    }
    if content == wanted || content.is_empty() {
        return Ok(Found::Ours(None));
    }
    Ok(match version_in(&content) {
        Some(version) => Found::Ours(Some(version)),
        // A truncated file of this project.
        None if wanted.starts_with(&content) => Found::Ours(None),
        None => Found::Foreign("no executable of ipam-delegated"),
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
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn own_and_foreign_files_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
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
        let look = |name: &str| look(&path(name), wanted).unwrap();
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
