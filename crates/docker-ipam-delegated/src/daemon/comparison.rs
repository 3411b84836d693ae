//! Compares the addresses, pools, endpoints and networks of the daemon with Docker's.
//!
//! Docker may give up a call and not tell the daemon: if the call finds no daemon, or if the
//! daemon is killed during the call (`callWithRetry` in moby's `pkg/plugins/client.go`). A dockerd
//! that is killed forgets its running calls. So the daemon asks Docker some time after its own
//! start, after the start of a dockerd, and after a release of something unknown. Of what existed
//! when this time began, everything is released that Docker's answer doesn't name
//! (`docker::judgement`).

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

/// Interval while calls work on endpoints, or endpoints can't be undone.
const SOON: Duration = Duration::from_secs(1);

impl Drivers {
    /// After each message: waits for this time, asks Docker on this socket until it answers, and
    /// releases what Docker doesn't have.
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
                // An undo has failed: a program of a killed daemon still runs, or a plugin failed.
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
                        "Docker can't be asked what it has; everything is kept: {error:#}"
                    );
                }
                Err(_) => {}
            }
            has_failed = true;
            sleep(INTERVAL);
        }
    }

    /// Releases what Docker doesn't have. False if Docker must be asked again soon: an endpoint that
    /// a call works on is kept.
    fn settle(&self, docker: &Path, before: Instant, forgotten: &[Forgotten]) -> Result<bool> {
        // No lock is held here: Docker may answer only after a running call, which may need it.
        let docker = Engine::ask(docker)?;
        let new = self.networks.addresses_made_after(before);
        let are_settled = self.networks.settle_endpoints(before, &docker);
        self.ipam.settle(before, forgotten, &new, &docker);
        self.networks.settle_networks(before, &docker);
        Ok(are_settled)
    }
}
