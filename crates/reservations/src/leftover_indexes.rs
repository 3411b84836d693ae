//! Removes indexes of directories that are gone.

use rustix::fs::OFlags;
use state_files::{FileId, StateFolder, names_in};

use crate::index;

/// Removes every index of a directory that isn't at its path any more, and the files of earlier
/// versions and killed processes. Each is a cache: a call that needs a removed index writes it
/// again.
pub(crate) fn remove(folder: &StateFolder) {
    for name in names_in(&folder.path_of("")).unwrap_or_default() {
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

/// True if the directory of this index is at its path, or if the path is unknown.
fn is_current(folder: &StateFolder, name: &str) -> bool {
    let file = folder.open_file(name, OFlags::RDONLY).ok();
    file.and_then(|file| index::directory_of(&file))
        .is_some_and(|(id, path)| {
            path.is_none_or(|path| FileId::of(&path).is_ok_and(|found| found == id))
        })
}
