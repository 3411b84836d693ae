//! Docker's networks and the containers in them, by Docker's API (version 1.24 and later).

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

use anyhow::{Context, Result};
use hyper::Method;
use ipam::IpNet;
use serde::Deserialize;

use crate::http::call;

/// What Docker says of its networks.
#[derive(Debug, Default)]
pub struct Engine {
    networks: Vec<Network>,
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

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Listed {
    id: String,
}

impl Engine {
    /// Asks Docker on this socket.
    ///
    /// # Errors
    ///
    /// Docker doesn't answer, or not as expected.
    pub fn ask(socket: &Path) -> Result<Self> {
        let get = |path: &str| call(socket, Method::GET, path, String::new());
        let listed: Vec<Listed> = serde_json::from_value(get("/networks")?)
            .with_context(|| format!("{}: /networks", socket.display()))?;
        let mut networks = Vec::new();
        for Listed { id } in listed {
            let path = format!("/networks/{id}");
            // A network that is removed meanwhile is an error: what it had isn't lost yet.
            let network = serde_json::from_value(get(&path)?)
                .with_context(|| format!("{}: {path}", socket.display()))?;
            networks.push(network);
        }
        Ok(Self { networks })
    }

    /// Docker's names of the network, and of the container, that has this address of this
    /// subnet; `None` if none has it.
    pub fn user_of(&self, subnet: IpNet, ip: IpAddr) -> Option<User> {
        let networks = self.networks.iter().filter(|it| it.has_subnet(subnet));
        networks.into_iter().find_map(|network| {
            let mut containers = network.containers.iter().flat_map(BTreeMap::values);
            match containers.find(|it| it.has(ip)) {
                Some(container) => Some(network.user(Some(container))),
                None => network.reserves(ip).then(|| network.user(None)),
            }
        })
    }

    /// True if a network of Docker's has this subnet.
    pub fn has_subnet(&self, subnet: IpNet) -> bool {
        self.networks.iter().any(|it| it.has_subnet(subnet))
    }

    /// Docker's names of the network and the container of an endpoint.
    pub fn user_of_endpoint(&self, id: &str) -> Option<User> {
        self.networks.iter().find_map(|network| {
            let mut containers = network.containers.iter().flat_map(BTreeMap::values);
            let container = containers.find(|it| it.endpoint_id == id)?;
            Some(network.user(Some(container)))
        })
    }
}

impl Network {
    fn configs(&self) -> impl Iterator<Item = &IpamConfig> {
        let ipam = self.ipam.iter();
        ipam.flat_map(|it| it.config.iter().flatten())
    }

    fn has_subnet(&self, subnet: IpNet) -> bool {
        // Docker shows it as it was given: `10.88.0.1/16`, too.
        let is_same = |it: IpNet| it.trunc() == subnet;
        self.configs()
            .any(|it| it.subnet.parse().is_ok_and(is_same))
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
mod tests {
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

    fn engine() -> Engine {
        let networks = [NONE, SHOP].map(|it| serde_json::from_str(it).unwrap());
        Engine {
            networks: networks.into(),
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
        };
        let subnet = "10.88.0.0/16".parse().unwrap();
        assert!(engine.has_subnet(subnet));
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
}
