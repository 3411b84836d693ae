//! Lists the names in a folder.

use std::path::Path;
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
