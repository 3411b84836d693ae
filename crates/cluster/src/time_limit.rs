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
