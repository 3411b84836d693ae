//! The endpoints that are being made, are there, or are being undone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::lock::lock;
use crate::state::endpoint::Endpoint;

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
