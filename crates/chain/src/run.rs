//! A run of delegates: one command for all of them, in order, and what is recorded of it.
//!
//! [`Addition`] runs an ADD and undoes it if it fails; [`steps::run`] runs any other command, in which
//! a recorded result stands in for a missing one. [`Execution`] runs programs that are no delegates.
//! This is where calls and records meet: neither knows the other.

use std::os::fd::{AsFd, BorrowedFd};

use crate::call::InheritedLock;
use crate::record::RecordFile;

mod add;
mod execution;
mod merge;
pub(crate) mod steps;
mod threading;

pub use execution::{Execution, forward, versions};

pub(crate) use add::Addition;

/// The lock of an attachment, which its delegates inherit.
impl InheritedLock for RecordFile {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.is_locked.then(|| self.journal.file().as_fd())
    }

    fn leave_to_heirs(&self) {
        self.is_left_to_heirs.set(true);
    }
}
