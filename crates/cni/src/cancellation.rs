use std::io;
use std::os::fd::BorrowedFd;

/// Tells a running call to give up.
///
/// Whoever makes the call provides it: `main` from SIGTERM and SIGINT, a daemon from
/// the connection that asked.
pub trait Cancellation: Sync {
    /// True if the call is to give up.
    fn is_cancelled(&self) -> bool;

    /// A descriptor that is readable from the cancellation on.
    ///
    /// # Errors
    ///
    /// An I/O error, if there is no descriptor. A call then isn't woken up while it waits.
    fn fd(&self) -> io::Result<BorrowedFd<'_>>;
}
