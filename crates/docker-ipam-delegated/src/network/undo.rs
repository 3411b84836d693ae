//! End of an endpoint: what its making and `Join` have done is undone, as far as they came.

use std::sync::Arc;

use cni::Object;
use serde_json::value::RawValue;

use crate::http::refusal::{Refusal, impossible};
use crate::lock::lock;
use crate::network::endpoint_lock::EndpointLock;
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
        self.end_locked(id, &live.file)
    }

    /// Undoes the endpoint of this ID and file, whose calls the caller has locked.
    ///
    /// # Errors
    ///
    /// As [`Self::end_endpoint`].
    pub(crate) fn end_locked(&self, id: &str, file: &str) -> Result<(), Refusal> {
        // Another call may have ended it meanwhile, and Docker may have made it anew.
        let Some(live) = self.endpoints.get(id).filter(|it| it.file == file) else {
            return Ok(());
        };
        self.endpoint_files().note_ending::<Endpoint>(file);
        match self.undo(file, &live.endpoint) {
            Ok(()) => {
                self.endpoints.remove(id);
                self.endpoint_files().remove(file);
                Ok(())
            }
            Err(why) => {
                // Docker only logs that it has failed, and forgets the endpoint.
                self.endpoints.change(id, |it| it.is_abandoned = true);
                Err(why)
            }
        }
    }

    /// Undoes what `CreateEndpoint` and `Join` have done.
    ///
    /// # Errors
    ///
    /// Those of the plugins that fail, and what `ip` says.
    pub(crate) fn undo(&self, file: &str, endpoint: &Endpoint) -> Result<(), Refusal> {
        let lock = EndpointLock::acquire(self.endpoint_files().folder(), file)?;
        let execution = lock.execution(&self.plugins);
        let namespace = Namespace::of(&endpoint.id);
        namespace.move_back(&execution)?;
        let list: Object =
            serde_json::from_str(&endpoint.list).map_err(|error| impossible(error.to_string()))?;
        let result = endpoint.result.clone().map(RawValue::from_string);
        let result = result.and_then(Result::ok);
        plugin_list::del(&execution, &list, &endpoint.conf, result.as_deref())?;
        namespace.remove(&execution)
    }

    /// Undoes an endpoint that Docker will never have. It is logged if that fails, and tried
    /// again later.
    pub(crate) fn abandon(self: &Arc<Self>, id: &str, why: &str) {
        tracing::warn!(endpoint = id, why, "is undone");
        self.endpoints.change(id, |it| it.is_abandoned = true);
        if let Err(error) = self.end_endpoint(id) {
            tracing::warn!(%error, endpoint = id, "can't be undone now");
        }
    }
}
