//! The daemon's lines in the records of attachments. They say what a record is for, in Docker's
//! words.

use std::net::IpAddr;

use chain::record::AttachmentRecord;
use cni::{IpConfig, IpamResult};
use ipam::IpNet;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

/// The folder below the daemon's state folder with the records of addresses.
pub const ADDRESS_RECORDS: &str = "records";

/// The folder below the daemon's state folder with the records of endpoints.
pub const ENDPOINT_RECORDS: &str = "endpoints";

/// The start of the container IDs in the daemon's records.
pub const DOCKER_PREFIX: &str = "docker-";

/// The name of the interface in every record.
pub const IFNAME: &str = "eth0";

/// The line of an attachment's record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallerLine {
    /// An address.
    #[serde(rename = "docker")]
    Address(AddressLine),
    /// An endpoint of the network driver.
    #[serde(rename = "docker_endpoint")]
    Endpoint(EndpointLine),
}

/// Purpose of a reserved address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// An endpoint's, or an auxiliary address of a network.
    Container,
    /// The gateway of a network.
    Gateway,
    /// The network address of a subnet that the daemon chose: the claim of the subnet.
    Subnet,
}

/// What an address is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressLine {
    /// The purpose.
    pub purpose: Purpose,
    /// The pool's ID, as Docker has it.
    pub pool: String,
    /// The pool's subnet.
    pub subnet: IpNet,
    /// The requested address. Without it, the record's result has the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// The name of the container; Docker before 29 doesn't tell it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// An endpoint, by what Docker says of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointLine {
    /// Docker's ID of the endpoint.
    pub id: String,
    /// Docker's ID of its network.
    pub network: String,
    /// The MAC address that Docker gives it, or an empty text.
    pub mac: String,
    /// The addresses that Docker gives it, each with its gateway, which may be empty.
    pub addresses: Vec<(String, String)>,
    /// The published ports, as `runtimeConfig.portMappings` has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<PortMapping>,
}

/// An entry of `runtimeConfig.portMappings` (CNI's `CONVENTIONS.md`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PortMapping {
    /// Port of the host.
    pub host_port: u16,
    /// Port of the container.
    pub container_port: u16,
    /// `tcp`, `udp` or `sctp`.
    pub protocol: String,
    /// Address of the host; empty for all.
    #[serde(rename = "hostIP", default, skip_serializing_if = "String::is_empty")]
    pub host_ip: String,
}

impl CallerLine {
    /// The daemon's line in a record; `None` in a record of another program.
    pub fn of(record: &AttachmentRecord) -> Option<Self> {
        let mut lines = record.caller_lines.iter();
        lines.find_map(|line| serde_json::from_str(line.get()).ok())
    }

    /// The line as it is written.
    pub fn to_raw(&self) -> Box<RawValue> {
        to_raw_value(self).expect("a line is JSON")
    }
}

impl AddressLine {
    /// The address: the requested one, or the one of the subnet in the record's result.
    pub fn address_in(&self, record: &AttachmentRecord) -> Option<IpAddr> {
        let given = || {
            let result = IpamResult::read("the record", record.answer()?).ok()?;
            let mut ips = result.ips.iter().map(IpConfig::ip);
            ips.find(|ip| self.subnet.contains(ip))
        };
        self.address.or_else(given)
    }
}
