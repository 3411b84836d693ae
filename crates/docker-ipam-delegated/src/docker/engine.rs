//! Docker's networks, and the containers that use their addresses.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;

use anyhow::{Context, Result};
use ipam::IpNet;
use serde::de::DeserializeOwned;

use crate::docker::answers::{self, IpamConfig, Listed, Running};
use crate::docker::api::call;

/// Docker's whole answer.
#[derive(Debug, Default)]
pub struct Engine {
    networks: Vec<Network>,
    uses: Vec<Use>,
}

/// Docker's names of what has an address or an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The network.
    pub network: String,
    /// The container; `None` if the network itself has it.
    pub container: Option<String>,
}

#[derive(Debug)]
struct Network {
    id: String,
    name: String,
    /// Its subnets, each with whether the answer names a gateway.
    subnets: Vec<(IpNet, bool)>,
}

/// A use of addresses: by a container, or by the network itself.
#[derive(Debug)]
struct Use {
    user: User,
    network_id: String,
    /// Docker's ID of the endpoint; empty for the network itself.
    endpoint_id: String,
    ips: Vec<IpAddr>,
    /// The subnets of the network; `None` if Docker has lost the network of a container that
    /// runs on, with live-restore.
    subnets: Option<Vec<IpNet>>,
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

    fn new(networks: &[answers::Network], running: &[Running]) -> Self {
        let mut engine = Self::default();
        for network in networks {
            engine.add_network(network);
        }
        for container in running {
            for (network, endpoint) in container.endpoints() {
                let mut listed = engine.networks.iter();
                // A network that Docker lists says itself who is in it.
                if listed.any(|listed| listed.id == endpoint.network_id) {
                    continue;
                }
                engine.uses.push(Use {
                    user: User {
                        network: network.clone(),
                        container: Some(container.name().to_owned()),
                    },
                    network_id: endpoint.network_id.clone(),
                    endpoint_id: endpoint.endpoint_id.clone(),
                    ips: endpoint.ips(),
                    subnets: None,
                });
            }
        }
        engine
    }

    fn add_network(&mut self, network: &answers::Network) {
        let subnets = network.configs();
        let subnets = subnets.filter_map(|config| Some((config.subnet()?, config.has_gateway())));
        let subnets: Vec<(IpNet, bool)> = subnets.collect();
        let one = |container: Option<&answers::Container>, ips| Use {
            user: User {
                network: network.name.clone(),
                container: container.map(|container| container.name.clone()),
            },
            network_id: network.id.clone(),
            endpoint_id: container.map_or_else(String::new, |one| one.endpoint_id.clone()),
            ips,
            subnets: Some(subnets.iter().map(|(subnet, _)| *subnet).collect()),
        };
        let containers = network.containers();
        self.uses
            .extend(containers.map(|container| one(Some(container), container.ips())));
        let own = network.configs().flat_map(IpamConfig::ips).collect();
        self.uses.push(one(None, own));
        self.networks.push(Network {
            id: network.id.clone(),
            name: network.name.clone(),
            subnets,
        });
    }

