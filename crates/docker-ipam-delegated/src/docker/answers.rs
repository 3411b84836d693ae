//! Answers of Docker's API (version 1.24 and later), as far as they are needed.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipam::IpNet;
use serde::Deserialize;

/// An entry of `GET /networks`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Listed {
    pub(crate) id: String,
}

/// `GET /networks/ID`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Network {
    #[serde(default)]
    pub(crate) id: String,
    pub(crate) name: String,
    #[serde(rename = "IPAM")]
    ipam: Option<Ipam>,
    containers: Option<BTreeMap<String, Container>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Ipam {
    config: Option<Vec<IpamConfig>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct IpamConfig {
    #[serde(default)]
    subnet: String,
    #[serde(default)]
    gateway: String,
    #[serde(rename = "AuxiliaryAddresses")]
    aux_addresses: Option<BTreeMap<String, String>>,
}

/// A container in a network.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Container {
    #[serde(default)]
    pub(crate) name: String,
    #[serde(rename = "EndpointID", default)]
    pub(crate) endpoint_id: String,
    #[serde(rename = "IPv4Address", default)]
    ipv4_address: String,
    #[serde(rename = "IPv6Address", default)]
    ipv6_address: String,
}

/// A container of `GET /containers/json`, which lists those that run.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Running {
    #[serde(default)]
    names: Vec<String>,
    network_settings: Option<NetworkSettings>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct NetworkSettings {
    networks: Option<BTreeMap<String, EndpointSettings>>,
}

/// A running container's endpoint, as the container says it.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct EndpointSettings {
    #[serde(rename = "NetworkID", default)]
    pub(crate) network_id: String,
    #[serde(rename = "EndpointID", default)]
    pub(crate) endpoint_id: String,
    #[serde(rename = "IPAddress", default)]
    ipv4_address: String,
    #[serde(rename = "GlobalIPv6Address", default)]
    ipv6_address: String,
}

impl Network {
    pub(crate) fn configs(&self) -> impl Iterator<Item = &IpamConfig> {
        let ipam = self.ipam.iter();
        ipam.flat_map(|ipam| ipam.config.iter().flatten())
    }

    pub(crate) fn containers(&self) -> impl Iterator<Item = &Container> {
        self.containers.iter().flat_map(BTreeMap::values)
    }
}

impl IpamConfig {
    /// The subnet. Docker shows it as it was given, with host bits: `10.88.0.1/16`, too.
    pub(crate) fn subnet(&self) -> Option<IpNet> {
        let subnet: Option<IpNet> = self.subnet.parse().ok();
        subnet.map(|subnet| subnet.trunc())
    }

    pub(crate) fn has_gateway(&self) -> bool {
        !self.gateway.is_empty()
    }

    /// The gateway and the auxiliary addresses.
    pub(crate) fn ips(&self) -> impl Iterator<Item = IpAddr> {
        let aux = self.aux_addresses.iter().flat_map(BTreeMap::values);
        aux.chain([&self.gateway]).filter_map(|text| address(text))
    }
}

impl Container {
    pub(crate) fn ips(&self) -> Vec<IpAddr> {
        addresses([&self.ipv4_address, &self.ipv6_address])
    }
}

impl Running {
    pub(crate) fn name(&self) -> &str {
        let name = self.names.first();
        name.map_or("", |name| name.trim_start_matches('/'))
    }

    /// Its endpoints, each with the name of the network.
    pub(crate) fn endpoints(&self) -> impl Iterator<Item = (&String, &EndpointSettings)> {
        let settings = self.network_settings.iter();
        settings.flat_map(|settings| settings.networks.iter().flatten())
    }
}

impl EndpointSettings {
    pub(crate) fn ips(&self) -> Vec<IpAddr> {
        addresses([&self.ipv4_address, &self.ipv6_address])
    }
}

fn addresses(texts: [&String; 2]) -> Vec<IpAddr> {
    texts.into_iter().filter_map(|text| address(text)).collect()
}

/// The address of `10.0.0.2/16` or `10.0.0.2`.
fn address(text: &str) -> Option<IpAddr> {
    text.split('/').next()?.parse().ok()
}
