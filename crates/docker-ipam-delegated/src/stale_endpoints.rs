//! Endpoints whose containers are gone, and that Docker doesn't delete: a dockerd that
//! was killed releases what its containers had, and tells only the network drivers that it
//! has loaded by then (`network.driver`, `endpoint.deleteEndpoint`).

use std::path::Path;
use std::sync::Arc;

use serde_json::value::RawValue;

use crate::journal::Call;
use crate::namespaces::{Namespace, is_namespace, is_on_host};
use crate::network_driver::{Endpoint, NetworkDriver};
use crate::plumbed::Plumbed;
use crate::refusal::Refusal;
use crate::state::lock;

impl NetworkDriver {
    /// Undoes the endpoints whose containers are gone.
    pub(crate) fn collect(self: &Arc<Self>) {
        let endpoints = lock(&self.endpoints).values().cloned().collect::<Vec<_>>();
        for endpoint in endpoints {
            let id = endpoint.it.id.clone();
            if is_stale(&endpoint.it) {
                tracing::warn!(endpoint = id, "its container is gone");
                if let Err(error) = self.end_unasked(&id) {
                    tracing::warn!(%error, endpoint = id, "can't be undone");
                }
            }
        }
    }

    /// Undoes an endpoint that Docker didn't ask to delete.
    ///
    /// # Errors
    ///
    /// Those of the plugins that fail.
    pub(crate) fn end_unasked(&self, id: &str) -> Result<(), Refusal> {
        // No call of Docker's, which none may be taken for a repetition of.
        let call = Call {
            path: "stale".to_owned(),
            body: id.to_owned(),
        };
        if let Some(journal) = self.end_endpoint(id, &call)? {
            journal.remove();
        }
        Ok(())
    }
}

/// True if Docker has taken the interface, and it ended with the container's namespace.
///
/// While Docker is about to take it, it is where `Join` has put it. The namespace is not
/// there at that time.
fn is_stale(endpoint: &Endpoint) -> bool {
    let Some(sandbox) = &endpoint.sandbox else {
        return false;
    };
    let result = endpoint.result.clone().map(RawValue::from_string);
    let Some(Ok(result)) = result else {
        return false;
    };
    // The other end of a pair ends with it. An interface without one, such as a macvlan,
    // has only its namespace to be known by.
    let ends = Plumbed::read(&result).host_interfaces;
    let is_gone = match ends.is_empty() {
        true => !is_namespace(Path::new(sandbox)),
        false => !ends.iter().all(|it| is_on_host(it)),
    };
    is_gone && !Namespace::of(&endpoint.id).has_interface()
}
