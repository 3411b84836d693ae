//! Repeats failed releases, and reads again the files that could not be read.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{sleep, timeout};

use crate::ipam::ipam_driver::IpamDriver;

use crate::network::network_driver::NetworkDriver;

/// Interval of the attempts.
const INTERVAL: Duration = Duration::from_secs(5);

/// The longest that calls wait for what an earlier daemon left to be released. It goes on
/// after that: a delegate that hangs must not keep all networks waiting.
const FIRST_ROUND: Duration = Duration::from_secs(5);

/// Tries each release that waits once, and does so for as long as the daemon runs.
pub(crate) async fn start(ipam: Arc<IpamDriver>, networks: Arc<NetworkDriver>) {
    let mut first = round(&ipam);
    let endpoints = Arc::clone(&networks);
    first.spawn_blocking(move || endpoints.collect());
    if timeout(FIRST_ROUND, all(&mut first)).await.is_err() {
        tracing::warn!("releases of the last start are still running");
    }
    tokio::spawn(async move {
        let mut running = first;
        loop {
            sleep(INTERVAL).await;
            while running.try_join_next().is_some() {}
            let (addresses, endpoints) = (Arc::clone(&ipam), Arc::clone(&networks));
            let read = spawn_blocking(move || {
                addresses.take_in_unread();
                endpoints.take_in_unread();
            });
            let _ = read.await;
            let mut next = round(&ipam);
            running.spawn(async move { all(&mut next).await });
        }
    });
}

/// Tries the releases that wait: those of a pool in turn, and no pool waits for another.
fn round(ipam: &Arc<IpamDriver>) -> JoinSet<()> {
    let mut running = JoinSet::new();
    for pool in ipam.releases.pools() {
        let ipam = Arc::clone(ipam);
        running.spawn_blocking(move || ipam.retry_releases_of(&pool));
    }
    let ipam = Arc::clone(ipam);
    running.spawn_blocking(move || ipam.remove_ended_pools());
    running
}

async fn all(running: &mut JoinSet<()>) {
    while running.join_next().await.is_some() {}
}
