//! Waits for several descriptors at once.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;

/// Waits at most `at_most` until the descriptor is readable or closed. Returns whether it is.
///
/// # Errors
///
/// An I/O error of `poll`.
pub fn wait_readable(fd: impl AsFd, at_most: Duration) -> io::Result<bool> {
    wait_for([Some(fd.as_fd())], Some(at_most)).map(|[ready]| ready)
}

/// Waits until one of the descriptors is readable or closed, and returns which.
///
/// # Errors
///
/// An I/O error of `poll`.
pub fn wait_for<const N: usize>(
    fds: [Option<BorrowedFd<'_>>; N],
    timeout: Option<Duration>,
) -> io::Result<[bool; N]> {
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    let mut polled: Vec<PollFd<'_>> = fds
        .iter()
        .flatten()
        .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN))
        .collect();
    retry_on_intr(|| poll(&mut polled, timeout.as_ref()))?;
    let mut answers = polled.iter().map(|fd| !fd.revents().is_empty());
    Ok(fds.map(|fd| fd.is_some() && answers.next().unwrap_or_default()))
}

/// Waits at most `at_most` until the descriptor is writable or closed. Returns whether it is.
///
/// # Errors
///
/// An I/O error of `poll`.
pub fn wait_writable(fd: impl AsFd, at_most: Duration) -> io::Result<bool> {
    let timeout = Timespec::try_from(at_most).ok();
    let mut polled = [PollFd::new(&fd, PollFlags::OUT)];
    retry_on_intr(|| poll(&mut polled, timeout.as_ref()))?;
    Ok(!polled[0].revents().is_empty())
}
