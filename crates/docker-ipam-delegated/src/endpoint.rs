//! An endpoint: what is remembered of it, and its place among the others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};

use crate::runtime_conf::RuntimeConf;
use crate::state::lock;

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

/// An endpoint that is being made, is there, or is being undone.
#[derive(Clone, Debug)]
pub(crate) struct LiveEndpoint {
    /// The name of its file.
    pub(crate) file: String,
    /// The endpoint.
    pub(crate) endpoint: Endpoint,
    /// Held by the call that works on it.
    pub(crate) calls: Arc<Mutex<()>>,
    /// True if Docker will not delete it: an undo has failed, or Docker hasn't got it.
    pub(crate) is_abandoned: bool,
    /// True if an earlier daemon has made it, and Docker may not have had the answer.
    pub(crate) is_unanswered: bool,
}

/// All endpoints, by Docker's IDs.
#[derive(Default)]
pub(crate) struct LiveEndpoints(Mutex<HashMap<String, LiveEndpoint>>);

impl LiveEndpoints {
    /// The endpoint of this ID.
    pub(crate) fn get(&self, id: &str) -> Option<LiveEndpoint> {
        lock(&self.0).get(id).cloned()
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<LiveEndpoint> {
        lock(&self.0).values().cloned().collect()
    }

    /// Adds one; false if there is one of its ID.
    #[must_use]
    pub(crate) fn add(&self, live: LiveEndpoint) -> bool {
        let mut endpoints = lock(&self.0);
        let id = live.endpoint.id.clone();
        let is_new = !endpoints.contains_key(&id);
        if is_new {
            endpoints.insert(id, live);
        }
        is_new
    }

    /// Changes one, if it is there.
    pub(crate) fn change(&self, id: &str, change: impl FnOnce(&mut LiveEndpoint)) {
        if let Some(live) = lock(&self.0).get_mut(id) {
            change(live);
        }
    }

    /// Removes one.
    pub(crate) fn remove(&self, id: &str) {
        lock(&self.0).remove(id);
    }
}

impl LiveEndpoint {
    /// An endpoint that nothing has happened to since this process started.
    pub(crate) fn new(file: &str, endpoint: Endpoint) -> Self {
        Self {
            file: file.to_owned(),
            endpoint,
            calls: Arc::default(),
            is_abandoned: false,
            is_unanswered: false,
        }
    }

    /// True if its making hasn't come to an end.
    pub(crate) fn is_being_made(&self) -> bool {
        !self.is_abandoned && self.endpoint.result.is_none()
    }
}
