//! Lists the names in a folder.

use std::io::ErrorKind::{NotADirectory, NotFound};
use std::path::Path;
use std::str::FromStr;
use std::{fs, io};

/// The names in a folder, sorted. A name that isn't UTF-8 is left out: no file of ours has one.
///
/// # Errors
///
/// An I/O error: the names are not known.
pub fn names_in(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        names.extend(entry?.file_name().into_string());
    }
    names.sort_unstable();
    Ok(names)
}

/// The names in a folder that are valid names of this type, in order. A missing folder has none.
///
/// # Errors
///
/// An I/O error: the names are not known.
pub fn parsed_names_in<T: FromStr>(folder: &Path) -> io::Result<Vec<T>> {
    match names_in(folder) {
        Err(error) if matches!(error.kind(), NotFound | NotADirectory) => Ok(Vec::new()),
        names => Ok(names?.iter().filter_map(|name| name.parse().ok()).collect()),
    }
}
