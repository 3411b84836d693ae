//! Threads: jobs that run in some, a bound on those that do one thing at once, and mutexes of
//! threads that may panic.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Locks a mutex. If a thread panicked while it held the lock, the value is still consistent, so it
/// is used.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs each job in a thread, and waits at most this long for all of them; false if a job still
/// runs. It continues.
pub(crate) fn run_jobs<J: FnOnce() + Send + 'static>(
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

/// Turns that threads take.
pub(crate) struct Turns {
    free: Mutex<usize>,
    freed: Condvar,
}

/// A turn. After it is dropped, another thread can take it.
pub(crate) struct Turn<'a>(&'a Turns);

impl Turns {
    /// Turns for this number of threads at once.
    pub(crate) fn new(free: usize) -> Self {
        Self {
            free: Mutex::new(free),
            freed: Condvar::new(),
        }
    }

    /// Takes a turn; waits until there is one.
    pub(crate) fn take(&self) -> Turn<'_> {
        let free = self.freed.wait_while(lock(&self.free), |free| *free == 0);
        *free.unwrap_or_else(PoisonError::into_inner) -= 1;
        Turn(self)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *lock(&self.0.free) += 1;
        self.0.freed.notify_one();
    }
}
