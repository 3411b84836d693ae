//! Bodies of Docker's calls of a network driver. A text that is missing is empty, except for an ID.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Body of the calls about a network. Its deletion has only the ID.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct NetworkCall {
    #[serde(rename = "NetworkID")]
    pub(crate) network_id: String,
    #[serde(default)]
    pub(crate) options: BTreeMap<String, Value>,
    #[serde(rename = "IPv4Data", default)]
    pub(crate) v4: Vec<Subnet>,
    #[serde(rename = "IPv6Data", default)]
    pub(crate) v6: Vec<Subnet>,
}

/// Body of the calls about an endpoint. Only its creation has an interface.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct EndpointCall {
    #[serde(rename = "NetworkID")]
    pub(crate) network_id: String,
    #[serde(rename = "EndpointID")]
    pub(crate) endpoint_id: String,
    #[serde(default)]
    pub(crate) interface: Interface,
    #[serde(default)]
    pub(crate) options: BTreeMap<String, Value>,
}

/// An entry of `IPv4Data` or `IPv6Data`. Each value is an address with a prefix length.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct Subnet {
    pub(crate) address_space: String,
    pub(crate) pool: String,
    pub(crate) gateway: String,
}

/// An interface, in the call and in its answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct Interface {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) address: String,
    #[serde(rename = "AddressIPv6", skip_serializing_if = "String::is_empty")]
    pub(crate) address_v6: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) mac_address: String,
}
