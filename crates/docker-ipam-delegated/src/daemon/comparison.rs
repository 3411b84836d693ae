//! Compares the addresses, pools, endpoints and networks of the daemon with Docker's.
//!
//! Docker may give up a call without a word to the daemon: a call that finds no daemon, and one
//! whose daemon was killed (`callWithRetry` in moby's `pkg/plugins/client.go`). A dockerd that was
//! killed forgets its running calls. So Docker is asked some time after the start of
//! the daemon, and of a dockerd. Everything that existed when that time began is released if
//! Docker's whole answer, at its end, doesn't name it (`judgement`).

use std::path::Path;
use std::sync::mpsc::Receiver;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::daemon::docker_calls::Drivers;
use crate::docker::engine::Engine;
use crate::ipam::ipam_settling::Forgotten;

/// Interval of the attempts to ask Docker.
const INTERVAL: Duration = Duration::from_secs(60);

/// Interval while endpoints are being made, or can't be undone.
const SOON: Duration = Duration::from_secs(1);

impl Drivers {
    /// Asks Docker on this socket, this time after each message, and again until it has answered.
    pub(crate) fn compare_when_due(&self, due: &Receiver<()>, docker: &Path, after: Duration) {
        while due.recv().is_ok() {
            let before = Instant::now();
            self.networks.take_in_unread();
            let forgotten = self.ipam.take_in().unwrap_or_else(|error| {
                tracing::warn!(%error, "the daemon's files can't be read");
                Vec::new()
            });
            if forgotten.is_empty() && self.ipam.pools.live().is_empty() && self.networks.is_empty()
            {
                continue;
            }
            sleep(after);
            self.compare(docker, before, &forgotten);
            if self.networks.has_abandoned() {
                // A program of a killed daemon, or a plugin, was in the way.
                sleep(SOON);
                self.ipam.compare();
            }
        }
    }

    fn compare(&self, docker: &Path, before: Instant, forgotten: &[Forgotten]) {
        let mut has_failed = false;
        loop {
            match self.settle(docker, before, forgotten) {
                Ok(true) => return tracing::info!("compared with Docker"),
                Ok(false) => {
                    sleep(SOON);
                    continue;
                }
                Err(error) if !has_failed => {
                    tracing::warn!(
                        "Docker can't be asked for what it may have: all is kept: {error:#}"
                    );
                }
                Err(_) => {}
            }
            has_failed = true;
            sleep(INTERVAL);
        }
    }

    /// Releases what Docker doesn't have; false if Docker must be asked again soon: an endpoint is
    /// being made, and nothing was done, or a call works on an endpoint.
    fn settle(&self, docker: &Path, before: Instant, forgotten: &[Forgotten]) -> Result<bool> {
        // Docker may be waiting for the answer to a call, which may need a lock: none is held here.
        let docker = Engine::ask(docker)?;
        // Docker lists an endpoint, and its address, behind the answer to `CreateEndpoint`.
        if self.networks.is_making() {
            return Ok(false);
        }
        let are_settled = self.networks.settle_endpoints(before, &docker);
        self.ipam.settle(before, forgotten, &docker);
        self.networks.settle_networks(before, &docker);
        Ok(are_settled)
    }
}
