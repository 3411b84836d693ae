//! Docker's calls for networks. A network is a CNI network configuration, whose plugins make its
//! endpoints.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::http::answer::Answer;
use crate::ipam::conflists;
use crate::ipam::facts;
use crate::network::network_bodies::{CreateNetwork, OfNetwork, Subnet};
use crate::network::network_driver::{LiveNetwork, NetworkDriver};
use crate::state::endpoint::Network;
use crate::state::files::UNWRITTEN;
use crate::threads::lock;

/// The option that holds the driver's own options (`netlabel.GenericData`).
const OPTIONS: &str = "com.docker.network.generic";

/// The option of a network without a default route (`--internal`, `netlabel.Internal`).
const INTERNAL: &str = "com.docker.network.internal";

impl NetworkDriver {
    /// `CreateNetwork`. A repeated call for the same network is no error: a network holds nothing.
    ///
    /// # Errors
    ///
    /// There is no such network configuration.
    pub(crate) fn create_network(self: &Arc<Self>, request: CreateNetwork) -> Result<Answer> {
        let generic = request.options.get(OPTIONS).and_then(Value::as_object);
        let text =
            |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
        let options = generic.into_iter().flatten().filter_map(text).collect();
        let (conflist, facts) = facts::of_network(options)?;
        let conflist = conflist.context("option conflist is missing: give -o conflist=NAME, the network configuration whose plugins make the network")?;
        conflists::find(&self.conf_dir, &conflist)?;
        let of_docker = |subnet: &&Subnet| !subnet.gateway.is_empty() && !subnet.pool.is_empty();
        let subnets = request.v4.iter().chain(&request.v6).filter(of_docker);
        let network = Network {
            id: request.network_id,
            conflist,
            facts,
            gateways: subnets.map(|subnet| subnet.gateway.clone()).collect(),
            is_internal: request.options.get(INTERNAL) == Some(&Value::Bool(true)),
        };
        let id = network.id.clone();
        let mut networks = lock(&self.networks);
        let known = networks.get(&id);
        let is_same = known.is_none_or(|known| known.network == network);
        ensure!(is_same, "NetworkID: {id} exists already");
        let file = self.files.networks.make(&network).context(UNWRITTEN)?;
        let earlier = networks.insert(id.clone(), LiveNetwork::new(file.clone(), network));
        drop(networks);
        if let Some(earlier) = earlier {
            self.files.networks.remove(&earlier.file);
        }
        let driver = Arc::clone(self);
        Ok(Answer::nothing().then(move |is_delivered| {
            if !is_delivered {
                tracing::warn!(
                    network = id,
                    "Docker closed the connection before it got this network"
                );
                // Docker may have repeated the call.
                let is_of_this_call = |live: &LiveNetwork| live.file == file;
                let mut networks = lock(&driver.networks);
                if networks.get(&id).is_some_and(is_of_this_call) {
                    networks.remove(&id);
                    driver.files.networks.remove(&file);
                }
            }
        }))
    }

    /// `DeleteNetwork`. An unknown network counts as deleted.
    ///
    /// # Errors
    ///
    /// An endpoint of the network can't be undone.
    pub(crate) fn delete_network(&self, request: OfNetwork) -> Result<Answer> {
        // From here on, no endpoint can be made in it.
        let network = lock(&self.networks).remove(&request.network_id);
        if let Err(why) = self.end_all_of(&request.network_id) {
            if let Some(network) = network {
                lock(&self.networks).insert(request.network_id, network);
            }
            return Err(why);
        }
        if let Some(network) = network {
            // The removal is one step, so there is nothing to finish after a kill.
            self.files.networks.remove(&network.file);
        }
        Ok(Answer::nothing())
    }

    fn end_all_of(&self, network: &str) -> Result<()> {
        let mut left = self.endpoints.all();
        left.retain(|live| live.endpoint.plugged.network == network);
        for live in left {
            tracing::warn!(endpoint = live.id(), "undone, since its network is deleted");
            self.end_endpoint(live.id())?;
        }
        Ok(())
    }
}
