//! Removes indexes of directories that are gone.

use std::fs;

use rustix::fs::OFlags;
use state_files::{FileId, StateFolder};

use crate::index;

/// Removes every index whose directory isn't at its path any more, and those that earlier
/// versions and killed processes have left. Each is a cache: a call that needs a removed
/// one writes it anew.
pub(crate) fn remove(folder: &StateFolder) {
    let Ok(entries) = fs::read_dir(folder.path_of("")) else {
        return;
    };
    let names = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    for name in names {
        let is_index = name.ends_with(".index");
        let is_left = match is_index {
            true => !is_current(folder, &name),
            false => name.ends_with(".index.tmp") || name.ends_with(".boot"),
        };
        if is_left && folder.remove(&name).is_ok() {
            tracing::debug!(name, "removed the index of a directory that is gone");
        }
    }
}

/// True if the directory of this index is at its path, or if the path isn't known.
fn is_current(folder: &StateFolder, name: &str) -> bool {
    let file = folder.open_file(name, OFlags::RDONLY).ok();
    file.and_then(|file| index::directory_of(&file))
        .is_some_and(|(id, path)| {
            path.is_none_or(|path| FileId::of(&path).is_ok_and(|found| found == id))
        })
}
