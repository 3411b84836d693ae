//! Lists the names in a folder.

use std::path::Path;
use std::str::FromStr;
use std::{fs, io};

use crate::open_if_there;

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

/// The names in a folder that are valid names of this type, in order. A folder that is proven to be
/// missing has none.
///
/// # Errors
///
/// An I/O error: the names are not known.
pub fn parsed_names_in<T: FromStr>(folder: &Path) -> io::Result<Vec<T>> {
    let names = open_if_there(folder, || names_in(folder))?.unwrap_or_default();
    Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
}
