//! Docker's network driver: its parts, and networks. A network is a CNI network
//! configuration, by whose plugins its endpoints are plumbed.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use cni::Object;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::facts::{self, Facts};
use crate::ipam_driver::{cant_remember, remove};
use crate::journal::{Call, Journal};
use crate::memory::{Folder, Memory};
use crate::network_wire::{CreateNetwork, OfNetwork, Subnet};
use crate::plugin_list::{Attached, PluginRunner};
use crate::refusal::{Refusal, impossible};
use crate::state::lock;
use crate::unanswered::{Unanswered, UnansweredCalls};
use crate::{conflists, wire};

/// The answer to a call that gives nothing.
pub(crate) const NOTHING: &str = "{}";

/// The key under which Docker passes a driver's options on (`netlabel.GenericData`).
const OPTIONS: &str = "com.docker.network.generic";

/// The key under which Docker says that a network has no way out (`netlabel.Internal`).
const INTERNAL: &str = "com.docker.network.internal";

/// The driver.
pub(crate) struct NetworkDriver {
    pub(crate) memory: Arc<Memory>,
    pub(crate) conf_dir: PathBuf,
    pub(crate) plugins: PluginRunner,
    pub(crate) networks: Mutex<HashMap<String, Remembered<Network>>>,
    pub(crate) endpoints: Mutex<HashMap<String, Remembered<Endpoint>>>,
    pub(crate) unanswered: UnansweredCalls,
}

/// An object, and the name of its file.
#[derive(Clone, Debug)]
pub(crate) struct Remembered<T> {
    pub(crate) name: String,
    pub(crate) it: T,
}

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
    /// True if it has no way out.
    pub(crate) is_internal: bool,
}

/// An endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Endpoint {
    /// Docker's ID.
    pub(crate) id: String,
    /// Docker's ID of its network.
    pub(crate) network: String,
    /// The network configuration of its ADD, as JSON.
    pub(crate) list: String,
    /// What its plugins were told.
    pub(crate) attached: Attached,
    /// What they answered, as JSON, once they have.
    pub(crate) result: Option<String>,
    /// The path of the container's namespace, once the endpoint has joined it.
    pub(crate) sandbox: Option<String>,
}

impl NetworkDriver {
    /// `GetCapabilities`.
    pub(crate) fn capabilities() -> Answer {
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

    /// `CreateNetwork`.
    ///
    /// # Errors
    ///
    /// There is no such network configuration.
    pub(crate) fn create_network(self: &Arc<Self>, call: &Call) -> Result<Answer, Refusal> {
        let request: CreateNetwork = wire::decode(&call.body)?;
        let generic = request.options.get(OPTIONS).and_then(Value::as_object);
        let text =
            |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
        let options = generic.into_iter().flatten().filter_map(text).collect();
        let (conflist, facts) = facts::of_network(options)?;
        let conflist = conflist.ok_or_else(|| {
            impossible("option conflist is missing: give -o conflist=NAME, the network configuration whose plugins make the network")
        })?;
        conflists::find(&self.conf_dir, &conflist)?;
        let of_docker = |it: &&Subnet| !it.gateway.is_empty() && !it.pool.is_empty();
        let subnets = request.v4.iter().chain(&request.v6).filter(of_docker);
        let network = Network {
            id: request.network_id,
            conflist,
            facts,
            gateways: subnets.map(|it| it.gateway.clone()).collect(),
            is_internal: request.options.get(INTERNAL) == Some(&Value::Bool(true)),
        };
        let id = network.id.clone();
        if lock(&self.networks).contains_key(&id) {
            return Err(impossible(format!("NetworkID: {id} is there already")));
        }
        let name = self.memory.networks.new_name();
        let folder = self.memory.networks.folder();
        let mut journal = Journal::begin(folder, &name, call, network.clone())
            .map_err(|error| cant_remember(&error))?;
        if let Err(error) = journal.made(network.clone(), NOTHING) {
            journal.remove();
            return Err(cant_remember(&error));
        }
        let it = network;
        lock(&self.networks).insert(id.clone(), Remembered { name, it });
        Ok(self.made_network(journal, id))
    }

    fn made_network(self: &Arc<Self>, mut journal: Journal<Network>, id: String) -> Answer {
        let driver = Arc::clone(self);
        Answer::then(NOTHING, move |is_delivered| {
            if is_delivered {
                journal.answered();
                return;
            }
            tracing::warn!(network = id, "Docker has gone before it had this network");
            lock(&driver.networks).remove(&id);
            driver.unanswered.forget(journal.name());
            journal.remove();
        })
    }

    /// `DeleteNetwork`. An unknown network has been deleted.
    ///
    /// # Errors
    ///
    /// An endpoint that is left can't be undone.
    pub(crate) fn delete_network(self: &Arc<Self>, call: &Call) -> Result<Answer, Refusal> {
        let request: OfNetwork = wire::decode(&call.body)?;
        let of_network = |it: &&Remembered<Endpoint>| it.it.network == request.network_id;
        let left: Vec<String> = {
            let endpoints = lock(&self.endpoints);
            endpoints
                .values()
                .filter(of_network)
                .map(|it| it.it.id.clone())
                .collect()
        };
        for id in left {
            tracing::warn!(endpoint = id, "left of a network that is deleted");
            self.end_unasked(&id)?;
        }
        let Some(network) = lock(&self.networks).remove(&request.network_id) else {
            return Ok(Answer::plain(NOTHING));
        };
        self.unanswered.forget(&network.name);
        // Without a step between, there is nothing to finish after a kill: the call that is
        // repeated finds no network, and succeeds.
        remove(&self.memory.networks, &network.name);
        Ok(Answer::plain(NOTHING))
    }

    /// The network of this ID.
    ///
    /// # Errors
    ///
    /// Docker has created no such network.
    pub(crate) fn network(&self, id: &str) -> Result<Network, Refusal> {
        let network = lock(&self.networks).get(id).map(|it| it.it.clone());
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
