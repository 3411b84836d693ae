//! Docker's networks, and the containers that use their addresses.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;

use anyhow::{Context, Result};
use ipam::IpNet;
use serde::de::DeserializeOwned;

use crate::docker::answers::{Endpoint, Listed, Network, Running};
use crate::docker::api::call;
use crate::go_json::without_nulls;

/// Docker's whole answer: the networks that it lists, and then those that it has lost, with
/// live-restore, each with one container that runs in it.
#[derive(Debug, Default)]
pub struct Engine(Vec<Network>);

/// The user of an address or an endpoint, by Docker's names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The network.
    pub network: String,
    /// The container; `None` if the network itself has it.
    pub container: Option<String>,
}

impl Engine {
    /// Asks Docker on this socket.
    ///
    /// # Errors
    ///
    /// Docker doesn't answer, or not as expected, or a part of the answer is missing.
    pub fn ask(socket: &Path) -> Result<Self> {
        let listed: Vec<Listed> = get(socket, "/networks")?;
        let mut networks = Vec::new();
        for Listed { id } in listed {
            // A network that is removed meanwhile is an error: what it had isn't lost yet.
            let network: Network = get(socket, &format!("/networks/{id}"))?;
            networks.push(Network { id, ..network });
        }
        let running: Vec<Running> = get(socket, "/containers/json")?;
        Ok(Self::new(networks, running))
    }

    pub(crate) fn new(mut networks: Vec<Network>, running: Vec<Running>) -> Self {
        let ids = networks.iter().map(|network| network.id.clone());
        let listed: BTreeSet<String> = ids.collect();
        for container in running {
            let container_name = container.names.first();
            let container_name = container_name.map_or("", |name| name.trim_start_matches('/'));
            for (name, mut endpoint) in container.network_settings.networks {
                // A listed network's answer names its containers.
                if !listed.contains(&endpoint.network_id) {
                    endpoint.name = container_name.to_owned();
                    networks.push(Network {
                        id: endpoint.network_id.clone(),
                        name,
                        containers: [(String::new(), endpoint)].into(),
                        is_lost: true,
                        ..Network::default()
                    });
                }
            }
        }
        Self(networks)
    }

    /// True if every network that has this subnet names a gateway. A lost network doesn't.
    pub(crate) fn names_gateways(&self, subnet: IpNet) -> bool {
        let mut lost = self.0.iter().filter(|network| network.is_lost);
        if lost.any(|network| network.has_address_in(subnet)) {
            return false;
        }
        let mut configs = self.0.iter().flat_map(|network| &network.ipam.config);
        configs.all(|config| config.subnet.0 != Some(subnet) || config.gateway.0.is_some())
    }

    /// All addresses in the answer: of containers, gateways and auxiliary ones.
    pub fn addresses(&self) -> BTreeSet<IpAddr> {
        let networks = self.0.iter();
        let ips = networks.flat_map(|network| {
            let endpoints = network.containers.values();
            network.ips().chain(endpoints.flat_map(Endpoint::ips))
        });
        ips.collect()
    }

    /// The first match: a network itself, without an endpoint, comes before its containers. A lost
    /// network has only its container.
    pub(crate) fn user(
        &self,
        is_meant: impl Fn(&Network, Option<&Endpoint>) -> bool,
    ) -> Option<User> {
        self.0.iter().find_map(|network| {
            let own = (!network.is_lost).then_some(None);
            let mut users = own.into_iter().chain(network.containers.values().map(Some));
            let found = users.find(|endpoint| is_meant(network, *endpoint))?;
            Some(User {
                network: network.name.clone(),
                container: found.map(|endpoint| endpoint.name.clone()),
            })
        })
    }
}

fn get<T: DeserializeOwned>(socket: &Path, path: &str) -> Result<T> {
    let answer = without_nulls(call(socket, "GET", path, "")?);
    serde_json::from_value(answer).with_context(|| format!("{}: {path}", socket.display()))
}
