//! A network of the network driver, and an endpoint with its record, as they are remembered.

use std::path::{Path, PathBuf};

use chain::record::AttachmentRecord;
use cni::NetworkConfig;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::state::attachment_id::PREFIX;
use crate::state::pool::Facts;
use crate::state::record::{CallerLine, Plugged};

/// A network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Network {
    /// Docker's ID.
    pub(crate) id: String,
    /// The name of the network configuration.
    pub(crate) conflist: String,
    /// The other options.
    pub(crate) facts: Facts,
    /// Gateways of Docker's own subnets.
    pub(crate) gateways: Vec<String>,
    /// True if its containers get no default route (`--internal`).
    pub(crate) is_internal: bool,
}

/// An endpoint.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    /// Docker's IDs, and what Docker gives the interface.
    pub(crate) plugged: Plugged,
    /// The network configuration of its ADD, a list of plugins.
    pub(crate) config: NetworkConfig,
    /// Network namespace of its plugins.
    pub(crate) netns: String,
    /// `CNI_ARGS` of its plugins.
    pub(crate) args: String,
    /// Result of its plugins, once there is one.
    pub(crate) result: Option<Box<RawValue>>,
}

impl Endpoint {
    /// The container ID that its plugins are told.
    pub(crate) fn container_id(&self) -> String {
        format!("{PREFIX}{}", self.plugged.id)
    }
}

/// The folder of the records of endpoints, in a daemon's state folder.
pub(crate) fn records(state_dir: &Path) -> PathBuf {
    state_dir.join("endpoints")
}

/// The endpoint of a record.
pub(crate) fn endpoint(record: AttachmentRecord) -> Result<Endpoint, String> {
    let plugged = CallerLine::all(&record)
        .into_iter()
        .find_map(|line| match line {
            CallerLine::Endpoint(plugged) => Some(plugged),
            CallerLine::Pool(_) => None,
        });
    Ok(Endpoint {
        plugged: plugged.ok_or("it names no endpoint of Docker's")?,
        config: record.config().ok_or("it has no configuration")?,
        result: record.answer().map(ToOwned::to_owned),
        netns: record.netns,
        args: record.args,
    })
}
