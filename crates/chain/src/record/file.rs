//! File of an attachment's record, which is also the attachment's lock.
//!
//! ADD, DEL and GC hold `flock(2)` on it while they work, and so do the delegates that they
//! execute. DEL removes it.

use std::cell::{Cell, RefCell};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use state_files::{FileId, Journal, StateFolder, lock_file};

use crate::leftover_processes::Left;
use crate::record::line::Line;

/// The open file of an attachment's record. [`Self::lock`] locks it.
pub(crate) struct RecordFile {
    folder: StateFolder,
    name: String,
    pub(crate) journal: Journal,
    is_locked: bool,
    /// True if no write has failed.
    is_whole: Cell<bool>,
    /// The processes that have inherited the lock and have not ended.
    left: RefCell<Left>,
}

impl RecordFile {
    pub(crate) fn new(folder: StateFolder, name: String, journal: Journal) -> Self {
        Self {
            folder,
            name,
            journal,
            is_locked: false,
            is_whole: Cell::new(true),
            left: RefCell::default(),
        }
    }

    /// Locks the record; returns `false` if another process still holds it after this time.
    ///
    /// # Errors
    ///
    /// An I/O error; `NotFound` if the file was removed meanwhile, and must be opened again.
    pub(crate) fn lock(&mut self, at_most: Duration) -> io::Result<bool> {
        if !lock_file(self.journal.file(), Some(at_most), None)? {
            return Ok(false);
        }
        let locked = FileId::from(&self.journal.file().metadata()?);
        if locked != self.folder.id_of(&self.name)? {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.is_locked = true;
        Ok(true)
    }

    /// The file itself, for processes that inherit its lock; `None` if it isn't locked.
    pub(crate) fn lock_fd(&self) -> Option<BorrowedFd<'_>> {
        self.is_locked.then(|| self.journal.file().as_fd())
    }

    /// The file itself.
    pub(crate) fn file(&self) -> &File {
        self.journal.file()
    }

    /// Takes note of processes that have inherited the lock and have not ended.
    pub(crate) fn note_left(&self, left: Left) {
        let noted = self.left.take().and(left);
        self.left.replace(noted);
    }

    /// True if a process that has inherited the lock may still be at work.
    pub(crate) fn is_at_work(&self) -> bool {
        self.left.borrow().is_at_work()
    }

    /// Empties the record.
    pub(crate) fn clear(&self) {
        if let Err(error) = self.journal.clear() {
            self.give_up(&error);
        }
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

    /// True if every line was written.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole.get()
    }

    fn give_up(&self, error: &io::Error) {
        self.is_whole.set(false);
        let path = self.folder.path_of(&self.name);
        tracing::warn!(path = %path.display(), %error, "the record can't be written");
    }

    /// Removes the record, and the network's folder with its last record. False if that fails,
    /// which is logged.
    pub(crate) fn remove(self) -> bool {
        let path = self.folder.path_of(&self.name);
        let removed = self.folder.remove(&self.name);
        if let Err(error) = &removed {
            tracing::warn!(path = %path.display(), %error, "the record can't be removed");
        }
        if let Some(folder) = path.parent() {
            let _ = fs::remove_dir(folder);
        }
        removed.is_ok()
    }
}

impl Drop for RecordFile {
    /// The kernel releases the lock when the last process that has inherited it has ended. A
    /// daemon that a delegate has started doesn't work for the attachment any more.
    fn drop(&mut self) {
        if self.is_locked && *self.left.get_mut() == Left::Daemons {
            let _ = flock(self.journal.file(), FlockOperation::Unlock);
        }
    }
}
