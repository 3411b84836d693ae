//! Runs jobs in threads.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// Runs each job in a thread, and waits at most this long for all of them; false if a job still
/// runs. It continues.
pub(crate) fn run<J: FnOnce() + Send + 'static>(
    jobs: impl IntoIterator<Item = J>,
    at_most: Duration,
) -> bool {
    let (running, all_ended) = channel::<()>();
    for job in jobs {
        let running = running.clone();
        thread::spawn(move || {
            // Dropped at the end of the thread, however it ends.
            let _running = running;
            job();
        });
    }
    drop(running);
    all_ended.recv_timeout(at_most) != Err(RecvTimeoutError::Timeout)
}
