//! File of an attachment's record, which is also the attachment's lock.
//!
//! ADD, DEL and GC hold `flock(2)` on it while they work, and so do the delegates that they
//! execute, if this process is killed. DEL removes it.

use std::cell::Cell;
use std::fs;
use std::io;
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, flock};
use state_files::{FileId, Journal, StateFolder, lock_file};

use crate::record::line::Line;

/// The open file of an attachment's record. [`Self::lock`] locks it.
pub(crate) struct RecordFile {
    folder: StateFolder,
    name: String,
    pub(crate) journal: Journal,
    pub(crate) is_locked: bool,
    /// True if no write has failed.
    is_whole: Cell<bool>,
    /// True if the lock is left to the processes that have inherited it, when this is dropped: a
    /// delegate was killed, and what it has started may still be at work.
    pub(crate) is_left_to_heirs: Cell<bool>,
    is_removed: Cell<bool>,
}

impl RecordFile {
    pub(crate) fn new(folder: StateFolder, name: String, journal: Journal) -> Self {
        Self {
            folder,
            name,
            journal,
            is_locked: false,
            is_whole: Cell::new(true),
            is_left_to_heirs: Cell::new(false),
            is_removed: Cell::new(false),
        }
    }

    /// Locks the record; returns `false` if another process still holds it after this time.
    ///
    /// # Errors
    ///
    /// An I/O error; `NotFound` if the file was removed meanwhile, and must be opened again.
    pub(crate) fn lock(&mut self, at_most: Duration) -> io::Result<bool> {
        let path = self.folder.path_of(&self.name);
        if !lock_file(self.journal.file(), &path, Some(at_most), None)? {
            return Ok(false);
        }
        let locked = FileId::from(&self.journal.file().metadata()?);
        if locked != self.folder.id_of(&self.name)? {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.is_locked = true;
        Ok(true)
    }

    /// Empties the record. False if that fails, which is logged.
    pub(crate) fn clear(&self) -> bool {
        if let Err(error) = self.journal.clear() {
            self.give_up(&error);
        }
        self.is_whole.get()
    }

    /// Appends lines in one write. A failure is logged, and no further line is appended:
    /// a DEL works without a record, too.
    pub(crate) fn append(&self, lines: &[Line]) {
        if !self.is_whole.get() {
            return;
        }
        let lines: Vec<Vec<u8>> = lines.iter().map(Line::to_bytes).collect();
        if let Err(error) = self.journal.append(&lines.concat()) {
            self.give_up(&error);
        }
    }

    /// Notes the time of another DEL: gc begins with the attachment that was tried longest ago.
    pub(crate) fn touch(&self) {
        let _ = self.journal.file().set_modified(SystemTime::now());
    }

    /// True if every line was written.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole.get()
    }

    /// No further line is appended, for this reason, which is logged.
    pub(crate) fn give_up(&self, error: &io::Error) {
        self.is_whole.set(false);
        let path = self.folder.path_of(&self.name);
        tracing::warn!(path = %path.display(), %error, "the record can't be written");
    }

    /// Removes the record, and the network's folder with its last record. False if that fails,
    /// which is logged. Later, another call may make a record of this name: nothing is removed
    /// twice.
    pub(crate) fn remove(&self) -> bool {
        if self.is_removed.get() {
            return true;
        }
        let path = self.folder.path_of(&self.name);
        let removed = self.folder.remove(&self.name);
        if let Err(error) = &removed {
            tracing::warn!(path = %path.display(), %error, "the record can't be removed");
        }
        // A GC that holds ADDs back needs the folder.
        let folder = self.folder.file();
        if flock(folder, FlockOperation::NonBlockingLockShared).is_ok() {
            let _ = fs::remove_dir(self.folder.path());
            let _ = flock(folder, FlockOperation::Unlock);
        }
        self.is_removed.set(removed.is_ok());
        removed.is_ok()
    }
}

impl Drop for RecordFile {
    /// Unlocks for all who have inherited the lock: all delegates have ended by themselves, so a
    /// daemon that one of them has started doesn't work for the attachment any more.
    fn drop(&mut self) {
        if self.is_locked && !self.is_left_to_heirs.get() {
            let _ = flock(self.journal.file(), FlockOperation::Unlock);
        }
    }
}
