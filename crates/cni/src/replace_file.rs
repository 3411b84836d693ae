//! Files that are replaced in one step.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};

use crate::open_to_write;

/// Gives the file this content, whether it is there or not. Whoever reads it
/// finds the old one or the new one, whole; only its owner may.
///
/// A process that is killed meanwhile leaves [`unfinished`] behind, which the next
/// one replaces. Two must not do it at once.
///
/// # Errors
///
/// It can't be written; then it is as it was.
pub fn replace_file(path: &Path, content: &[u8]) -> io::Result<()> {
    replace_file_through(&unfinished(path), path, content)
}

/// The same with another name for what is unfinished, on the same file system.
///
/// # Errors
///
/// It can't be written; then it is as it was.
pub fn replace_file_through(unfinished: &Path, path: &Path, content: &[u8]) -> io::Result<()> {
    let (mut file, _) = open_to_write(unfinished, OFlags::CREATE | OFlags::TRUNC)?;
    let written = file
        .write_all(content)
        .and_then(|()| put_in_place(unfinished, path));
    written.inspect_err(|_| {
        let _ = fs::remove_file(unfinished);
    })
}

/// Gives the file at `new` the name `path`, whether there is one of that name or not.
///
/// Not by a plain rename onto another file: ext4 takes that for a wish to have the
/// data on the disk first, and begins to write it (mount(8), `auto_da_alloc`). It
/// costs more than all the rest of a call. So the two files change their names, and
/// the old one goes.
fn put_in_place(new: &Path, path: &Path) -> io::Result<()> {
    match renameat_with(CWD, new, CWD, path, RenameFlags::EXCHANGE) {
        Ok(()) => fs::remove_file(new).or_else(|error| {
            // What was there is no file, and stays.
            renameat_with(CWD, new, CWD, path, RenameFlags::EXCHANGE)?;
            Err(error)
        }),
        // There is no old one, or the file system can't do that.
        Err(_) => fs::rename(new, path),
    }
}

/// What [`replace_file`] leaves behind for this path when it is killed.
pub fn unfinished(path: &Path) -> PathBuf {
    let mut name: OsString = path.into();
    name.push(".tmp");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_by_a_whole_one_or_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        replace_file(&path, b"first, and longer").unwrap();
        replace_file(&path, b"second").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);

        fs::create_dir(dir.path().join("b")).unwrap();
        assert!(replace_file(&dir.path().join("b"), b"x").is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
