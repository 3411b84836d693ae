//! Answers of Docker's API (version 1.24 and later), as far as they are needed.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::IpAddr;
use std::str::FromStr;

use ipam::IpNet;
use serde::Deserialize;

/// An entry of `GET /networks`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Listed {
    pub(crate) id: String,
}

/// `GET /networks/ID`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Network {
    #[serde(default)]
    pub(crate) id: String,
    pub(crate) name: String,
    #[serde(rename = "IPAM", default)]
    pub(crate) ipam: Ipam,
    #[serde(default)]
    pub(crate) containers: BTreeMap<String, Endpoint>,
    /// True if Docker has lost the network, with live-restore: only a container names it.
    #[serde(skip)]
    pub(crate) is_lost: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct Ipam {
    pub(crate) config: Vec<IpamConfig>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct IpamConfig {
    pub(crate) subnet: Subnet,
    pub(crate) gateway: Address,
    #[serde(rename = "AuxiliaryAddresses")]
    aux_addresses: BTreeMap<String, Address>,
}

/// A container's endpoint, as its network or a running container shows it.
#[derive(Debug, Default, Deserialize)]
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
    ipv4_address: Address,
    #[serde(rename = "IPv6Address", alias = "GlobalIPv6Address")]
    ipv6_address: Address,
}

/// A container of `GET /containers/json`, which lists those that run.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct Running {
    pub(crate) names: Vec<String>,
    pub(crate) network_settings: NetworkSettings,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct NetworkSettings {
    /// The endpoints, by the names of their networks.
    pub(crate) networks: BTreeMap<String, Endpoint>,
}

/// A subnet; `None` for an empty text. Docker shows it as the user gave it, also with host bits:
/// `10.88.0.1/16`.
#[derive(Debug, Default, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Subnet(pub(crate) Option<IpNet>);

impl TryFrom<String> for Subnet {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let subnet: Option<IpNet> = parsed(&text, &text)?;
        Ok(Self(subnet.map(|subnet| subnet.trunc())))
    }
}

/// An address, `10.0.0.2/16` or `10.0.0.2`; `None` for an empty text.
#[derive(Debug, Default, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Address(pub(crate) Option<IpAddr>);

impl TryFrom<String> for Address {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let ip = text.split('/').next().unwrap_or_default();
        parsed(&text, ip).map(Self)
    }
}

/// A part of a text as a value; `None` if the text is empty.
fn parsed<T: FromStr<Err: Display>>(text: &str, part: &str) -> Result<Option<T>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let value = part.parse().map_err(|error| format!("{text:?}: {error}"))?;
    Ok(Some(value))
}

impl Network {
    /// The addresses of the network itself: gateways and auxiliary ones.
    pub(crate) fn ips(&self) -> impl Iterator<Item = IpAddr> {
        let configs = self.ipam.config.iter();
        let of_config = |config: &'_ IpamConfig| -> Vec<IpAddr> {
            let aux = config.aux_addresses.values();
            aux.chain([&config.gateway]).filter_map(|ip| ip.0).collect()
        };
        configs.flat_map(of_config)
    }

    /// True if an endpoint, or without one the network itself, has this address.
    pub(crate) fn has(&self, endpoint: Option<&Endpoint>, ip: IpAddr) -> bool {
        match endpoint {
            Some(endpoint) => endpoint.ips().any(|other| other == ip),
            None => self.ips().any(|other| other == ip),
        }
    }

    /// True if this is a subnet of the network.
    pub(crate) fn has_subnet(&self, subnet: IpNet) -> bool {
        let mut configs = self.ipam.config.iter();
        configs.any(|config| config.subnet.0 == Some(subnet))
    }

    /// True if one of its containers has an address in this subnet.
    pub(crate) fn has_address_in(&self, subnet: IpNet) -> bool {
        let mut ips = self.containers.values().flat_map(Endpoint::ips);
        ips.any(|ip| subnet.contains(&ip))
    }
}

impl Endpoint {
    /// The addresses.
    pub(crate) fn ips(&self) -> impl Iterator<Item = IpAddr> {
        let ips = [&self.ipv4_address, &self.ipv6_address].into_iter();
        ips.filter_map(|ip| ip.0)
    }
}
