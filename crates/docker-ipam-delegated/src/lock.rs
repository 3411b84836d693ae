//! Locks a mutex, also after a thread has panicked.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks. A thread that has panicked leaves each of these as it was or as it should be.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
