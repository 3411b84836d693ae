//! Time limit of an engine's requests.

use std::time::{Duration, Instant};

/// Time limit of an engine's requests: those of one call share `timeout`.
#[derive(Clone, Copy, Debug)]
pub struct TimeLimit {
    timeout: Duration,
    started: Instant,
    end: Instant,
    bound: Duration,
    is_for_each: bool,
    is_final: bool,
}

impl TimeLimit {
    /// A limit that starts now.
    pub fn new(timeout: Duration) -> Self {
        let started = Instant::now();
        Self {
            timeout,
            started,
            end: started + timeout,
            bound: timeout,
            is_for_each: false,
            is_final: false,
        }
    }

    /// The time that is left.
    pub fn remaining(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    /// The time limit for messages: `timeout`, or less.
    pub fn bound(&self) -> Duration {
        self.bound
    }

    /// Shortens the limit of requests, so that this share of `timeout` (0 to 1) remains for
    /// undoing.
    pub fn keep_for_undoing(&mut self, share: f64) {
        self.end = self.started + self.timeout.mul_f64(1.0 - share.clamp(0.0, 1.0));
    }

    /// From now on, requests may use the whole `timeout`, and cancellations are ignored: a started
    /// change is completed or undone.
    pub fn finish(&mut self) {
        self.end = self.started + self.timeout;
        self.is_final = true;
    }

    /// True after [`Self::finish`]: cancellations are ignored.
    pub fn is_final(&self) -> bool {
        self.is_final
    }

    /// Sets the limit to `time` from now, if that is earlier.
    pub fn shorten(&mut self, time: Duration) {
        self.bound = self.bound.min(time);
        self.end = self.end.min(Instant::now() + time);
    }

    /// From now on, `timeout` limits each request. For tools, whose user can see the progress.
    pub fn bound_each_request(&mut self) {
        self.is_for_each = true;
    }

    /// Starts a request.
    pub fn start_request(&mut self) {
        if self.is_for_each {
            self.end = Instant::now() + self.timeout;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(1000);

    /// The seconds that are left; a part of a second counts as one.
    fn left(limit: &TimeLimit) -> u64 {
        let left = limit.remaining();
        left.as_secs() + u64::from(left.subsec_nanos() > 0)
    }

    #[test]
    fn the_share_for_undoing_is_usable_only_after_the_limit_is_final() {
        let mut limit = TimeLimit::new(TIMEOUT);
        assert_eq!((left(&limit), limit.is_final()), (1000, false));
        limit.keep_for_undoing(0.3);
        assert_eq!((left(&limit), limit.is_final()), (700, false));
        limit.finish();
        assert_eq!((left(&limit), limit.is_final()), (1000, true));
    }

    #[test]
    fn a_limit_is_shortened_and_never_extended() {
        let mut limit = TimeLimit::new(TIMEOUT);
        for (time, seconds) in [(40, 40), (60, 40), (20, 20)] {
            limit.shorten(Duration::from_secs(time));
            let bound = limit.bound();
            assert_eq!((left(&limit), bound.as_secs()), (seconds, seconds));
        }
    }

    #[test]
    fn a_tools_requests_each_have_the_whole_time() {
        let mut limit = TimeLimit::new(TIMEOUT);
        limit.keep_for_undoing(0.3);
        limit.start_request();
        assert_eq!(left(&limit), 700);
        limit.bound_each_request();
        limit.start_request();
        assert_eq!(left(&limit), 1000);
    }
}
