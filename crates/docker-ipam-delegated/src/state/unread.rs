//! Files and folders of an earlier daemon that can't be read: they are kept, and tried again.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::lock::lock;

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

    /// True if all files could be read.
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.0).is_empty()
    }

    /// The first file in this folder that can't be read.
    pub(crate) fn first_in(&self, folder: &Path) -> Option<Unread> {
        let unread = lock(&self.0);
        let mut files = unread.iter();
        files.find(|(path, _)| path.starts_with(folder)).cloned()
    }
}
