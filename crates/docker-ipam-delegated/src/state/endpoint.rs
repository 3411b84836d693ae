//! An endpoint of the network driver, as it is remembered.

use serde::{Deserialize, Serialize};

/// An endpoint, as its file has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Endpoint {
    /// Docker's ID.
    pub(crate) id: String,
    /// Docker's ID of its network.
    pub(crate) network: String,
    /// The network configuration of its ADD, as JSON.
    pub(crate) list: String,
    /// What its plugins were told.
    #[serde(rename = "attached")]
    pub(crate) conf: RuntimeConf,
    /// What they answered, as JSON, once they have.
    pub(crate) result: Option<String>,
    /// The path of the container's namespace, once the endpoint has joined it.
    pub(crate) sandbox: Option<String>,
}

/// The parameters of a call, besides `CNI_COMMAND` and `CNI_IFNAME`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RuntimeConf {
    /// Its container ID.
    pub(crate) container_id: String,
    /// The path of its network namespace.
    pub(crate) netns: String,
    /// `CNI_ARGS`.
    pub(crate) args: String,
    /// The MAC address that Docker gives it, or nothing.
    pub(crate) mac: String,
    /// The addresses that Docker gives it, each with its gateway.
    pub(crate) addresses: Vec<(String, String)>,
}
