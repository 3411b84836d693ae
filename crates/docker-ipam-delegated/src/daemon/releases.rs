//! Repeats releases that have failed, of addresses and endpoints: one list, with one worker for each
//! network. A plugin that hangs keeps only its own network waiting.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

use anyhow::Result;

use crate::daemon::docker_calls::Drivers;
use crate::http::refusal::message;
use crate::threads::lock;

/// What could not be released.
struct Unreleased {
    id: String,
    release: Box<dyn Fn() -> Result<()> + Send>,
}

impl Drivers {
    /// Tries unfinished and failed releases again, without waiting for them.
    pub(crate) fn repeat_releases(&self) {
        for (network, all) in self.unreleased() {
            if !lock(&self.busy).insert(network.clone()) {
                continue;
            }
            let busy = Arc::clone(&self.busy);
            thread::spawn(move || {
                for Unreleased { id, release } in all {
                    if let Err(error) = release() {
                        let error = message(&error);
                        tracing::warn!(id, error, "can't be released now");
                    }
                }
                lock(&busy).remove(&network);
            });
        }
    }

    /// The list, by networks: the pool of an address, the network configuration of an endpoint.
    fn unreleased(&self) -> BTreeMap<String, Vec<Unreleased>> {
        let mut by_network: BTreeMap<String, Vec<Unreleased>> = BTreeMap::new();
        for allocation in self.ipam.allocations.unreleased() {
            let of_pool = by_network.entry(allocation.pool.id()).or_default();
            let ipam = Arc::clone(&self.ipam);
            of_pool.push(Unreleased {
                id: allocation.id.to_string(),
                release: Box::new(move || ipam.release(&allocation)),
            });
        }
        for (network, id) in self.networks.unfinished() {
            let of_network = by_network.entry(network.to_string()).or_default();
            let networks = Arc::clone(&self.networks);
            of_network.push(Unreleased {
                id: id.clone(),
                release: Box::new(move || networks.end_endpoint(&network, &id)),
            });
        }
        by_network
    }
}
