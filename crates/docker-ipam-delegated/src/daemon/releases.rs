//! Repeats releases that have failed, of addresses and endpoints: one list, with one worker for each
//! network. A plugin that hangs keeps only its own network waiting.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};
use std::thread;

use anyhow::Result;
use cni::NetworkName;

use crate::daemon::docker_calls::Drivers;
use crate::http::refusal::message;
use crate::ipam::held::Held;
use crate::threads::lock;

/// The networks whose workers run.
pub(crate) type Busy = Arc<Mutex<HashSet<String>>>;

/// What could not be released.
enum Unreleased {
    Address(Arc<Held>),
    /// The name of the network configuration, and Docker's ID.
    Endpoint(NetworkName, String),
}

impl Unreleased {
    fn id(&self) -> &str {
        match self {
            Self::Address(held) => held.id.as_str(),
            Self::Endpoint(_, id) => id,
        }
    }
}

impl Drivers {
    /// Tries unfinished and failed releases again, without waiting for them.
    pub(crate) fn repeat_releases(&self) {
        for (network, all) in self.unreleased() {
            if !lock(&self.busy).insert(network.clone()) {
                continue;
            }
            let drivers = self.clone();
            thread::spawn(move || {
                for one in all {
                    if let Err(error) = drivers.release(&one) {
                        let (id, error) = (one.id(), message(&error));
                        tracing::warn!(id, error, "can't be released now");
                    }
                }
                lock(&drivers.busy).remove(&network);
            });
        }
    }

    /// The list, by networks: the pool of an address, the network configuration of an endpoint.
    fn unreleased(&self) -> BTreeMap<String, Vec<Unreleased>> {
        let mut by_network: BTreeMap<String, Vec<Unreleased>> = BTreeMap::new();
        for held in self.ipam.held.unreleased() {
            let of_pool = by_network.entry(held.pool.text.clone());
            of_pool.or_default().push(Unreleased::Address(held));
        }
        for (network, id) in self.networks.unfinished() {
            let of_network = by_network.entry(network.to_string());
            of_network
                .or_default()
                .push(Unreleased::Endpoint(network, id));
        }
        by_network
    }

    fn release(&self, unreleased: &Unreleased) -> Result<()> {
        match unreleased {
            Unreleased::Address(held) => self.ipam.release(held),
            Unreleased::Endpoint(network, id) => self.networks.end_endpoint(network, id),
        }
    }
}
