//! Bodies of Docker's calls of an IPAM driver. A text that is missing is empty.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Options, as Docker passes them on.
pub(crate) type Options = BTreeMap<String, String>;

/// Body of `IpamDriver.RequestPool`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct RequestPool {
    pub(crate) address_space: String,
    pub(crate) pool: String,
    pub(crate) sub_pool: String,
    pub(crate) options: Options,
    pub(crate) v6: bool,
}

/// Body of `IpamDriver.ReleasePool`.
#[derive(Debug, Deserialize)]
pub(crate) struct ReleasePool {
    #[serde(rename = "PoolID")]
    pub(crate) pool_id: String,
    /// The name of the file of the reference to drop. Only `ipamctl` sends it, not Docker.
    #[serde(rename = "Reference", default)]
    pub(crate) reference: Option<String>,
}

/// Body of `IpamDriver.RequestAddress` and `IpamDriver.ReleaseAddress`; a release has no options.
#[derive(Debug, Deserialize)]
pub(crate) struct OfAddress {
    #[serde(rename = "PoolID")]
    pub(crate) pool_id: String,
    #[serde(rename = "Address", default)]
    pub(crate) address: String,
    #[serde(rename = "Options", default)]
    pub(crate) options: Options,
}
