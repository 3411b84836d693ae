//! Jobs that run in threads while their caller may do something else.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// Jobs that were started.
pub(crate) struct Jobs(Receiver<()>);

impl Jobs {
    /// Starts each job in a thread.
    pub(crate) fn start<J: FnOnce() + Send + 'static>(jobs: impl IntoIterator<Item = J>) -> Self {
        let (running, all_ended) = channel();
        for job in jobs {
            let running = running.clone();
            thread::spawn(move || {
                // Dropped at the end of the thread, however it ends.
                let _running = running;
                job();
            });
        }
        Self(all_ended)
    }

    /// Waits for all jobs, at most this long; false if one still runs. It goes on.
    pub(crate) fn wait(self, at_most: Duration) -> bool {
        self.0.recv_timeout(at_most) != Err(RecvTimeoutError::Timeout)
    }
}
