//! Waits for several descriptors at once.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Waits until one of the descriptors is readable or closed, this time at most, and returns which
/// are. After a signal, it continues for the time that is left.
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
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut polled, left.as_ref()) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => break,
        }
    }
    let mut answers = polled.iter().map(|fd| !fd.revents().is_empty());
    Ok(fds.map(|fd| fd.is_some() && answers.next().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
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
            let at_most = Some(Duration::from_millis(300));
            let [is_ready] = wait_for([Some(reader.as_fd())], at_most).unwrap();
            is_over.store(true, Ordering::Relaxed);
            assert!(!is_ready);
        });
    }
}
