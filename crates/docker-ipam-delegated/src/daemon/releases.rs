//! Repeats releases that have failed, of addresses and endpoints: one list, with one worker for each
//! network. A plugin that hangs keeps only its own network waiting.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result};

use crate::daemon::docker_calls::Drivers;
use crate::http::refusal::message;
use crate::threads::lock;

/// A release that has failed before.
type Release = Box<dyn Fn() -> Result<()> + Send>;

impl Drivers {
    /// Tries unfinished and failed releases again, without waiting for them.
    pub(crate) fn repeat_releases(&self) {
        for (network, all) in self.unreleased() {
            if !lock(&self.busy).insert(network.clone()) {
                continue;
            }
            let busy = Arc::clone(&self.busy);
            thread::spawn(move || {
                for release in all {
                    if let Err(error) = release() {
                        tracing::warn!(error = message(&error), "can't be released now");
                    }
                }
                lock(&busy).remove(&network);
            });
        }
    }

    /// The list, by networks: the pool of an address, the network configuration of an endpoint.
    fn unreleased(&self) -> BTreeMap<String, Vec<Release>> {
        let mut by_network: BTreeMap<String, Vec<Release>> = BTreeMap::new();
        for allocation in self.ipam.allocations.unreleased() {
            let of_pool = by_network.entry(allocation.pool.id()).or_default();
            let ipam = Arc::clone(&self.ipam);
            let release = move || ipam.release(&allocation).context(allocation.id.clone());
            of_pool.push(Box::new(release));
        }
        let unfinished = lock(&self.networks.unfinished).clone();
        for (network, id) in unfinished {
            let of_network = by_network.entry(network.to_string()).or_default();
            let networks = Arc::clone(&self.networks);
            let release = move || networks.end_endpoint(&network, &id).context(id.clone());
            of_network.push(Box::new(release));
        }
        by_network
    }
}