    /// Docker's names of the network, and of the container, that has this address of this
    /// subnet; `None` if none has it.
    pub fn user_of(&self, subnet: IpNet, ip: IpAddr) -> Option<User> {
        self.user(|one| {
            let mut subnets = one.subnets.iter().flatten();
            let is_of_subnet = one.subnets.is_none() || subnets.any(|other| *other == subnet);
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
        let listed = self.network(|network| network.id == id);
        listed.or_else(|| self.user(|one| one.subnets.is_none() && one.network_id == id))
    }

    /// Docker's name of a network that has this subnet.
    pub fn user_of_subnet(&self, subnet: IpNet) -> Option<User> {
        let has_subnet = |network: &Network| network.subnets.iter().any(|one| one.0 == subnet);
        // A container that runs in a network that Docker has lost needs its pool.
        let is_in_lost =
            |one: &Use| one.subnets.is_none() && one.ips.iter().any(|ip| subnet.contains(ip));
        self.network(has_subnet).or_else(|| self.user(is_in_lost))
    }

    /// True if every network that has this subnet names a gateway.
    pub fn names_gateways(&self, subnet: IpNet) -> bool {
        let mut subnets = self.networks.iter().flat_map(|network| &network.subnets);
        subnets.all(|(other, has_gateway)| *other != subnet || *has_gateway)
    }

    /// All addresses in the answer: of containers, gateways and auxiliary ones.
    pub fn addresses(&self) -> BTreeSet<IpAddr> {
        let uses = self.uses.iter();
        uses.flat_map(|one| one.ips.iter().copied()).collect()
    }

    fn user(&self, is_meant: impl Fn(&Use) -> bool) -> Option<User> {
        let found = self.uses.iter().find(|one| is_meant(one))?;
        Some(found.user.clone())
    }

    fn network(&self, is_meant: impl Fn(&Network) -> bool) -> Option<User> {
        let found = self.networks.iter().find(|network| is_meant(network))?;
        Some(User {
            network: found.name.clone(),
            container: None,
        })
    }
}

fn get<T: DeserializeOwned>(socket: &Path, path: &str) -> Result<T> {
    let answer = call(socket, "GET", path, "")?;
    serde_json::from_value(answer).with_context(|| format!("{}: {path}", socket.display()))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// As Docker 20.10 answers `GET /networks/ID`.
    const SHOP: &str = r#"{"Name":"shop","Id":"9a","Scope":"local","Driver":"bridge",
        "IPAM":{"Driver":"ipam-delegated","Options":{"team":"shop"},"Config":[
            {"Subnet":"10.88.0.0/16","Gateway":"10.88.0.254","AuxiliaryAddresses":{"router":"10.88.5.1"}},
            {"Subnet":"fd00:88::/64"}]},
        "Containers":{"f1":{"Name":"web-1","EndpointID":"e1","MacAddress":"02:42:0a:58:00:02",
            "IPv4Address":"10.88.0.2/16","IPv6Address":"fd00:88::2/64"}},
        "Options":{},"Labels":{}}"#;

    /// Docker's `null` and `host` networks.
    const NONE: &str =
        r#"{"Name":"none","IPAM":{"Driver":"default","Options":null,"Config":[]},"Containers":{}}"#;

    /// A Docker with the network `shop`, whose container `web-1` runs.
    pub(crate) fn engine() -> Engine {
        read(&[NONE, SHOP], &[])
    }

    fn read(networks: &[&str], running: &[&str]) -> Engine {
        let networks = networks
            .iter()
            .map(|json| serde_json::from_str(json).unwrap());
        let running = running
            .iter()
            .map(|json| serde_json::from_str(json).unwrap());
        Engine::new(&networks.collect::<Vec<_>>(), &running.collect::<Vec<_>>())
    }

    fn named(user: &User) -> String {
        let container = user.container.iter().map(|name| format!("/{name}"));
        user.network.clone() + &container.collect::<String>()
    }

    fn user(subnet: &str, ip: &str) -> Option<String> {
        let (subnet, ip) = (subnet.parse().unwrap(), ip.parse().unwrap());
        engine().user_of(subnet, ip).map(|user| named(&user))
    }

    #[test]
    fn an_address_is_a_containers_or_the_networks_own() {
        let v4 = "10.88.0.0/16";
        assert_eq!(user(v4, "10.88.0.2").as_deref(), Some("shop/web-1"));
        assert_eq!(
            user("fd00:88::/64", "fd00:88::2").as_deref(),
            Some("shop/web-1")
        );
        for own in ["10.88.0.254", "10.88.5.1"] {
            assert_eq!(user(v4, own).as_deref(), Some("shop"), "{own}");
        }
        assert_eq!(user(v4, "10.88.0.3"), None);
        // The same address of another pool.
        assert_eq!(user("10.88.0.0/24", "10.88.0.2"), None);
    }

    #[test]
    fn a_subnet_that_was_given_with_host_bits_is_the_same() {
        let engine = read(&[&SHOP.replace("10.88.0.0/16", "10.88.0.1/16")], &[]);
        let subnet = "10.88.0.0/16".parse().unwrap();
        assert!(engine.user_of_subnet(subnet).is_some());
        assert!(
            engine
                .user_of(subnet, "10.88.0.2".parse().unwrap())
                .is_some()
        );
    }

    #[test]
    fn an_endpoint_is_known_by_its_id() {
        let name = |id: &str| engine().user_of_endpoint(id).map(|user| named(&user));
        assert_eq!(name("e1").as_deref(), Some("shop/web-1"));
        assert_eq!(name("e2"), None);
    }

    #[test]
    fn a_running_container_has_its_address_though_docker_has_lost_the_network() {
        let running = r#"{"Names":["/web"],"NetworkSettings":{"Networks":{"lost":{
            "NetworkID":"77","EndpointID":"e7","IPAddress":"10.88.0.7","GlobalIPv6Address":""}}}}"#;
        let engine = read(&[NONE, SHOP], &[running]);
        let (subnet, ip) = (
            "10.88.0.0/16".parse().unwrap(),
            "10.88.0.7".parse().unwrap(),
        );
        let of_address = engine.user_of(subnet, ip);
        assert_eq!(named(&of_address.unwrap()), "lost/web");
        assert_eq!(named(&engine.user_of_endpoint("e7").unwrap()), "lost/web");
        // A network that Docker has says itself who is in it.
        let engine = read(&[NONE, SHOP], &[&running.replace("77", "9a")]);
        assert!(engine.user_of(subnet, ip).is_none());
    }
}
