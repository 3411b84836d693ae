//! Docker's networks and the containers in them, by Docker's API (version 1.24 and later).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;

use anyhow::{Context, Result};
use ipam::IpNet;
use serde::Deserialize;

use crate::docker::api::call;

/// Docker's whole answer: its networks, and the containers that run.
#[derive(Debug, Default)]
pub struct Engine {
    networks: Vec<Network>,
    /// What running containers say of their networks. Docker may have lost a network whose
    /// containers run on, with live-restore.
    attached: Vec<Attached>,
}

/// Docker's names of what has an address or an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The network.
    pub network: String,
    /// The container; `None` if the network itself has it.
    pub container: Option<String>,
}

/// `GET /networks/ID`, as far as it is needed.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Network {
    #[serde(default)]
    id: String,
    name: String,
    #[serde(rename = "IPAM")]
    ipam: Option<Ipam>,
    containers: Option<BTreeMap<String, Container>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Ipam {
    config: Option<Vec<IpamConfig>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct IpamConfig {
    #[serde(default)]
    subnet: String,
    #[serde(default)]
    gateway: String,
    #[serde(rename = "AuxiliaryAddresses")]
    aux_address: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Container {
    #[serde(default)]
    name: String,
    #[serde(rename = "EndpointID", default)]
    endpoint_id: String,
    #[serde(rename = "IPv4Address", default)]
    ipv4_address: String,
    #[serde(rename = "IPv6Address", default)]
    ipv6_address: String,
}

/// A running container's endpoint, as the container says it.
#[derive(Debug)]
struct Attached {
    network: String,
    container: String,
    endpoint: EndpointSettings,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Listed {
    id: String,
}

/// A container of `GET /containers/json`, as far as it is needed.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Running {
    #[serde(default)]
    names: Vec<String>,
    network_settings: Option<NetworkSettings>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct NetworkSettings {
    networks: Option<BTreeMap<String, EndpointSettings>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct EndpointSettings {
    #[serde(rename = "NetworkID", default)]
    network_id: String,
    #[serde(rename = "EndpointID", default)]
    endpoint_id: String,
    #[serde(rename = "IPAddress", default)]
    ipv4_address: String,
    #[serde(rename = "GlobalIPv6Address", default)]
    ipv6_address: String,
}

impl Engine {
    /// Asks Docker on this socket.
    ///
    /// # Errors
    ///
    /// Docker doesn't answer, or not as expected, or a part of the answer is missing.
    pub fn ask(socket: &Path) -> Result<Self> {
        let get = |path: &str| call(socket, "GET", path, "");
        let place = |path: &str| format!("{}: {path}", socket.display());
        let listed: Vec<Listed> =
            serde_json::from_value(get("/networks")?).with_context(|| place("/networks"))?;
        let mut networks = Vec::new();
        for Listed { id } in listed {
            let path = format!("/networks/{id}");
            // A network that is removed meanwhile is an error: what it had isn't lost yet.
            let network = serde_json::from_value(get(&path)?).with_context(|| place(&path))?;
            networks.push(Network { id, ..network });
        }
        let path = "/containers/json";
        let running: Vec<Running> =
            serde_json::from_value(get(path)?).with_context(|| place(path))?;
        Ok(Self {
            networks,
            attached: running.into_iter().flat_map(Running::attached).collect(),
        })
    }

    /// Docker's names of the network, and of the container, that has this address of this
    /// subnet; `None` if none has it.
    pub fn user_of(&self, subnet: IpNet, ip: IpAddr) -> Option<User> {
        self.user_in(|it| it.has_subnet(subnet), ip)
    }

    /// Docker's names of a network, and of the container, that has this address, whatever
    /// the subnet.
    pub fn user_of_address(&self, ip: IpAddr) -> Option<User> {
        self.user_in(|_| true, ip)
    }

    fn user_in(&self, is_meant: impl Fn(&Network) -> bool, ip: IpAddr) -> Option<User> {
        let networks = self.networks.iter().filter(|it| is_meant(it));
        let of_networks = networks.into_iter().find_map(|network| {
            let mut containers = network.containers.iter().flat_map(BTreeMap::values);
            match containers.find(|it| it.has(ip)) {
                Some(container) => Some(network.user(Some(container))),
                None => network.reserves(ip).then(|| network.user(None)),
            }
        });
        of_networks.or_else(|| self.user_without_network(|it| it.addresses().any(|its| its == ip)))
    }

    /// All addresses in the answer: of containers, gateways and auxiliary ones.
    pub fn addresses(&self) -> BTreeSet<IpAddr> {
        let of_network = |network: &'_ Network| {
            let configs = network.configs();
            let reserved = configs.flat_map(|it| {
                let aux = it.aux_address.iter().flat_map(BTreeMap::values);
                aux.chain([&it.gateway])
            });
            let containers = network.containers.iter().flat_map(BTreeMap::values);
            let of_containers = containers.flat_map(|it| [&it.ipv4_address, &it.ipv6_address]);
            let texts = reserved.chain(of_containers);
            texts.filter_map(|it| address(it)).collect::<Vec<_>>()
        };
        let of_networks = self.networks.iter().flat_map(of_network);
        let attached = self.attached.iter().flat_map(|it| it.endpoint.addresses());
        of_networks.chain(attached).collect()
    }

    /// Docker's name of a network that has this subnet.
    pub fn user_of_subnet(&self, subnet: IpNet) -> Option<User> {
        let mut networks = self.networks.iter();
        let found = networks.find(|it| it.has_subnet(subnet));
        // A container that runs in a network that Docker has lost needs its pool.
        let has = |it: &EndpointSettings| it.addresses().any(|ip| subnet.contains(&ip));
        let network = found.map(|it| it.user(None));
        network.or_else(|| self.user_without_network(has))
    }

    /// True if every network that has this subnet names a gateway.
    pub fn names_gateways(&self, subnet: IpNet) -> bool {
        let networks = self.networks.iter();
        let mut configs = networks.flat_map(Network::configs);
        configs.all(|it| !it.has_subnet(subnet) || !it.gateway.is_empty())
    }

    /// Docker's name of the network of this ID.
    pub fn user_of_network(&self, id: &str) -> Option<User> {
        let mut networks = self.networks.iter();
        let found = networks.find(|it| it.id == id).map(|it| it.user(None));
        found.or_else(|| self.user_without_network(|it| it.network_id == id))
    }

    /// Docker's names of the network and the container of an endpoint.
    pub fn user_of_endpoint(&self, id: &str) -> Option<User> {
        let of_networks = self.networks.iter().find_map(|network| {
            let mut containers = network.containers.iter().flat_map(BTreeMap::values);
            let container = containers.find(|it| it.endpoint_id == id)?;
            Some(network.user(Some(container)))
        });
        of_networks.or_else(|| self.user_without_network(|it| it.endpoint_id == id))
    }

    /// The running container of a network that Docker doesn't list.
    fn user_without_network(&self, is_its: impl Fn(&EndpointSettings) -> bool) -> Option<User> {
        let is_listed = |it: &Attached| {
            let mut networks = self.networks.iter();
            networks.any(|network| network.id == it.endpoint.network_id)
        };
        let mut attached = self.attached.iter().filter(|it| !is_listed(it));
        let found = attached.find(|it| is_its(&it.endpoint))?;
        Some(User {
            network: found.network.clone(),
            container: Some(found.container.clone()),
        })
    }
}

impl Running {
    fn attached(self) -> Vec<Attached> {
        let name = self
            .names
            .first()
            .map_or("", |it| it.trim_start_matches('/'));
        let networks = self.network_settings.and_then(|it| it.networks);
        let each = |(network, endpoint)| Attached {
            network,
            container: name.to_owned(),
            endpoint,
        };
        networks.into_iter().flatten().map(each).collect()
    }
}

impl EndpointSettings {
    fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let texts = [&self.ipv4_address, &self.ipv6_address];
        texts.into_iter().filter_map(|text| address(text))
    }
}

impl Network {
    fn configs(&self) -> impl Iterator<Item = &IpamConfig> {
        let ipam = self.ipam.iter();
        ipam.flat_map(|it| it.config.iter().flatten())
    }

    fn has_subnet(&self, subnet: IpNet) -> bool {
        self.configs().any(|it| it.has_subnet(subnet))
    }

    /// True if it is a gateway or an auxiliary address of the network.
    fn reserves(&self, ip: IpAddr) -> bool {
        self.configs().any(|it| {
            let aux = it.aux_address.iter().flat_map(BTreeMap::values);
            let mut reserved = aux.chain([&it.gateway]);
            reserved.any(|text| address(text) == Some(ip))
        })
    }

    fn user(&self, container: Option<&Container>) -> User {
        User {
            network: self.name.clone(),
            container: container.map(|it| it.name.clone()),
        }
    }
}

impl IpamConfig {
    fn has_subnet(&self, subnet: IpNet) -> bool {
        // Docker shows it as it was given: `10.88.0.1/16`, too.
        let is_same = |it: IpNet| it.trunc() == subnet;
        self.subnet.parse().is_ok_and(is_same)
    }
}

impl Container {
    fn has(&self, ip: IpAddr) -> bool {
        [&self.ipv4_address, &self.ipv6_address]
            .into_iter()
            .any(|text| address(text) == Some(ip))
    }
}

/// The address of `10.0.0.2/16` or `10.0.0.2`.
fn address(text: &str) -> Option<IpAddr> {
    text.split('/').next()?.parse().ok()
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
        let networks = [NONE, SHOP].map(|it| serde_json::from_str(it).unwrap());
        Engine {
            networks: networks.into(),
            attached: Vec::new(),
        }
    }

    fn named(user: &User) -> String {
        let container = user.container.iter().map(|it| format!("/{it}"));
        user.network.clone() + &container.collect::<String>()
    }

    fn user(subnet: &str, ip: &str) -> Option<String> {
        let (subnet, ip) = (subnet.parse().unwrap(), ip.parse().unwrap());
        engine().user_of(subnet, ip).map(|it| named(&it))
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
        let network = serde_json::from_str(&SHOP.replace("10.88.0.0/16", "10.88.0.1/16")).unwrap();
        let engine = Engine {
            networks: vec![network],
            attached: Vec::new(),
        };
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
        let name = |id: &str| engine().user_of_endpoint(id).map(|it| named(&it));
        assert_eq!(name("e1").as_deref(), Some("shop/web-1"));
        assert_eq!(name("e2"), None);
    }

    #[test]
    fn a_running_container_has_its_address_though_docker_has_lost_the_network() {
        let running = r#"{"Names":["/web"],"NetworkSettings":{"Networks":{"lost":{
            "NetworkID":"77","EndpointID":"e7","IPAddress":"10.88.0.7","GlobalIPv6Address":""}}}}"#;
        let running: Running = serde_json::from_str(running).unwrap();
        let mut engine = engine();
        engine.attached = running.attached();
        let (subnet, ip) = (
            "10.88.0.0/16".parse().unwrap(),
            "10.88.0.7".parse().unwrap(),
        );
        let of_address = engine.user_of(subnet, ip);
        assert_eq!(named(&of_address.unwrap()), "lost/web");
        assert_eq!(named(&engine.user_of_endpoint("e7").unwrap()), "lost/web");
        // A network that Docker has says itself who is in it.
        engine.attached[0].endpoint.network_id = "9a".to_owned();
        engine.networks[1].id = "9a".to_owned();
        assert!(engine.user_of(subnet, ip).is_none());
    }
}
