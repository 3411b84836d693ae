//! Docker's network driver: its parts, and what it says of itself.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use cni::Object;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::endpoint::LiveEndpoints;
use crate::ipam_driver::remove;
use crate::journal::{Call, Journal};
use crate::memory::{Folder, Memory};
use crate::network_wire::OfNetwork;
use crate::networks::Network;
use crate::plugin_list::PluginRunner;
use crate::refusal::{Refusal, impossible};
use crate::state::lock;
use crate::unanswered::{Unanswered, UnansweredCalls};
use crate::{conflists, wire};

/// The answer to a call that gives nothing.
pub(crate) const NOTHING: &str = "{}";

/// The driver.
pub(crate) struct NetworkDriver {
    pub(crate) memory: Arc<Memory>,
    pub(crate) conf_dir: PathBuf,
    pub(crate) plugins: PluginRunner,
    pub(crate) networks: Mutex<HashMap<String, Stored<Network>>>,
    pub(crate) endpoints: LiveEndpoints,
    pub(crate) unanswered: UnansweredCalls,
    /// Number of dockerds that have called since the start.
    pub(crate) dockerds: AtomicU64,
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
    /// `GetCapabilities`. A dockerd that has started calls it, once.
    pub(crate) fn capabilities(self: &Arc<Self>) -> Answer {
        self.dockerds.fetch_add(1, Ordering::Relaxed);
        self.collect();
        Answer::plain(json!({"Scope": "local", "ConnectivityScope": "local"}).to_string())
    }

    /// `DiscoverNew` and `DiscoverDelete`: networks of this driver end at the node.
    ///
    /// # Errors
    ///
    /// The body can't be decoded.
    pub(crate) fn discover(call: &Call) -> Result<Answer, Refusal> {
        wire::decode::<Value>(&call.body).map(|_| Answer::plain(NOTHING))
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

    /// The answer to a call that an earlier daemon has done, and Docker repeats.
    pub(crate) fn repeated(self: &Arc<Self>, call: &Call) -> Option<Answer> {
        let Unanswered {
            name,
            answer,
            is_end,
        } = self.unanswered.take(call)?;
        tracing::info!(call.path, answer, "given once more");
        if is_end {
            let driver = Arc::clone(self);
            return Some(Answer::then(answer, move |_| {
                remove(&driver.memory.endpoints, &name);
            }));
        }
        if call.path.ends_with("Network") {
            let request: OfNetwork = wire::decode(&call.body).ok()?;
            let journal = Journal::open(self.memory.networks.folder(), &name).ok()?;
            return Some(self.made_network(journal, request.network_id));
        }
        let journal = Journal::open(self.memory.endpoints.folder(), &name).ok()?;
        self.repeated_endpoint(call, answer, journal)
    }

    /// Removes the files of calls that Docker doesn't repeat any more.
    pub(crate) fn forget_unanswered(&self) {
        for (_, name) in self.unanswered.forget_all() {
            remove(&self.memory.endpoints, &name);
        }
    }

    /// The folder of endpoints.
    pub(crate) fn endpoint_files(&self) -> &Folder {
        &self.memory.endpoints
    }
}
