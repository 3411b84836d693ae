//! Removes indexes that are no longer used, such as those of directories that are gone.

use std::fs;
use std::time::Duration;

use state_files::{StateFolder, names_in};

/// An index that was neither changed nor used for this time is removed.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// Removes every index that was neither changed nor used for a day, and the files of earlier versions
/// and killed processes of the same age. Each is a cache: a call for the directory's own network
/// writes it again. One for another network reads it only ([`Index::note_use`]).
///
/// [`Index::note_use`]: crate::index::Index::note_use
pub(crate) fn remove(folder: &StateFolder) {
    let is_old = |name: &String| {
        let metadata = fs::symlink_metadata(folder.path_of(name));
        let modified = metadata.and_then(|metadata| metadata.modified());
        modified.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > KEPT))
    };
    let is_index = |name: &String| {
        let mut endings = [".index", ".index.tmp", ".boot"].into_iter();
        endings.any(|ending| name.ends_with(ending))
    };
    let names = names_in(&folder.path_of("")).unwrap_or_default();
    for name in names.into_iter().filter(is_index).filter(is_old) {
        if folder.remove(&name).is_ok() {
            tracing::debug!(name, "removed an index that was not used for a day");
        }
    }
}
