//! Endpoints that Docker will not delete: a deletion has failed, or the container's interface
//! has certainly gone.
//!
//! A dockerd that was killed releases what its containers had, and tells only the network
//! drivers that it has loaded by then (`network.driver`, `endpoint.deleteEndpoint`). For all
//! others, Docker is asked (`comparison`).

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Result;
use state_files::is_namespace;

use crate::http::refusal::message;
use crate::network::cni_result::CniResult;
use crate::network::live_endpoints::LiveEndpoint;
use crate::network::namespaces::{Namespace, is_on_host};
use crate::network::network_driver::NetworkDriver;
use crate::network::plugin_list;
use crate::state::endpoint::Endpoint;
use crate::threads::{lock, run_jobs};

/// The longest that a call waits until stale endpoints are undone. The undo continues after that.
const PATIENCE: Duration = Duration::from_secs(10);

/// Endpoints that are undone at once.
const AT_ONCE: usize = 4;

impl NetworkDriver {
    /// Undoes the endpoints that Docker will not delete.
    pub(crate) fn collect(self: &Arc<Self>) {
        let mut stale = self.endpoints.all();
        stale.retain(may_be_stale);
        if stale.is_empty() {
            return;
        }
        let stale = Arc::new(Mutex::new(stale));
        let jobs = (0..AT_ONCE).map(|_| {
            let (driver, stale) = (Arc::clone(self), Arc::clone(&stale));
            move || {
                while let Some(live) = { lock(&stale).pop() } {
                    if let Err(error) = driver.end_stale(&live) {
                        tracing::warn!(error = %message(&error), endpoint = live.id(), "can't be undone");
                    }
                }
            }
        });
        if !run_jobs(jobs, PATIENCE) {
            tracing::warn!("stale endpoints are still being undone");
        }
    }

    /// Undoes an endpoint if it is stale, and no call works on it.
    fn end_stale(&self, live: &LiveEndpoint) -> Result<()> {
        let Ok(_call) = live.calls.try_lock() else {
            return Ok(());
        };
        let Some(live) = self.endpoints.same(live) else {
            return Ok(());
        };
        let id = live.id();
        // A program of a killed daemon may be moving the interface.
        drop(self.lock_endpoint(&live.endpoint)?);
        if live.is_abandoned {
            return self.end_locked(&live);
        }
        match is_gone(&live.endpoint) {
            Ok(true) => {
                tracing::warn!(endpoint = id, "its container is gone");
                self.end_locked(&live)?;
            }
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(error = %message(&error), endpoint = id, "kept: it is unknown whether its container is gone");
            }
        }
        Ok(())
    }
}

/// True if it may be stale, as far as that is known without the endpoint's lock.
fn may_be_stale(live: &LiveEndpoint) -> bool {
    let sandbox = live.endpoint.sandbox.as_deref();
    // After an error, `is_gone` looks again with the lock, and the error is logged.
    let is_there =
        sandbox.map(|path| look(Path::new(path)).is_ok_and(|look| look == Look::Present));
    live.is_abandoned || is_there == Some(false)
}

/// True if the container is gone together with the interface that it took. This requires all of:
/// the namespace that Docker named is not there; the interface is neither in the endpoint's
/// namespace nor in the host's; no interface of the result, such as the other end of the pair, is
/// on the host. Bridges don't count: a container runs without its bridge, and a bridge stays
/// without its containers.
///
/// # Errors
///
/// An I/O error: it is unknown.
fn is_gone(endpoint: &Endpoint) -> Result<bool> {
    let Some(sandbox) = endpoint.sandbox.as_deref().map(Path::new) else {
        return Ok(false);
    };
    let looked = look(sandbox)?;
    if looked == Look::Present || Namespace::of(&endpoint.plugged.id).has_interface()? {
        return Ok(false);
    }
    let result = endpoint.result.as_deref();
    let Some(result) = result.and_then(|raw| CniResult::read(raw).ok()) else {
        return Ok(false);
    };
    let bridges = plugin_list::bridges(&endpoint.config)?;
    let mut ends: Vec<&str> = result.host_interfaces().collect();
    ends.retain(|end| bridges.iter().all(|bridge| bridge != end));
    if ends.is_empty() {
        // The result names no interface on the host. Only the namespace's file decides.
        return Ok(looked == Look::Missing);
    }
    let there = ends.into_iter().map(is_on_host);
    let there: Vec<bool> = there.collect::<io::Result<_>>()?;
    Ok(!there.contains(&true))
}

/// A look at the path of a container's namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// The namespace exists.
    Present,
    /// The file is missing, and its folder exists.
    Missing,
    /// No namespace is seen there, but Docker may see one: in another mount namespace.
    NotSeen,
}

fn look(path: &Path) -> io::Result<Look> {
    match is_namespace(path) {
        Ok(true) => Ok(Look::Present),
        Ok(false) => Ok(Look::NotSeen),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let folder = path.parent().unwrap_or(path);
            match folder.try_exists()? {
                true => Ok(Look::Missing),
                false => Ok(Look::NotSeen),
            }
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_missing_only_from_a_folder_that_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("netns");
        assert_eq!(look(&file).unwrap(), Look::Missing);
        assert_eq!(look(&file.join("1")).unwrap(), Look::NotSeen);
        std::fs::write(&file, "").unwrap();
        assert_eq!(look(&file).unwrap(), Look::NotSeen);
        // Not a folder: it is unknown.
        assert!(look(&file.join("1")).is_err());
        assert_eq!(look(Path::new("/proc/self/ns/net")).unwrap(), Look::Present);
    }
}
