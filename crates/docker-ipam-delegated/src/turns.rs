//! A bound on the threads that do one thing at once.

use std::sync::{Condvar, Mutex, PoisonError};

use crate::lock::lock;

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
