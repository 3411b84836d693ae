//! Compares the addresses, pools, endpoints and networks of the daemon with Docker's.
//!
//! Docker doesn't say everything: a call that finds no daemon is given up, and so is one
//! whose daemon was killed (`callWithRetry` in moby's `pkg/plugins/client.go`); a dockerd
//! that was killed forgets what it was doing. So Docker is asked some time after the start of
//! the daemon, and of a dockerd. What there was when that time began, and Docker doesn't
//! have at its end, is released. Only Docker's whole answer says so (`judgement`).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::docker::engine::Engine;
use crate::ipam::forgotten::Forgotten;
use crate::ipam::given::{GivenAddress, GivenReference};
use crate::ipam::ipam_driver::IpamDriver;
use crate::network::live_endpoints::LiveEndpoint;
use crate::network::network_driver::NetworkDriver;
use crate::state::network::Network;

/// Interval of the attempts to ask Docker.
const INTERVAL: Duration = Duration::from_secs(60);

/// Interval while endpoints are being made, or can't be undone.
const SOON: Duration = Duration::from_secs(1);

/// Asks Docker when it is due.
pub(crate) struct Comparison {
    pub(crate) ipam: Arc<IpamDriver>,
    pub(crate) networks: Arc<NetworkDriver>,
    /// The folder of the records of networks without a network configuration.
    pub(crate) records: PathBuf,
}

/// All that there is at one moment.
struct Snapshot {
    addresses: Vec<GivenAddress>,
    forgotten: Vec<Forgotten>,
    pools: Vec<GivenReference>,
    endpoints: Vec<LiveEndpoint>,
    networks: Vec<Network>,
}

impl Comparison {
    /// The comparison of these drivers, which is due.
    pub(crate) fn new(
        ipam: Arc<IpamDriver>,
        networks: Arc<NetworkDriver>,
        records: PathBuf,
    ) -> Arc<Self> {
        let comparison = Self {
            ipam,
            networks,
            records,
        };
        comparison.is_due();
        Arc::new(comparison)
    }

    /// Notes that Docker may not have all that there is now.
    pub(crate) fn is_due(&self) {
        self.ipam.compare.notify_one();
    }

    /// Asks Docker this time after each moment at which it is due, and again until it has
    /// said what it has.
    pub(crate) fn start(self: Arc<Self>, after: Duration, docker: PathBuf) {
        tokio::spawn(async move {
            loop {
                self.ipam.compare.notified().await;
                let comparison = Arc::clone(&self);
                let snapshot = spawn_blocking(move || comparison.snapshot()).await;
                let Ok(snapshot) = snapshot.map(Arc::new) else {
                    continue;
                };
                if snapshot.is_empty() {
                    continue;
                }
                sleep(after).await;
                self.ask(&snapshot, &docker).await;
                if self.networks.has_abandoned() {
                    // A program of a killed daemon's, or a plugin, was in the way.
                    sleep(SOON).await;
                    self.is_due();
                }
            }
        });
    }

    async fn ask(self: &Arc<Self>, snapshot: &Arc<Snapshot>, docker: &Path) {
        let mut has_failed = false;
        loop {
            let (comparison, snapshot, socket) =
                (Arc::clone(self), Arc::clone(snapshot), docker.to_owned());
            match spawn_blocking(move || comparison.settle(&snapshot, &socket)).await {
                Ok(Ok(true)) => return,
                Ok(Ok(false)) => {
                    sleep(SOON).await;
                    continue;
                }
                Ok(Err(error)) if !has_failed => {
                    tracing::warn!(
                        "Docker can't be asked for what it may have: all is kept: {error:#}"
                    );
                }
                _ => {}
            }
            has_failed = true;
            sleep(INTERVAL).await;
        }
    }

    fn snapshot(&self) -> Snapshot {
        self.ipam.take_in_unread();
        self.networks.take_in_unread();
        Snapshot {
            addresses: self.ipam.pools.addresses(),
            forgotten: self.ipam.forgotten(&self.records),
            pools: self.ipam.pools.references(),
            endpoints: self.networks.endpoints.all(),
            networks: self.networks.all(),
        }
    }

    /// Keeps what Docker has, and releases what it doesn't have; false if Docker must be asked
    /// again soon: an endpoint is being made, and nothing was done, or one is being worked on.
    fn settle(&self, snapshot: &Snapshot, docker: &Path) -> Result<bool> {
        // Docker may be waiting for a call of its own: no lock is held here.
        let docker = Engine::ask(docker)?;
        // Docker lists an endpoint, and its address, behind the answer to `CreateEndpoint`.
        if self.networks.is_making() {
            return Ok(false);
        }
        let mut is_settled = true;
        for endpoint in &snapshot.endpoints {
            is_settled &= self.networks.settle_endpoint(endpoint, &docker);
        }
        self.networks.collect();
        for address in &snapshot.addresses {
            self.ipam.settle_address(address, &docker);
        }
        for forgotten in &snapshot.forgotten {
            self.ipam.settle_forgotten(forgotten, &docker);
        }
        for pool in &snapshot.pools {
            self.ipam.settle_pool(pool, &docker);
        }
        for network in &snapshot.networks {
            self.networks.settle_network(network, &docker);
        }
        if is_settled {
            tracing::info!("compared with Docker");
        }
        Ok(is_settled)
    }
}

impl Snapshot {
    fn is_empty(&self) -> bool {
        self.addresses.is_empty()
            && self.forgotten.is_empty()
            && self.pools.is_empty()
            && self.endpoints.is_empty()
            && self.networks.is_empty()
    }
}
