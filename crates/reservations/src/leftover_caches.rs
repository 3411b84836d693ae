//! Removes indexes of directories that are gone.

use std::fs;

use rustix::fs::OFlags;
use state_files::{FileId, StateFolder};

use crate::index;

/// Removes every index whose directory isn't at its path any more, and files that earlier
/// versions and killed processes have left. Each is a cache: a call that needs a removed
/// one writes it anew.
pub(crate) fn remove(folder: &StateFolder) {
    let Ok(entries) = fs::read_dir(folder.path_of("")) else {
        return;
    };
    for entry in entries.flatten() {
        let Some(name) = entry.file_name().to_str().map(str::to_owned) else {
            continue;
        };
        let Some((id, extension)) = parts(&name) else {
            continue;
        };
        let keep = extension == "index" && is_current(folder, &name, id);
        if !keep && folder.remove(&name).is_ok() {
            tracing::debug!(name, "removed the index of a directory that is gone");
        }
    }
}

/// Directory and extension in the name of one of our files.
fn parts(name: &str) -> Option<(FileId, &str)> {
    let (id, extension) = name.split_once('.')?;
    let (dev, ino) = id.split_once('-')?;
    let id = FileId {
        device: dev.parse().ok()?,
        inode: ino.parse().ok()?,
    };
    ["index", "index.tmp", "boot", "tmp"]
        .contains(&extension)
        .then_some((id, extension))
}

fn is_current(folder: &StateFolder, name: &str, id: FileId) -> bool {
    let path = folder
        .open_file(name, OFlags::RDONLY)
        .ok()
        .and_then(|file| index::path_in(&file));
    path.is_some_and(|path| {
        // An index whose path didn't fit is kept.
        path.as_os_str().is_empty() || fs::metadata(path).is_ok_and(|it| FileId::from(&it) == id)
    })
}
