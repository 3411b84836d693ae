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
use crate::namespaces::{Namespace, is_on_host};
use crate::network_driver::NetworkDriver;
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
        // One that a call works on is none.
        stale.retain(|it| it.calls.try_lock().is_ok() && is_stale(it, dockerd));
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
                    let id = &live.endpoint.id;
                    tracing::warn!(endpoint = id, "its container is gone");
                    if let Err(error) = driver.end_idle(&live) {
                        tracing::warn!(%error, endpoint = id, "can't be undone");
                    }
                }
            });
        }
        drop(done);
        if all_done.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("endpoints of gone containers are still being undone");
        }
    }
}

/// True if the endpoint's container is gone, or if there will be none.
fn is_stale(live: &LiveEndpoint, dockerd: u64) -> bool {
    let endpoint = &live.endpoint;
    if live.is_abandoned {
        return true;
    }
    // Its dockerd has ended. The next one finds a container that runs by its namespace.
    let is_earlier = live.dockerd < dockerd;
    let Some(sandbox) = &endpoint.sandbox else {
        return is_earlier;
    };
    if is_namespace(Path::new(sandbox)).unwrap_or_default() {
        return false;
    }
    if Namespace::of(&endpoint.id).has_interface() {
        // Docker is about to take it: the container's namespace is made after `Join`. Or it
        // has given it back, and is about to delete the endpoint.
        return is_earlier;
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
