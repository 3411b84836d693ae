//! The parts of Docker's network driver, and the files of its networks.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use chain::{Execution, OwnRecord};
use cni::{Environment, NetworkName};
use docker_records::pool::Options;
use docker_records::records::ENDPOINT_RECORDS;
use serde::{Deserialize, Serialize};
use state_files::{StateFolder, names_in};

use crate::command_line::CommandLine;
use crate::docker::whole_answer::WholeAnswer;
use crate::ipam::plugins::{LONGEST, for_plugins};

/// The folder of the networks' files in the daemon's state folder.
const NETWORKS: &str = "networks";

/// End of the names of these files.
const SUFFIX: &str = ".json";

/// The driver.
pub(crate) struct NetworkDriver {
    /// The folder of the networks' files.
    folder: StateFolder,
    /// The folder of the records of endpoints.
    pub(crate) records: PathBuf,
    pub(crate) conf_dir: PathBuf,
    /// The environment of plugins.
    pub(crate) environment: Environment,
    /// The endpoints that are to be undone: the name of the configuration, and Docker's ID.
    pub(crate) unfinished: Mutex<BTreeSet<(NetworkName, String)>>,
    /// Held while an endpoint with published ports is checked and recorded.
    pub(crate) publishing: Mutex<()>,
}

/// A network, as its file has it: Docker passes its options only once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Network {
    /// The name of the network configuration.
    pub(crate) conflist: String,
    /// The other options.
    pub(crate) options: Options,
    /// Gateways of Docker's own subnets.
    pub(crate) gateways: Vec<String>,
    /// True if its containers get no default route (`--internal`).
    pub(crate) is_internal: bool,
}

impl NetworkDriver {
    /// The driver of the networks in the daemon's state folder.
    ///
    /// # Errors
    ///
    /// An I/O error of the folder.
    pub(crate) fn new(arguments: &CommandLine) -> Result<Arc<Self>> {
        let path = arguments.state_dir.join(NETWORKS);
        let folder = StateFolder::create(&path).with_context(|| format!("{}", path.display()))?;
        Ok(Arc::new(Self {
            folder,
            records: arguments.state_dir.join(ENDPOINT_RECORDS),
            conf_dir: arguments.conf_dir.clone(),
            environment: for_plugins(&arguments.cni_path),
            unfinished: Mutex::default(),
            publishing: Mutex::default(),
        }))
    }

    /// The network of this ID; `None` if Docker has created no such network.
    ///
    /// # Errors
    ///
    /// Its file can't be read.
    pub(crate) fn find_network(&self, id: &str) -> Result<Option<Network>> {
        let file = file_of(id)?;
        let read = match self.folder.read(&file) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => Err(error.into()),
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(anyhow::Error::from),
        };
        read.with_context(|| self.folder.path_of(&file).display().to_string())
    }

    /// The network of this ID.
    ///
    /// # Errors
    ///
    /// Docker has created no such network, or its file can't be read.
    pub(crate) fn network(&self, id: &str) -> Result<Network> {
        let network = self.find_network(id)?;
        network.with_context(|| {
            format!("NetworkID: {id:?} is no network that was created and not deleted")
        })
    }

    /// Writes the file of a network.
    ///
    /// # Errors
    ///
    /// Another network has the ID; an I/O error.
    pub(crate) fn write_network(&self, id: &str, network: &Network) -> Result<()> {
        if let Some(other) = self.find_network(id)?
            && other != *network
        {
            bail!("NetworkID: {id} exists already");
        }
        let bytes = serde_json::to_vec(network).expect("a network is JSON");
        let written = self.folder.replace(&file_of(id)?, &bytes);
        written.context("the daemon's state can't be written")
    }

    /// Removes the file of a network. A missing one is no error.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(crate) fn remove_network(&self, id: &str) -> Result<()> {
        let file = file_of(id)?;
        let removed = self.folder.remove(&file);
        removed.with_context(|| self.folder.path_of(&file).display().to_string())
    }

    /// The IDs of the networks that were created at least this long ago.
    pub(crate) fn networks_of_age(&self, age: Duration) -> Vec<String> {
        let names = names_in(self.folder.path()).unwrap_or_default().into_iter();
        let is_old = |name: &String| {
            let changed =
                std::fs::metadata(self.folder.path_of(name)).and_then(|file| file.modified());
            let since = changed.ok().and_then(|time| time.elapsed().ok());
            since.is_some_and(|since| since >= age)
        };
        let old = names.filter(is_old);
        old.filter_map(|name| Some(name.strip_suffix(SUFFIX)?.to_owned()))
            .collect()
    }

    /// Forgets those of these networks that Docker doesn't have. They hold nothing themselves.
    pub(crate) fn sweep_networks(&self, networks: &[String], docker: &WholeAnswer) {
        for id in networks {
            if docker.has_lost_network(id) {
                tracing::warn!(network = id, "forgotten: Docker doesn't have it");
                if let Err(error) = self.remove_network(id) {
                    tracing::warn!("{error:#}");
                }
            }
        }
    }

    /// The execution of programs for an endpoint, which inherit the lock of its record.
    pub(crate) fn execution<'a>(&'a self, record: Option<&'a OwnRecord>) -> Execution<'a> {
        Execution {
            environment: &self.environment,
            timeout: LONGEST,
            record,
        }
    }
}

fn file_of(network_id: &str) -> Result<String> {
    let is_id = !network_id.is_empty() && network_id.bytes().all(|b| b.is_ascii_alphanumeric());
    ensure!(is_id, "NetworkID: {network_id:?} is no ID");
    Ok(format!("{network_id}{SUFFIX}"))
}
