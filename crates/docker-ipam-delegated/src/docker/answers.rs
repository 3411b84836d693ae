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
    #[serde(rename = "IPAM", default)]
    pub(crate) ipam: Ipam,
    #[serde(default)]
    pub(crate) containers: BTreeMap<String, Endpoint>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct Ipam {
    pub(crate) config: Vec<IpamConfig>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct IpamConfig {
    subnet: String,
    pub(crate) gateway: String,
    #[serde(rename = "AuxiliaryAddresses")]
    aux_addresses: BTreeMap<String, String>,
}

/// A container's endpoint, as the network shows it, or a container that runs.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct Endpoint {
    /// Name of the container; only the network shows it.
    pub(crate) name: String,
    /// ID of the network; only the container shows it.
    #[serde(rename = "NetworkID")]
    pub(crate) network_id: String,
    #[serde(rename = "EndpointID")]
    pub(crate) endpoint_id: String,
    #[serde(rename = "IPv4Address", alias = "IPAddress")]
    ipv4_address: String,
    #[serde(rename = "IPv6Address", alias = "GlobalIPv6Address")]
    ipv6_address: String,
}

/// A container of `GET /containers/json`, which lists those that run.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct Running {
    names: Vec<String>,
    pub(crate) network_settings: NetworkSettings,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct NetworkSettings {
    /// The endpoints, by the names of their networks.
    pub(crate) networks: BTreeMap<String, Endpoint>,
}

impl IpamConfig {
    /// The subnet. Docker shows it as it was given, with host bits: `10.88.0.1/16`, too.
    pub(crate) fn subnet(&self) -> Option<IpNet> {
        let subnet: Option<IpNet> = self.subnet.parse().ok();
        subnet.map(|subnet| subnet.trunc())
    }

    /// The gateway and the auxiliary addresses.
    pub(crate) fn ips(&self) -> impl Iterator<Item = IpAddr> {
        let aux = self.aux_addresses.values();
        aux.chain([&self.gateway]).filter_map(address)
    }
}

impl Endpoint {
    pub(crate) fn ips(&self) -> Vec<IpAddr> {
        let texts = [&self.ipv4_address, &self.ipv6_address].into_iter();
        texts.filter_map(address).collect()
    }
}

impl Running {
    pub(crate) fn name(&self) -> &str {
        let name = self.names.first();
        name.map_or("", |name| name.trim_start_matches('/'))
    }
}

/// The address of `10.0.0.2/16` or `10.0.0.2`.
fn address(text: impl AsRef<str>) -> Option<IpAddr> {
    text.as_ref().split('/').next()?.parse().ok()
}
