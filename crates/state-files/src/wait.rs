//! Waits for several descriptors at once.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

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
    let mut polled: Vec<PollFd<'_>> = fds
        .iter()
        .flatten()
        .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN))
        .collect();
    poll_for(&mut polled, timeout)?;
    let mut answers = polled.iter().map(|fd| !fd.revents().is_empty());
    Ok(fds.map(|fd| fd.is_some() && answers.next().unwrap_or_default()))
}

/// Waits at most `at_most` until the descriptor is writable or closed. Returns whether it is.
///
/// # Errors
///
/// An I/O error of `poll`.
pub fn wait_writable(fd: impl AsFd, at_most: Duration) -> io::Result<bool> {
    let mut polled = [PollFd::new(&fd, PollFlags::OUT)];
    poll_for(&mut polled, Some(at_most))?;
    Ok(!polled[0].revents().is_empty())
}

/// Polls, for this time at most. After a signal, it continues for the time that is left.
fn poll_for(polled: &mut [PollFd<'_>], at_most: Option<Duration>) -> io::Result<()> {
    let deadline = at_most.and_then(|at_most| Instant::now().checked_add(at_most));
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(polled, left.as_ref()) {
            Err(Errno::INTR) => {}
            ready => return Ok(ready.map(drop)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use rustix::process::{Signal, kill_process};
    use rustix::thread::gettid;
    use signal_hook::consts::SIGUSR1;

    use super::*;

    #[test]
    fn signals_do_not_make_a_wait_longer() {
        signal_hook::flag::register(SIGUSR1, Arc::new(AtomicBool::new(false))).unwrap();
        let waiting = gettid();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    thread::sleep(Duration::from_millis(50));
                    kill_process(waiting, Signal::USR1).unwrap();
                }
            });
            let (reader, _writer) = io::pipe().unwrap();
            // A wait that began anew after each signal would never end.
            let is_ready = wait_readable(&reader, Duration::from_millis(300)).unwrap();
            is_over.store(true, Ordering::Relaxed);
            assert!(!is_ready);
        });
    }
}
