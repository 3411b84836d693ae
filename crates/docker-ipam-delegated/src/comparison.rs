//! Compares what an earlier daemon made with what Docker has.
//!
//! If the daemon is killed while a call runs, Docker repeats the call with an empty body
//! (`callWithRetry` in moby's `pkg/plugins/client.go` has one buffer for all tries), and
//! gives up when that is refused. So Docker may not know of what was made, and may have
//! released what is still there. All is kept until Docker, which may have had an answer
//! nevertheless, has had time to go on with it. Then Docker is asked.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use ipam::IpNet;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::endpoint::{Endpoint, LiveEndpoint};
use crate::engine::Engine;
use crate::ipam_driver::IpamDriver;
use crate::journal::Journal;
use crate::network_driver::NetworkDriver;
use crate::pool::Address;
use crate::releases::Release;
use crate::state::lock;

/// Interval of the attempts to ask Docker.
const INTERVAL: Duration = Duration::from_secs(60);

/// An address, or a gateway, of an earlier daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EarlierAddress {
    /// The ID of its pool.
    pub(crate) pool: String,
    /// The pool's subnet.
    pub(crate) subnet: IpNet,
    pub(crate) ip: IpAddr,
    /// The name of its file.
    pub(crate) file: String,
    /// Docker has had it.
    pub(crate) is_answered: bool,
}

/// All that may be missing in Docker.
pub(crate) struct Comparison {
    pub(crate) ipam: Arc<IpamDriver>,
    pub(crate) networks: Arc<NetworkDriver>,
    pub(crate) addresses: Vec<EarlierAddress>,
}

impl Comparison {
    /// Asks Docker after this time, and again until it has said what it has.
    pub(crate) fn start(self, after: Duration, docker: PathBuf) {
        if self.addresses.is_empty() && self.networks.unanswered().is_empty() {
            return;
        }
        let all = Arc::new(self);
        tokio::spawn(async move {
            sleep(after).await;
            let mut has_failed = false;
            loop {
                let (all, socket) = (Arc::clone(&all), docker.clone());
                match spawn_blocking(move || all.settle(&socket)).await {
                    Ok(Ok(())) => return,
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
        });
    }

    /// Keeps what Docker has, and undoes what it doesn't have.
    fn settle(&self, docker: &Path) -> Result<()> {
        let is_left = |it: &&EarlierAddress| self.ipam.state.has(&it.pool, it.ip, &it.file);
        let addresses: Vec<_> = self.addresses.iter().filter(is_left).collect();
        let endpoints = self.networks.unanswered();
        if addresses.is_empty() && endpoints.is_empty() {
            return Ok(());
        }
        // Docker may be waiting for a call of its own: no lock is held here.
        let engine = Engine::ask(docker)?;
        for address in addresses {
            self.ipam.settle(address, &engine);
        }
        for endpoint in endpoints {
            self.networks.settle(&endpoint, &engine);
        }
        Ok(())
    }
}

impl IpamDriver {
    fn settle(&self, address: &EarlierAddress, engine: &Engine) {
        let EarlierAddress {
            pool,
            subnet,
            ip,
            file,
            is_answered,
        } = address;
        if let Some(user) = engine.user_of(*subnet, *ip) {
            if *is_answered {
                return;
            }
            tracing::info!(pool, %ip, user.network, user.container, "Docker has it");
            // If it has been released meanwhile, there is no file.
            if let Ok(mut journal) = Journal::<Address>::open(self.memory.addresses.folder(), file)
            {
                journal.answered();
            }
            return;
        }
        // Without the network, this may be another Docker than the one that has the address.
        if *is_answered && !engine.has_subnet(*subnet) {
            tracing::debug!(pool, %ip, "kept: Docker doesn't have its network");
            return;
        }
        let Some(live) = self.state.pool(pool) else {
            return;
        };
        let Some(file) = self.state.take(pool, *ip, Some(file)) else {
            return;
        };
        tracing::warn!(pool, %ip, "released: Docker doesn't have it");
        self.memory.addresses.note_ending::<Address>(&file.name);
        self.release_with_file(Release {
            pool: live,
            ip: Some(*ip),
            file,
        });
    }
}

impl NetworkDriver {
    /// The endpoints that Docker may not know of.
    fn unanswered(&self) -> Vec<LiveEndpoint> {
        let mut all = self.endpoints.all();
        all.retain(LiveEndpoint::may_be_unknown);
        all
    }

    fn settle(&self, live: &LiveEndpoint, engine: &Engine) {
        let id = &live.endpoint.id;
        let _call = lock(&live.calls);
        // Docker may have joined or deleted it meanwhile.
        let now = self.endpoints.get(id).filter(|it| it.file == live.file);
        if !now.is_some_and(|it| it.may_be_unknown()) {
            return;
        }
        if let Some(user) = engine.user_of_endpoint(id) {
            tracing::info!(endpoint = id, user.network, user.container, "Docker has it");
            let folder = self.endpoint_files().folder();
            if let Ok(mut journal) = Journal::<Endpoint>::open(folder, &live.file) {
                journal.answered();
            }
            self.endpoints.change(id, |it| it.is_unanswered = false);
            return;
        }
        tracing::warn!(endpoint = id, "undone: Docker doesn't have it");
        self.endpoints.change(id, |it| it.is_abandoned = true);
        if let Err(error) = self.end_locked(id, &live.file) {
            tracing::warn!(%error, endpoint = id, "can't be undone now");
        }
    }
}
