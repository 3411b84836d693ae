//! Endpoints whose containers are gone, and that Docker doesn't delete.
//!
//! A dockerd that was killed releases what its containers had, and tells only the network
//! drivers that it has loaded by then (`network.driver`, `endpoint.deleteEndpoint`).

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use cni::is_namespace;
use serde_json::value::RawValue;

use crate::cni_result::CniResult;
use crate::endpoint::LiveEndpoint;
use crate::endpoint_lock::EndpointLock;
use crate::namespaces::{Namespace, is_on_host};
use crate::network_driver::NetworkDriver;
use crate::refusal::Refusal;
use crate::state::lock;

/// The longest that a call waits for stale endpoints to be undone. Their undo goes on.
const PATIENCE: Duration = Duration::from_secs(10);

/// Endpoints that are undone at once.
const AT_ONCE: usize = 4;

impl NetworkDriver {
    /// Undoes the endpoints that Docker will not delete.
    pub(crate) fn collect(self: &Arc<Self>) {
        let dockerd = self.dockerds.load(Ordering::Relaxed);
        let mut stale = self.endpoints.all();
        stale.retain(|it| may_be_stale(it, dockerd));
        if stale.is_empty() {
            return;
        }
        let threads = AT_ONCE.min(stale.len());
        let stale = Arc::new(Mutex::new(stale));
        let (done, all_done) = channel::<()>();
        for _ in 0..threads {
            let (driver, stale, done) = (Arc::clone(self), Arc::clone(&stale), done.clone());
            thread::spawn(move || {
                let _done = done;
                while let Some(live) = { lock(&stale).pop() } {
                    if let Err(error) = driver.end_stale(&live, dockerd) {
                        tracing::warn!(%error, endpoint = live.endpoint.id, "can't be undone");
                    }
                }
            });
        }
        drop(done);
        if all_done.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("endpoints of gone containers are still being undone");
        }
    }

    /// Undoes an endpoint if it is stale, and no call works on it.
    fn end_stale(&self, live: &LiveEndpoint, dockerd: u64) -> Result<(), Refusal> {
        let Ok(_call) = live.calls.try_lock() else {
            return Ok(());
        };
        let id = &live.endpoint.id;
        let Some(live) = self.endpoints.get(id).filter(|it| it.file == live.file) else {
            return Ok(());
        };
        // A program of a killed daemon's may be moving the interface.
        drop(EndpointLock::acquire(
            self.endpoint_files().folder(),
            &live.file,
        )?);
        if is_stale(&live, dockerd) {
            tracing::warn!(endpoint = id, "its container is gone");
            self.end_locked(id, &live.file)?;
        }
        Ok(())
    }
}

/// True if there is no container, as far as it can be said without the endpoint's lock.
fn may_be_stale(live: &LiveEndpoint, dockerd: u64) -> bool {
    // Its dockerd has ended. The next one finds a container that runs by its namespace.
    let is_earlier = live.dockerd < dockerd;
    match &live.endpoint.sandbox {
        _ if live.is_abandoned => true,
        None => is_earlier,
        Some(sandbox) => !is_namespace(Path::new(sandbox)).unwrap_or_default(),
    }
}

/// True if the endpoint's container is gone, or if there will be none.
fn is_stale(live: &LiveEndpoint, dockerd: u64) -> bool {
    let endpoint = &live.endpoint;
    if !may_be_stale(live, dockerd) {
        return false;
    }
    if live.is_abandoned || endpoint.sandbox.is_none() {
        return true;
    }
    if Namespace::of(&endpoint.id).has_interface() {
        // Docker is about to take it: the container's namespace is made after `Join`. Or its
        // dockerd was killed before that, or behind `Leave`.
        return live.dockerd < dockerd;
    }
    // Docker has taken it. Of a pair, the other end ends with the container's namespace; if
    // it is there, the namespace is at a path that only Docker sees.
    let result = endpoint.result.clone().map(RawValue::from_string);
    let result = result.and_then(Result::ok);
    let result = result.and_then(|it| CniResult::read(&it).ok());
    let result = result.unwrap_or_default();
    let mut ends = result.host_interfaces().peekable();
    ends.peek().is_none() || !ends.all(is_on_host)
}
