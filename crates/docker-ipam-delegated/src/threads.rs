use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex. If a thread panicked while it held the lock, the value is still consistent, so it
/// is used.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
