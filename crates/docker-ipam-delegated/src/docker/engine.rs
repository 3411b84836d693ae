//! Docker's networks, and the containers that use their addresses.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use ipam::IpNet;
use serde::de::DeserializeOwned;

use crate::docker::answers::{self, Endpoint, IpamConfig, Listed, Running};
use crate::docker::api::call;
use crate::go_json::without_nulls;

/// Docker's whole answer: the networks that it lists, each followed by its containers, and then
/// the containers that run in networks that it has lost, with live-restore.
#[derive(Debug, Default)]
pub struct Engine(Vec<Use>);

/// Docker's names of what has an address or an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The network.
    pub network: String,
    /// The container; `None` if the network itself has it.
    pub container: Option<String>,
}

/// A use of addresses: by a container, or by the network itself.
#[derive(Debug)]
struct Use {
    network: Arc<Network>,
    container: Option<String>,
    /// Docker's ID of the endpoint; empty for the network itself.
    endpoint_id: String,
    ips: Vec<IpAddr>,
}

#[derive(Debug)]
struct Network {
    id: String,
    name: String,
    /// Its subnets, each with whether the answer names a gateway; `None` for a lost network.
    subnets: Option<Vec<(IpNet, bool)>>,
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
            let mut network: answers::Network = get(socket, &format!("/networks/{id}"))?;
            network.id = id;
            networks.push(network);
        }
        let running: Vec<Running> = get(socket, "/containers/json")?;
        Ok(Self::new(&networks, &running))
    }

    pub(crate) fn new(networks: &[answers::Network], running: &[Running]) -> Self {
        let mut uses = Vec::new();
        for network in networks {
            let configs = &network.ipam.config;
            let subnet = |config: &IpamConfig| Some((config.subnet()?, !config.gateway.is_empty()));
            let listed = Arc::new(Network {
                id: network.id.clone(),
                name: network.name.clone(),
                subnets: Some(configs.iter().filter_map(subnet).collect()),
            });
            uses.push(Use {
                network: Arc::clone(&listed),
                container: None,
                endpoint_id: String::new(),
                ips: configs.iter().flat_map(IpamConfig::ips).collect(),
            });
            let containers = network.containers.values();
            uses.extend(containers.map(|endpoint| Use::of(&listed, &endpoint.name, endpoint)));
        }
        let listed: BTreeSet<&String> = networks.iter().map(|network| &network.id).collect();
        for container in running {
            for (name, endpoint) in &container.network_settings.networks {
                // A listed network's answer names its containers.
                if !listed.contains(&endpoint.network_id) {
                    let lost = Arc::new(Network {
                        id: endpoint.network_id.clone(),
                        name: name.clone(),
                        subnets: None,
                    });
                    uses.push(Use::of(&lost, container.name(), endpoint));
                }
            }
        }
        Self(uses)
    }

    /// Docker's names of the network, and of the container, that has this address of this
    /// subnet; `None` if none has it.
    pub fn user_of(&self, subnet: IpNet, ip: IpAddr) -> Option<User> {
        self.user(|one| {
            let is_of_subnet = match &one.network.subnets {
                Some(subnets) => subnets.iter().any(|other| other.0 == subnet),
                None => true,
            };
            is_of_subnet && one.ips.contains(&ip)
        })
    }

    /// Docker's names of a network, and of the container, that has this address, whatever
    /// the subnet.
    pub fn user_of_address(&self, ip: IpAddr) -> Option<User> {
        self.user(|one| one.ips.contains(&ip))
    }

    /// Docker's names of the network and the container of an endpoint.
    pub fn user_of_endpoint(&self, id: &str) -> Option<User> {
        self.user(|one| one.endpoint_id == id)
    }

    /// Docker's name of the network of this ID.
    pub fn user_of_network(&self, id: &str) -> Option<User> {
        self.user(|one| one.network.id == id)
    }

    /// Docker's name of a network that has this subnet, or of a container that runs in a lost
    /// network and needs the subnet.
    pub fn user_of_subnet(&self, subnet: IpNet) -> Option<User> {
        self.user(|one| match &one.network.subnets {
            Some(subnets) => subnets.iter().any(|other| other.0 == subnet),
            None => one.ips.iter().any(|ip| subnet.contains(ip)),
        })
    }

    /// True if every network that has this subnet names a gateway.
    pub fn names_gateways(&self, subnet: IpNet) -> bool {
        let mut subnets = self
            .0
            .iter()
            .flat_map(|one| one.network.subnets.iter().flatten());
        subnets.all(|(other, has_gateway)| *other != subnet || *has_gateway)
    }

    /// All addresses in the answer: of containers, gateways and auxiliary ones.
    pub fn addresses(&self) -> BTreeSet<IpAddr> {
        self.0
            .iter()
            .flat_map(|one| one.ips.iter().copied())
            .collect()
    }

    /// The first user that is meant: the network itself comes before its containers.
    fn user(&self, is_meant: impl Fn(&Use) -> bool) -> Option<User> {
        let found = self.0.iter().find(|one| is_meant(one))?;
        Some(User {
            network: found.network.name.clone(),
            container: found.container.clone(),
        })
    }
}

impl Use {
    fn of(network: &Arc<Network>, container: &str, endpoint: &Endpoint) -> Self {
        Self {
            network: Arc::clone(network),
            container: Some(container.to_owned()),
            endpoint_id: endpoint.endpoint_id.clone(),
            ips: endpoint.ips(),
        }
    }
}

fn get<T: DeserializeOwned>(socket: &Path, path: &str) -> Result<T> {
    let answer = without_nulls(call(socket, "GET", path, "")?);
    serde_json::from_value(answer).with_context(|| format!("{}: {path}", socket.display()))
}
