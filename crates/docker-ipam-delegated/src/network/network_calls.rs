//! Docker's calls for networks. A network is a CNI network configuration, whose plugins make its
//! endpoints.

use anyhow::{Context, Result};
use serde_json::Value;

use crate::http::answer::Answer;
use crate::ipam::conflists;
use crate::ipam::facts;
use crate::network::network_bodies::{NetworkCall, Subnet};
use crate::network::network_driver::{Network, NetworkDriver};

/// The option that holds the driver's own options (`netlabel.GenericData`).
const OPTIONS: &str = "com.docker.network.generic";

/// The option of a network without a default route (`--internal`, `netlabel.Internal`).
const INTERNAL: &str = "com.docker.network.internal";

/// The address space of Docker's own IPAM driver.
const DOCKERS_OWN: &str = "LocalDefault";

impl NetworkDriver {
    /// `CreateNetwork`. A repeated call for the same network is no error: a network holds nothing.
    ///
    /// # Errors
    ///
    /// There is no such network configuration.
    pub(crate) fn create_network(&self, request: &NetworkCall) -> Result<Answer> {
        let generic = request.options.get(OPTIONS).and_then(Value::as_object);
        let text =
            |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
        let options = generic.into_iter().flatten().filter_map(text).collect();
        let (conflist, options) = facts::of_network(options)?;
        let conflist = conflist.context("option conflist is missing: give -o conflist=NAME, the network configuration whose plugins make the network")?;
        conflists::find(&self.conf_dir, &conflist)?;
        let subnets: Vec<&Subnet> = request.v4.iter().chain(&request.v6).collect();
        let is_dockers_own = |subnet: &&Subnet| subnet.address_space == DOCKERS_OWN;
        if subnets.iter().any(is_dockers_own) {
            tracing::warn!(
                conflist,
                "Docker's own IPAM driver gives the addresses of this network, past the pools of \
                 its configuration: create it with --ipam-driver null or ipam-delegated"
            );
        }
        let of_docker = |subnet: &&&Subnet| !subnet.gateway.is_empty() && !subnet.pool.is_empty();
        let gateways = subnets.iter().filter(of_docker);
        let network = Network {
            conflist,
            options,
            gateways: gateways.map(|subnet| subnet.gateway.clone()).collect(),
            is_internal: request.options.get(INTERNAL) == Some(&Value::Bool(true)),
        };
        self.write_network(&request.network_id, &network)?;
        Ok(Answer::nothing())
    }

    /// `DeleteNetwork`. An unknown network counts as deleted.
    ///
    /// # Errors
    ///
    /// An endpoint of the network can't be undone: those behind it are undone with it, later.
    pub(crate) fn delete_network(&self, request: &NetworkCall) -> Result<Answer> {
        let id = &request.network_id;
        let mut endpoints = self.endpoints()?;
        endpoints.retain(|endpoint| endpoint.line.network == *id);
        let undone = endpoints.iter().try_for_each(|endpoint| {
            tracing::warn!(endpoint.line.id, "undone, since its network is deleted");
            self.end_endpoint(endpoint.config.name(), &endpoint.line.id)
        });
        if undone.is_err() {
            self.undo_later(&endpoints);
        }
        self.remove_network(id)?;
        undone?;
        Ok(Answer::nothing())
    }
}
