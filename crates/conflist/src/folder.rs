//! Finds the network configurations in folders: `*.conflist`, `*.conf` and `*.json` in the order of their
//! names, as the runtimes read them. A file that can't be used hides no other.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use derive_more::Display;
use state_files::open_if_there;

use crate::Conflist;

/// Extensions of network configurations.
pub const EXTENSIONS: [&str; 3] = ["conf", "conflist", "json"];

/// The networks in these folders, and the files that can't be used, each with the reason.
#[derive(Debug, Default)]
pub struct Listing {
    /// The networks, in the order of the files.
    pub conflists: Vec<Conflist>,
    /// The files and folders that can't be used.
    pub problems: Vec<Problem>,
}

/// A file or folder that can't be used.
#[derive(Clone, Debug, Display, PartialEq, Eq)]
#[display("{}: {reason}", path.display())]
pub struct Problem {
    /// Path of the file or folder.
    pub path: PathBuf,
    /// The reason, for people.
    pub reason: String,
}

impl Problem {
    /// The problem of a path.
    pub fn new(path: impl AsRef<Path>, reason: impl Into<String>) -> Self {
        Self {
            path: path.as_ref().to_owned(),
            reason: reason.into(),
        }
    }
}

/// The largest file that is read.
const MOST_BYTES: u64 = 64 << 20;

impl Listing {
    /// Reads these folders. A missing one has no networks.
    pub fn in_folders(folders: &[impl AsRef<Path>]) -> Self {
        let mut found = Self::default();
        for folder in folders {
            match files(folder.as_ref()) {
                Ok(files) => files.iter().for_each(|file| found.add(file)),
                Err(error) => found.problems.push(Problem::new(folder, readable(&error))),
            }
        }
        found
    }

    /// Reads a file.
    pub fn add(&mut self, file: &Path) {
        let read = read(file).map_err(|error| readable(&error));
        match read.and_then(|content| Conflist::parse(file, &content)) {
            Ok(conflist) => self.conflists.push(conflist),
            Err(reason) => self.problems.push(Problem::new(file, reason)),
        }
    }
}

/// Reads a regular file of at most 64 MiB.
///
/// # Errors
///
/// An I/O error; it is something else, such as a pipe, or larger.
pub fn read(file: &Path) -> io::Result<Vec<u8>> {
    state_files::read_regular(file, MOST_BYTES)
}

/// The text of an error, with advice if a permission is missing.
pub fn readable(error: &io::Error) -> String {
    // An error without a number is not the kernel's: our code refuses the file.
    match (error.kind(), error.raw_os_error()) {
        (ErrorKind::PermissionDenied, Some(_)) => format!("{error}; run it as root"),
        _ => error.to_string(),
    }
}

/// The network configurations in a folder, sorted. A folder that is proven to be missing has
/// none.
///
/// # Errors
///
/// The folder cannot be read.
pub fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    files_with(folder, &EXTENSIONS)
}

/// The files in a folder with one of these extensions, sorted. A folder that is proven to be missing has
/// none.
pub(crate) fn files_with(folder: &Path, extensions: &[&str]) -> io::Result<Vec<PathBuf>> {
    let entries = open_if_there(folder, || fs::read_dir(folder))?;
    let mut files = Vec::new();
    for entry in entries.into_iter().flatten() {
        let path = entry?.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        let is_read = extension.is_some_and(|extension| extensions.contains(&extension));
        if is_read && !path.is_dir() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_in_order_and_a_broken_one_hides_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, content: &str| fs::write(folder.path().join(name), content);
        let conf = |name: &str| format!(r#"{{"cniVersion":"1.0.0","name":"{name}","type":"ptp"}}"#);
        write("30-c.json", &conf("c")).unwrap();
        write("10-a.conf", &conf("a")).unwrap();
        write("20-b.conf", "{").unwrap();
        write("40-d.txt", &conf("d")).unwrap();
        fs::create_dir(folder.path().join("50-e.conf")).unwrap();
        let missing = folder.path().join("missing");
        let found = Listing::in_folders(&[missing, folder.path().to_owned()]);
        let names: Vec<&str> = found
            .conflists
            .iter()
            .map(|conflist| conflist.name.as_str())
            .collect();
        assert_eq!(names, ["a", "c"]);
        assert_eq!(found.problems.len(), 1);
        assert!(found.problems[0].path.ends_with("20-b.conf"));
    }
}
