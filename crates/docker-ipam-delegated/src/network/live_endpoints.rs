//! The endpoints that are being made, exist, or are being undone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::state::endpoint::Endpoint;
use crate::threads::lock;

/// An endpoint that is being made, exists, or is being undone.
#[derive(Clone, Debug)]
pub(crate) struct LiveEndpoint {
    /// The endpoint.
    pub(crate) endpoint: Endpoint,
    /// Held by the call that works on it.
    pub(crate) calls: Arc<Mutex<()>>,
    /// True if Docker will not delete it: an undo has failed, or Docker doesn't have it.
    pub(crate) is_abandoned: bool,
    /// Time from which it is known, or at which it was made.
    pub(crate) since: Instant,
}

/// All endpoints, by Docker's IDs.
#[derive(Default)]
pub(crate) struct LiveEndpoints(Mutex<HashMap<String, LiveEndpoint>>);

impl LiveEndpoints {
    /// The endpoint of this ID.
    pub(crate) fn get(&self, id: &str) -> Option<LiveEndpoint> {
        lock(&self.0).get(id).cloned()
    }

    /// The same endpoint as it is now; `None` if it has ended, even if Docker has made another one
    /// with its ID.
    pub(crate) fn same(&self, live: &LiveEndpoint) -> Option<LiveEndpoint> {
        let now = self.get(live.id());
        now.filter(|now| Arc::ptr_eq(&now.calls, &live.calls))
    }

    /// All endpoints.
    pub(crate) fn all(&self) -> Vec<LiveEndpoint> {
        lock(&self.0).values().cloned().collect()
    }

    /// Adds an endpoint; false if one with its ID exists.
    #[must_use]
    pub(crate) fn add(&self, live: LiveEndpoint) -> bool {
        let mut endpoints = lock(&self.0);
        let id = live.id().to_owned();
        let is_new = !endpoints.contains_key(&id);
        if is_new {
            endpoints.insert(id, live);
        }
        is_new
    }

    /// Changes an endpoint, if it exists.
    pub(crate) fn change(&self, id: &str, change: impl FnOnce(&mut LiveEndpoint)) {
        if let Some(live) = lock(&self.0).get_mut(id) {
            change(live);
        }
    }

    /// Removes an endpoint.
    pub(crate) fn remove(&self, id: &str) {
        lock(&self.0).remove(id);
    }
}

impl LiveEndpoint {
    /// An endpoint that is known from now on, and that no call works on.
    pub(crate) fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            calls: Arc::default(),
            is_abandoned: false,
            since: Instant::now(),
        }
    }

    /// Docker's ID.
    pub(crate) fn id(&self) -> &str {
        &self.endpoint.plugged.id
    }

    /// True if it was made by this time, or will not be made.
    pub(crate) fn was_made_by(&self, time: Instant) -> bool {
        let is_being_made = !self.is_abandoned && self.endpoint.result.is_none();
        !is_being_made && self.since <= time
    }
}
