use std::cell::Cell;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use cni::Cancellation;
use state_files::wait_for;

/// Default of the key `timeout`.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit of a call, and its cancellation: all of its requests and their repetitions together take
/// `timeout`, and the undoing of a failed ADD another one.
pub struct TimeLimit<'a> {
    timeout: Duration,
    end: Cell<Instant>,
    limits_each_request: Cell<bool>,
    is_renewed: Cell<bool>,
    cancellation: Option<&'a dyn Cancellation>,
}

impl<'a> TimeLimit<'a> {
    /// A limit that starts now.
    pub fn new(timeout: Duration, cancellation: Option<&'a dyn Cancellation>) -> Self {
        Self {
            timeout,
            end: Cell::new(Instant::now() + timeout),
            limits_each_request: Cell::new(false),
            is_renewed: Cell::new(false),
            cancellation,
        }
    }

    /// The time that is left of the call.
    pub fn left(&self) -> Duration {
        self.end.get().saturating_duration_since(Instant::now())
    }

    /// Time limit of one request: a slow answer is waited for, and there is time for another attempt.
    pub fn attempt(&self) -> Duration {
        self.left() / 2
    }

    /// Starts the limit again, once, for undoing. From now on, cancellations are ignored.
    pub fn renew(&self) {
        if !self.is_renewed.replace(true) {
            self.end.set(Instant::now() + self.timeout);
        }
    }

    /// From now on, each request and its repetitions together have the whole `timeout`, and the pages
    /// of a list that are answered take nothing of it. For tools.
    pub fn limit_each_request(&self) {
        self.limits_each_request.set(true);
    }

    /// Notes that a new request starts.
    pub(crate) fn start_request(&self) {
        self.set_left(self.timeout);
    }

    /// Notes that a page of a list was answered: as much time is left as before it was requested. Without
    /// an answer, the time goes on, so that the repetition of the list ends.
    pub fn set_left(&self, left: Duration) {
        if self.limits_each_request.get() {
            self.end.set(Instant::now() + left);
        }
    }

    /// True if the call is cancelled, and isn't being undone.
    pub fn is_cancelled(&self) -> bool {
        !self.is_renewed.get() && self.cancellation.is_some_and(Cancellation::is_cancelled)
    }

    /// A descriptor that is readable from the cancellation on; `None` if nothing wakes up who waits.
    pub(crate) fn cancellation(&self) -> Option<BorrowedFd<'_>> {
        let heeded = self.cancellation.filter(|_| !self.is_renewed.get())?;
        heeded.fd().ok()
    }

    /// Waits, unless the time is up before. A cancellation ends the wait. Returns true if the
    /// request may be repeated.
    pub(crate) fn pause(&self, time: Duration) -> bool {
        if self.is_cancelled() || time >= self.left() {
            return false;
        }
        wait_for([self.cancellation()], Some(time)).is_ok_and(|[cancelled]| !cancelled)
    }
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;

    use super::*;

    #[test]
    fn answered_pages_of_a_tools_list_take_no_time_and_pauses_do() {
        let timeout = Duration::from_secs(1);
        let limit = TimeLimit::new(timeout, None);
        limit.limit_each_request();
        limit.start_request();
        for _ in 0..3 {
            let left = limit.left();
            sleep(timeout / 2);
            limit.set_left(left);
        }
        assert!(!limit.left().is_zero());
        let pauses = (0..20).take_while(|_| limit.pause(timeout / 10));
        assert!(pauses.count() < 20);
    }
}
