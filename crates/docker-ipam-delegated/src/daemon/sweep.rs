//! The sweep: releases what Docker has lost.
//!
//! Docker may give up a call and not tell the daemon: if the call finds no daemon, or if the
//! daemon is killed during the call (`callWithRetry` in moby's `pkg/plugins/client.go`). A dockerd
//! that is killed forgets its running calls. A network whose creation fails gives back its pool,
//! but not its gateway and its auxiliary addresses (`ipamAllocateVersion` in libnetwork's
//! `network.go`).

use std::sync::mpsc::Receiver;
use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;

use crate::daemon::docker_calls::Drivers;
use crate::docker::whole_answer::WholeAnswer;

/// The longest time from a start, or from the release of a pool, to the sweep.
const SOON: Duration = Duration::from_secs(2 * 60);

/// Interval of the attempts while Docker doesn't answer.
const WITHOUT_ANSWER: Duration = Duration::from_secs(60);

/// The longest wait for a whole answer of Docker's.
const PATIENCE: Duration = Duration::from_secs(30);

/// Interval of the repetitions of failed releases.
const REPETITION: Duration = Duration::from_secs(5);

impl Drivers {
    /// Sweeps some time after the start, after each message, and else as often as something can
    /// have become old enough.
    pub(crate) fn sweep_when_due(&self, due: &Receiver<()>) -> ! {
        let age = self.ipam.arguments.unanswered_after;
        let mut is_answered = true;
        sleep(age.min(SOON));
        loop {
            let wait = match self.sweep(age) {
                Ok(()) => {
                    is_answered = true;
                    age.max(Duration::from_secs(1))
                }
                Err(error) => {
                    if is_answered {
                        tracing::warn!(
                            "Docker can't be asked what it has; everything is kept: {error:#}"
                        );
                    }
                    is_answered = false;
                    age.clamp(Duration::from_secs(1), WITHOUT_ANSWER)
                }
            };
            // The driver of addresses keeps the sender for as long as the daemon runs.
            if due.recv_timeout(wait).is_ok() {
                sleep(age.min(SOON));
            }
        }
    }

    /// Releases what is of this age and Docker doesn't have.
    fn sweep(&self, age: Duration) -> Result<()> {
        self.ipam.read_unread();
        // Before the question: what is made meanwhile isn't in the answer.
        let addresses = self.ipam.allocations.candidates(age);
        let endpoints = self.networks.endpoints_of_age(age);
        let networks = self.networks.networks_of_age(age);
        if addresses.is_empty() && endpoints.is_empty() && networks.is_empty() {
            tracing::debug!("has nothing that Docker may have lost");
            return Ok(());
        }
        let docker = WholeAnswer::ask(&self.ipam.arguments.docker_socket, PATIENCE)?;
        self.networks.sweep_endpoints(endpoints, &docker);
        for (allocation, ip) in &addresses {
            let (purpose, subnet) = (allocation.purpose, allocation.pool.subnet);
            if docker.has_lost(purpose, subnet, *ip) && self.ipam.allocations.abandon(allocation) {
                tracing::warn!(%ip, %subnet, ?purpose, "released: Docker doesn't have it");
            }
        }
        self.networks.sweep_networks(&networks, &docker);
        self.repeat_releases();
        tracing::debug!("compared with Docker");
        Ok(())
    }

    /// Repeats failed releases as long as the daemon runs; those of earlier daemons at once.
    pub(crate) fn repeat_releases_for_ever(&self) -> ! {
        loop {
            self.repeat_releases();
            sleep(REPETITION);
        }
    }
}
