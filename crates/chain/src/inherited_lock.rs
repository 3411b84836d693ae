//! Lock that delegates inherit, so that it is held until all of them have ended.

use std::os::fd::BorrowedFd;

use crate::journal::Journal;

/// The lock that delegates inherit.
#[derive(Clone, Copy)]
pub(crate) enum InheritedLock<'a> {
    None,
    OfAttachment(&'a Journal),
    Other(BorrowedFd<'a>),
}

impl<'a> InheritedLock<'a> {
    /// The open file that holds it.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'a>> {
        match self {
            Self::None => None,
            Self::OfAttachment(journal) => journal.lock_fd(),
            Self::Other(fd) => Some(*fd),
        }
    }
}
