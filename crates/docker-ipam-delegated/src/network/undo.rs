//! Undoes an endpoint: the effects of `CreateEndpoint` and `Join`, whatever part of them there is.

use std::sync::Arc;

use cni::Object;

use crate::http::refusal::{Refusal, impossible};
use crate::lock::lock;
use crate::network::endpoint_record::LockedEndpoint;
use crate::network::live_endpoints::LiveEndpoint;
use crate::network::namespaces::Namespace;
use crate::network::network_driver::NetworkDriver;
use crate::network::plugin_list;
use crate::state::endpoint::Endpoint;

impl NetworkDriver {
    /// Undoes the endpoint of this ID, if it is there, once the call that works on it has
    /// ended.
    ///
    /// # Errors
    ///
    /// Those of the plugins that fail. It is tried again before the next endpoint is made.
    pub(crate) fn end_endpoint(&self, id: &str) -> Result<(), Refusal> {
        let Some(live) = self.endpoints.get(id) else {
            return Ok(());
        };
        let _call = lock(&live.calls);
        self.end_locked(&live)
    }

    /// Undoes an endpoint whose calls the caller has locked.
    ///
    /// # Errors
    ///
    /// As [`Self::end_endpoint`].
    pub(crate) fn end_locked(&self, live: &LiveEndpoint) -> Result<(), Refusal> {
        // Another call may have ended it meanwhile, and Docker may have made it anew.
        let Some(live) = self.endpoints.same(live) else {
            return Ok(());
        };
        let undone = self.lock_endpoint(&live.endpoint).and_then(|locked| {
            locked.deleting();
            self.undo(&locked, &live.endpoint)?;
            locked.remove();
            Ok(())
        });
        match &undone {
            Ok(()) => self.endpoints.remove(live.id()),
            // Docker only logs that it has failed, and forgets the endpoint.
            Err(_) => self
                .endpoints
                .change(live.id(), |live| live.is_abandoned = true),
        }
        undone
    }

    /// Undoes what `CreateEndpoint` and `Join` have done.
    fn undo(&self, locked: &LockedEndpoint, endpoint: &Endpoint) -> Result<(), Refusal> {
        let execution = locked.execution(self);
        let namespace = Namespace::of(&endpoint.plugged.id);
        namespace.move_back(&execution)?;
        let list: Object =
            serde_json::from_str(&endpoint.list).map_err(|error| impossible(error.to_string()))?;
        plugin_list::del(&execution, &list, endpoint)?;
        namespace.remove(&execution)
    }

    /// Undoes an endpoint that Docker will never have. If that fails, it is logged, and tried
    /// again later.
    pub(crate) fn abandon(self: &Arc<Self>, id: &str, why: &str) {
        tracing::warn!(endpoint = id, why, "is undone");
        self.endpoints.change(id, |live| live.is_abandoned = true);
        if let Err(error) = self.end_endpoint(id) {
            tracing::warn!(%error, endpoint = id, "can't be undone now");
        }
    }
}
