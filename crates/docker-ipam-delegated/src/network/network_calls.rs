//! Docker's calls for networks. A network is a CNI network configuration, whose plugins plumb
//! its endpoints.

use std::sync::Arc;

use serde_json::Value;

use crate::http::answer::Answer;
use crate::http::refusal::{Refusal, cant_remember, impossible};
use crate::ipam::conflists;
use crate::ipam::facts;
use crate::lock::lock;
use crate::network::network_bodies::{CreateNetwork, OfNetwork, Subnet};
use crate::network::network_driver::{LiveNetwork, NetworkDriver};
use crate::state::network::Network;

/// The key under which Docker passes a driver's options on (`netlabel.GenericData`).
const OPTIONS: &str = "com.docker.network.generic";

/// The key under which Docker says that a network has no way out (`netlabel.Internal`).
const INTERNAL: &str = "com.docker.network.internal";

impl NetworkDriver {
    /// `CreateNetwork`. The same network once more is no error: it holds nothing.
    ///
    /// # Errors
    ///
    /// There is no such network configuration.
    pub(crate) fn create_network(
        self: &Arc<Self>,
        request: CreateNetwork,
    ) -> Result<Answer, Refusal> {
        let generic = request.options.get(OPTIONS).and_then(Value::as_object);
        let text =
            |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
        let options = generic.into_iter().flatten().filter_map(text).collect();
        let (conflist, facts) = facts::of_network(options)?;
        let conflist = conflist.ok_or_else(|| {
            impossible("option conflist is missing: give -o conflist=NAME, the network configuration whose plugins make the network")
        })?;
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
        let known = lock(&self.networks).get(&id).cloned();
        match known {
            Some(known) if known.network == network => return Ok(Answer::nothing()),
            Some(_) => return Err(impossible(format!("NetworkID: {id} is there already"))),
            None => {}
        }
        let files = &self.files.networks;
        let file = files
            .make(&network)
            .map_err(|error| cant_remember(&error))?;
        let live = LiveNetwork::new(file.clone(), network);
        lock(&self.networks).insert(id.clone(), live);
        let driver = Arc::clone(self);
        Ok(Answer::nothing().then(move |is_delivered| {
            if !is_delivered {
                tracing::warn!(network = id, "Docker has gone before it had this network");
                lock(&driver.networks).remove(&id);
                driver.files.networks.remove(&file);
            }
        }))
    }

    /// `DeleteNetwork`. An unknown network has been deleted.
    ///
    /// # Errors
    ///
    /// An endpoint that is left can't be undone.
    pub(crate) fn delete_network(&self, request: OfNetwork) -> Result<Answer, Refusal> {
        // From here on, no endpoint can be made in it.
        let network = lock(&self.networks).remove(&request.network_id);
        if let Err(why) = self.end_all_of(&request.network_id) {
            if let Some(network) = network {
                lock(&self.networks).insert(request.network_id, network);
            }
            return Err(why);
        }
        if let Some(network) = network {
            // One step, so there is nothing to finish after a kill.
            self.files.networks.remove(&network.file);
        }
        Ok(Answer::nothing())
    }

    fn end_all_of(&self, network: &str) -> Result<(), Refusal> {
        let mut left = self.endpoints.all();
        left.retain(|live| live.endpoint.plugged.network == network);
        for live in left {
            tracing::warn!(endpoint = live.id(), "left of a network that is deleted");
            self.end_endpoint(live.id())?;
        }
        Ok(())
    }
}
