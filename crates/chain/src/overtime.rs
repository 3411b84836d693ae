//! Time that a call may take beyond the running time of its delegates: for a lock, and
//! for processes that are being terminated.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// The budget with `delegateTimeout`. The documented bound is three seconds; the
/// difference is for all other work.
const LIMITED: Duration = Duration::from_millis(2_700);

/// The budget without `delegateTimeout`.
const UNLIMITED: Duration = Duration::from_secs(8);

/// A budget of time. Each wait may use half of the rest, so that no number of waits
/// exceeds it.
#[derive(Debug)]
pub(crate) struct Overtime {
    left: Cell<Duration>,
}

impl Overtime {
    /// The budget of a call with or without `delegateTimeout`.
    pub(crate) fn new(is_limited: bool) -> Self {
        let left = if is_limited { LIMITED } else { UNLIMITED };
        Self {
            left: Cell::new(left),
        }
    }

    /// Runs `wait` with the longest time that it may take, and deducts the time that it
    /// took. Returns the result of `wait`.
    pub(crate) fn spend<T>(&self, wait: impl FnOnce(Duration) -> T) -> T {
        let started = Instant::now();
        let done = wait(self.left.get() / 2);
        self.left
            .set(self.left.get().saturating_sub(started.elapsed()));
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_of_waits_exceeds_the_budget() {
        let overtime = Overtime {
            left: Cell::new(Duration::from_millis(64)),
        };
        let mut granted = Duration::ZERO;
        for _ in 0..20 {
            overtime.spend(|most| {
                granted += most;
                std::thread::sleep(most);
            });
        }
        assert!(granted <= Duration::from_millis(64), "{granted:?}");
    }
}
