//! Undoes an endpoint: the effects of `CreateEndpoint` and `Join`, whatever part of them there is.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Result;

use crate::http::refusal::message;
use crate::network::live_endpoints::LiveEndpoint;
use crate::network::namespaces::Namespace;
use crate::network::network_driver::NetworkDriver;
use crate::network::plugin_list;
use crate::state::endpoint::Endpoint;
use crate::threads::{lock, run_jobs};

/// The longest that a call waits until abandoned endpoints are undone. The undo continues after
/// that.
const PATIENCE: Duration = Duration::from_secs(10);

/// Abandoned endpoints that are undone at once.
const AT_ONCE: usize = 4;

impl NetworkDriver {
    /// Undoes the endpoint of this ID, if it exists, after the call that works on it.
    ///
    /// # Errors
    ///
    /// Those of the failed plugins. The undo is repeated before the next endpoint is made.
    pub(crate) fn end_endpoint(&self, id: &str) -> Result<()> {
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
    pub(crate) fn end_locked(&self, live: &LiveEndpoint) -> Result<()> {
        // Another call may have undone it meanwhile, and Docker may have made a new one.
        let Some(live) = self.endpoints.same(live) else {
            return Ok(());
        };
        let undone = self.undo(&live.endpoint);
        match &undone {
            Ok(()) => self.endpoints.remove(live.id()),
            // Docker only logs that it has failed, and forgets the endpoint.
            Err(_) => self
                .endpoints
                .change(live.id(), |live| live.is_abandoned = true),
        }
        undone
    }

    /// Undoes what `CreateEndpoint` and `Join` have done, and removes the record.
    fn undo(&self, endpoint: &Endpoint) -> Result<()> {
        let record = self.lock_endpoint(endpoint)?;
        if let Some(record) = &record {
            record.deleting();
        }
        let execution = self.execution(record.as_ref());
        let namespace = Namespace::of(&endpoint.plugged.id);
        namespace.move_back(&execution)?;
        plugin_list::del(&execution, endpoint)?;
        namespace.remove(&execution)?;
        if let Some(record) = record {
            record.remove();
        }
        Ok(())
    }

    /// Undoes an endpoint that Docker will never have. If that fails, it is logged, and tried
    /// again later.
    pub(crate) fn abandon(self: &Arc<Self>, id: &str, why: &str) {
        tracing::warn!(endpoint = id, why, "is undone");
        self.endpoints.change(id, |live| live.is_abandoned = true);
        if let Err(error) = self.end_endpoint(id) {
            tracing::warn!(error = %message(&error), endpoint = id, "can't be undone now");
        }
    }

    /// Undoes the endpoints that Docker will not delete, except those that a call works on.
    pub(crate) fn collect(self: &Arc<Self>) {
        let mut abandoned = self.endpoints.all();
        abandoned.retain(|live| live.is_abandoned);
        if abandoned.is_empty() {
            return;
        }
        let abandoned = Arc::new(Mutex::new(abandoned));
        let jobs = (0..AT_ONCE).map(|_| {
            let (driver, abandoned) = (Arc::clone(self), Arc::clone(&abandoned));
            move || {
                while let Some(live) = { lock(&abandoned).pop() } {
                    if let Ok(_call) = live.calls.try_lock()
                        && let Err(error) = driver.end_locked(&live)
                    {
                        tracing::warn!(error = %message(&error), endpoint = live.id(), "can't be undone");
                    }
                }
            }
        });
        if !run_jobs(jobs, PATIENCE) {
            tracing::warn!("endpoints that Docker doesn't have are still being undone");
        }
    }
}
