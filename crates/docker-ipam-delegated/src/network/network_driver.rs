//! Docker's network driver: its parts and its capabilities.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use cni::Object;
use serde_json::json;

use crate::http::answer::Answer;
use crate::http::refusal::{Refusal, impossible};
use crate::ipam::conflists;
use crate::lock::lock;
use crate::network::live_endpoints::{LiveEndpoint, LiveEndpoints};
use crate::network::plugin_list::PluginRunner;
use crate::state::files::Files;
use crate::state::network::Network;
use crate::turns::Turns;

/// Calls of this driver at once: each may start processes.
pub(crate) const CALLS_AT_ONCE: usize = 32;

/// The driver.
pub(crate) struct NetworkDriver {
    pub(crate) files: Arc<Files>,
    /// The folder of the records of endpoints.
    pub(crate) records: PathBuf,
    pub(crate) conf_dir: PathBuf,
    pub(crate) plugins: PluginRunner,
    /// The networks by Docker's IDs, each with the name of its file.
    pub(crate) networks: Mutex<HashMap<String, (String, Network)>>,
    pub(crate) endpoints: LiveEndpoints,
    /// Turns of Docker's calls.
    pub(crate) turns: Turns,
    /// True if the record of an endpoint could not be read.
    pub(crate) has_unread_records: AtomicBool,
}

impl NetworkDriver {
    /// `GetCapabilities`.
    pub(crate) fn capabilities() -> Answer {
        Answer::of(&json!({"Scope": "local", "ConnectivityScope": "local"}))
    }

    /// The network of this ID.
    ///
    /// # Errors
    ///
    /// Docker has created no such network.
    pub(crate) fn network(&self, id: &str) -> Result<Network, Refusal> {
        let network = lock(&self.networks)
            .get(id)
            .map(|(_, network)| network.clone());
        network.ok_or_else(|| {
            impossible(format!(
                "NetworkID: {id:?} is no network that was created and not deleted"
            ))
        })
    }

    /// The configuration of a network, as it is now.
    ///
    /// # Errors
    ///
    /// It is gone.
    pub(crate) fn list_of(&self, network: &Network) -> Result<Object, Refusal> {
        conflists::find(&self.conf_dir, &network.conflist)
    }

    /// All networks.
    pub(crate) fn all(&self) -> Vec<Network> {
        let networks = lock(&self.networks);
        networks
            .values()
            .map(|(_, network)| network.clone())
            .collect()
    }

    /// True if an endpoint is being made.
    pub(crate) fn is_making(&self) -> bool {
        self.endpoints.all().iter().any(LiveEndpoint::is_being_made)
    }

    /// True if an endpoint that Docker doesn't have could not be undone yet.
    pub(crate) fn has_abandoned(&self) -> bool {
        self.endpoints.all().iter().any(|live| live.is_abandoned)
    }
}
