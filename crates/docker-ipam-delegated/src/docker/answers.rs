//! Answers of Docker's API (version 1.24 and later), as far as they are needed. Docker writes an empty
//! list or map as such, or as `null`; a missing one is an error, where Docker always writes it.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use ipam::IpNet;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// A list or map; `null` is an empty one.
pub(crate) fn or_empty<'de, D, T>(source: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(source)?.unwrap_or_default())
}

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
    #[serde(rename = "IPAM")]
    pub(crate) ipam: Ipam,
    #[serde(deserialize_with = "or_empty")]
    pub(crate) containers: BTreeMap<String, Endpoint>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Ipam {
    /// Name of the IPAM driver.
    pub(crate) driver: String,
    #[serde(deserialize_with = "or_empty")]
    pub(crate) config: Vec<IpamConfig>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct IpamConfig {
    #[serde(deserialize_with = "subnet")]
    pub(crate) subnet: Option<IpNet>,
    pub(crate) gateway: Address,
    #[serde(rename = "AuxiliaryAddresses", deserialize_with = "or_empty")]
    aux_addresses: BTreeMap<String, Address>,
}

/// A container's endpoint, as its network or a running container shows it.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct Endpoint {
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
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Running {
    #[serde(deserialize_with = "or_empty")]
    pub(crate) network_settings: NetworkSettings,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct NetworkSettings {
    /// The endpoints, by the names of their networks.
    #[serde(deserialize_with = "or_empty")]
    pub(crate) networks: BTreeMap<String, Option<Endpoint>>,
}

/// A subnet; `None` for an empty text. Docker shows it as the user gave it, also with host bits or
/// leading zeros: `10.88.0.1/016`.
fn subnet<'de, D: Deserializer<'de>>(source: D) -> Result<Option<IpNet>, D::Error> {
    let text = String::deserialize(source)?;
    value(&text, read_subnet, "subnet").map_err(D::Error::custom)
}

/// The value of a text; `None` for an empty one.
fn value<T>(text: &str, read: fn(&str) -> Option<T>, kind: &str) -> Result<Option<T>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let value = read(text).ok_or_else(|| format!("{text:?} is no {kind}"))?;
    Ok(Some(value))
}

fn read_subnet(text: &str) -> Option<IpNet> {
    let (ip, prefix) = text.split_once('/')?;
    let (ip, prefix) = (read_address(ip)?, prefix.parse::<u8>().ok()?);
    let is_mapped = ip.is_ipv4() && text.contains(':');
    let prefix = prefix.checked_sub(if is_mapped { 96 } else { 0 })?;
    Some(IpNet::new(ip, prefix).ok()?.trunc())
}

/// An address, `10.0.0.2/16` or `10.0.0.2`; `None` for an empty text.
#[derive(Debug, Default, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Address(pub(crate) Option<IpAddr>);

impl TryFrom<String> for Address {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let without_prefix = |text: &str| read_address(text.split('/').next()?);
        value(&text, without_prefix, "address").map(Self)
    }
}

/// Reads an address. An IPv4 address may be written as IPv6 (`::ffff:10.0.0.2`), and with leading
/// zeros, as old versions of Docker take it.
fn read_address(text: &str) -> Option<IpAddr> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Some(ip.to_canonical());
    }
    let bytes: Result<Vec<u8>, _> = text.split('.').map(str::parse).collect();
    let bytes: [u8; 4] = bytes.ok()?.try_into().ok()?;
    Some(Ipv4Addr::from(bytes).into())
}

impl Network {
    /// The addresses of the network itself: gateways and auxiliary ones.
    pub(crate) fn ips(&self) -> impl Iterator<Item = IpAddr> {
        let configs = self.ipam.config.iter();
        let ips = configs.flat_map(|config| config.aux_addresses.values().chain([&config.gateway]));
        ips.filter_map(|ip| ip.0)
    }
}

impl Endpoint {
    /// The addresses.
    pub(crate) fn ips(&self) -> impl Iterator<Item = IpAddr> {
        let ips = [&self.ipv4_address, &self.ipv6_address].into_iter();
        ips.filter_map(|ip| ip.0)
    }
}
