//! Docker's network driver: its parts, and what it says of itself.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use cni::Object;
use serde_json::{Value, json};

use crate::http::answer::{Answer, NOTHING};
use crate::http::body;
use crate::http::call::Call;
use crate::http::refusal::{Refusal, impossible};
use crate::ipam::conflists;
use crate::lock::lock;
use crate::network::live_endpoints::{LiveEndpoint, LiveEndpoints};
use crate::network::plugin_list::PluginRunner;
use crate::state::memory::{Folder, Memory};
use crate::state::network::Network;

/// The driver.
pub(crate) struct NetworkDriver {
    pub(crate) memory: Arc<Memory>,
    pub(crate) conf_dir: PathBuf,
    pub(crate) plugins: PluginRunner,
    pub(crate) networks: Mutex<HashMap<String, Stored<Network>>>,
    pub(crate) endpoints: LiveEndpoints,
}

/// An object, and its file.
#[derive(Clone, Debug)]
pub(crate) struct Stored<T> {
    /// The name of its file.
    pub(crate) file: String,
    /// The object.
    pub(crate) object: T,
}

impl NetworkDriver {
    /// `GetCapabilities`. A dockerd that starts calls it, and so does swarm mode.
    pub(crate) fn capabilities(self: &Arc<Self>) -> Answer {
        self.collect();
        Answer::plain(json!({"Scope": "local", "ConnectivityScope": "local"}).to_string())
    }

    /// `DiscoverNew` and `DiscoverDelete`: networks of this driver end at the node.
    ///
    /// # Errors
    ///
    /// The body can't be decoded.
    pub(crate) fn discover(call: &Call) -> Result<Answer, Refusal> {
        body::decode::<Value>(&call.body).map(|_| Answer::plain(NOTHING))
    }

    /// The network of this ID.
    ///
    /// # Errors
    ///
    /// Docker has created no such network.
    pub(crate) fn network(&self, id: &str) -> Result<Network, Refusal> {
        let network = lock(&self.networks).get(id).map(|it| it.object.clone());
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
        networks.values().map(|it| it.object.clone()).collect()
    }

    /// True if an endpoint is being made.
    pub(crate) fn is_making(&self) -> bool {
        self.endpoints.all().iter().any(LiveEndpoint::is_being_made)
    }

    /// True if an endpoint that Docker doesn't have could not be undone yet.
    pub(crate) fn has_abandoned(&self) -> bool {
        self.endpoints.all().iter().any(|it| it.is_abandoned)
    }

    /// The folder of endpoints.
    pub(crate) fn endpoint_files(&self) -> &Folder {
        &self.memory.endpoints
    }
}
