//! Files and folders of an earlier daemon that can't be read: they are kept, and tried again.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::threads::lock;

/// A file or folder that can't be read, with the reason.
pub(crate) type Unread = (PathBuf, String);

/// The files that could not be read at the last attempt.
#[derive(Default)]
pub(crate) struct UnreadFiles(Mutex<Vec<Unread>>);

impl UnreadFiles {
    /// Replaces the list after an attempt; warns of each file that wasn't in it.
    pub(crate) fn replace(&self, now: Vec<Unread>) {
        let mut unread = lock(&self.0);
        for (path, reason) in &now {
            if unread.iter().all(|(known, _)| known != path) {
                tracing::warn!(reason, path = %path.display(), "can't be read: it is kept");
            }
        }
        *unread = now;
    }

    /// Calls `take_in` to read the files again, if there are any.
    pub(crate) fn try_again<T>(&self, take_in: impl FnOnce() -> io::Result<T>) {
        let is_empty = lock(&self.0).is_empty();
        if !is_empty && let Err(error) = take_in() {
            tracing::warn!(%error, "the daemon's files can't be read");
        }
    }

    /// The first file in this folder that can't be read.
    pub(crate) fn first_in(&self, folder: &Path) -> Option<Unread> {
        let unread = lock(&self.0);
        let mut files = unread.iter();
        files.find(|(path, _)| path.starts_with(folder)).cloned()
    }
}
