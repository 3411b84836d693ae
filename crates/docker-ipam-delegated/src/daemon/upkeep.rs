//! Repeats failed releases, and reads again the files that could not be read.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::ipam::ipam_driver::IpamDriver;
use crate::jobs::Jobs;
use crate::network::network_driver::NetworkDriver;

/// Interval of the attempts.
const INTERVAL: Duration = Duration::from_secs(5);

/// The longest that calls wait for what an earlier daemon left to be released. It goes on
/// after that: a delegate that hangs must not keep all networks waiting.
const FIRST_ROUND: Duration = Duration::from_secs(5);

/// Tries each release that an earlier daemon has left.
pub(crate) fn first(ipam: &Arc<IpamDriver>, networks: &Arc<NetworkDriver>) {
    let networks = Arc::clone(networks);
    let mut jobs = retries(ipam);
    jobs.push(Box::new(move || networks.collect()));
    if !Jobs::start(jobs).wait(FIRST_ROUND) {
        tracing::warn!("releases of the last start are still running");
    }
}

/// Tries each release that waits again and again, for as long as the daemon runs.
pub(crate) fn run(ipam: &Arc<IpamDriver>, networks: &NetworkDriver) -> ! {
    loop {
        thread::sleep(INTERVAL);
        ipam.take_in_unread();
        networks.take_in_unread();
        ipam.remove_ended_pools();
        Jobs::start(retries(ipam));
    }
}

/// Jobs that try the releases that wait: those of a pool in turn, and no pool waits for another.
fn retries(ipam: &Arc<IpamDriver>) -> Vec<Box<dyn FnOnce() + Send>> {
    let mut jobs: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
    for of_pool in ipam.pools.begin_waiting() {
        let ipam = Arc::clone(ipam);
        jobs.push(Box::new(move || ipam.retry(of_pool)));
    }
    jobs
}
