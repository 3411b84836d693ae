//! Docker's network driver: its parts.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::{Context, Result};
use cni::Environment;

use crate::command_line::CommandLine;
use crate::ipam::plugins::for_plugins;
use crate::network::live_endpoints::LiveEndpoints;
use crate::state::endpoint;
use crate::state::endpoint::Network;
use crate::state::files::Files;
use crate::state::unread::UnreadFiles;
use crate::threads::{Turns, lock};

/// Calls of this driver at once: each may start processes.
const CALLS_AT_ONCE: usize = 32;

/// The driver.
pub(crate) struct NetworkDriver {
    pub(crate) files: Arc<Files>,
    /// The folder of the records of endpoints.
    pub(crate) records: PathBuf,
    pub(crate) conf_dir: PathBuf,
    /// The environment of plugins.
    pub(crate) environment: Environment,
    /// The networks by Docker's IDs.
    pub(crate) networks: Mutex<HashMap<String, LiveNetwork>>,
    pub(crate) endpoints: LiveEndpoints,
    /// The files of earlier daemons that were taken in, and the container IDs of all endpoints
    /// that were taken in or made.
    pub(crate) taken: Mutex<BTreeSet<String>>,
    pub(crate) unread: UnreadFiles,
    /// Turns of Docker's calls.
    pub(crate) turns: Turns,
}

/// A network that Docker has.
pub(crate) struct LiveNetwork {
    /// The name of its file.
    pub(crate) file: String,
    pub(crate) network: Network,
    /// Time from which it is known.
    pub(crate) since: Instant,
}

impl LiveNetwork {
    /// A network that is known from now on.
    pub(crate) fn new(file: String, network: Network) -> Self {
        Self {
            file,
            network,
            since: Instant::now(),
        }
    }
}

impl NetworkDriver {
    /// A driver that knows no network.
    pub(crate) fn new(arguments: &CommandLine, files: Arc<Files>) -> Arc<Self> {
        Arc::new(Self {
            files,
            records: endpoint::records(&arguments.state_dir),
            conf_dir: arguments.conf_dir.clone(),
            environment: for_plugins(&arguments.cni_path),
            networks: Mutex::default(),
            endpoints: LiveEndpoints::default(),
            taken: Mutex::default(),
            unread: UnreadFiles::default(),
            turns: Turns::new(CALLS_AT_ONCE),
        })
    }

    /// The network of this ID.
    ///
    /// # Errors
    ///
    /// Docker has created no such network.
    pub(crate) fn network(&self, id: &str) -> Result<Network> {
        let networks = lock(&self.networks);
        let live = networks.get(id).with_context(|| {
            format!("NetworkID: {id:?} is no network that was created and not deleted")
        })?;
        Ok(live.network.clone())
    }

    /// True if there is neither a network nor an endpoint.
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.networks).is_empty() && self.endpoints.all().is_empty()
    }

    /// True if an endpoint that Docker doesn't have could not be undone yet.
    pub(crate) fn has_abandoned(&self) -> bool {
        self.endpoints.all().iter().any(|live| live.is_abandoned)
    }
}
