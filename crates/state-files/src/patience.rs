//! How often and how long a call tries again.

use std::time::Duration;

/// Number of attempts to open or lock a file that other processes replace or remove meanwhile. An
/// attempt fails only if another process does so between two system calls.
pub const MOST_RACES: usize = 100;

/// Longest wait for the lock of an attachment. What a killed call has started ends within
/// milliseconds.
pub const MOST_FOR_LOCK: Duration = Duration::from_secs(2);

/// Longest wait for a reader of stderr. A call must not wait for its log.
pub const MOST_FOR_STDERR: Duration = Duration::from_millis(200);
