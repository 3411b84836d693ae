//! Repeats failed releases, and reads again the files that could not be read.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::daemon::docker_calls::Drivers;
use crate::threads::run_jobs;

/// Interval of the attempts.
const INTERVAL: Duration = Duration::from_secs(5);

/// The longest time that the daemon's start waits for releases that an earlier daemon has left.
/// They continue after that: a delegate that hangs must not keep all networks waiting.
const FIRST_ROUND: Duration = Duration::from_secs(5);

impl Drivers {
    /// Tries each release that an earlier daemon has left.
    pub(crate) fn release_leftovers(&self) {
        let networks = Arc::clone(&self.networks);
        let mut jobs = self.retries();
        jobs.push(Box::new(move || networks.collect()));
        if !run_jobs(jobs, FIRST_ROUND) {
            tracing::warn!("releases that an earlier daemon left are still running");
        }
    }

    /// Repeats failed releases and reads unreadable files again, as long as the daemon runs.
    pub(crate) fn keep_up(&self) -> ! {
        loop {
            thread::sleep(INTERVAL);
            self.ipam.take_in_unread();
            self.networks.take_in_unread();
            self.ipam.remove_ended_pools();
            run_jobs(self.retries(), Duration::ZERO);
        }
    }

    /// A job for each pool that tries the pool's releases in turn: no pool waits for another.
    fn retries(&self) -> Vec<Box<dyn FnOnce() + Send>> {
        let mut jobs: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
        for pool in self.ipam.pools.all() {
            let (ipam, waiting) = (Arc::clone(&self.ipam), pool.begin_waiting());
            if !waiting.is_empty() {
                jobs.push(Box::new(move || ipam.retry(waiting)));
            }
        }
        jobs
    }
}
