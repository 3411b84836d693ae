//! This machine as its conflists describe it: networks, and the folders of reservations and records.
//!
//! Most commands begin with [`Context::node`]. Networks that have no conflist (Docker's, those of Multus) are
//! known only by their records; the inventory asks for them when it has read these.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use chain::record::ListedRecord;
use cni::Environment;
use conflist::{Conflist, Listing, PluginEntry, Problem};
use docker_records::records::{ADDRESS_RECORDS, ENDPOINT_RECORDS};

use crate::Context;
use crate::arguments::Sources;
use crate::network::Network;
use crate::output::warn;

/// The runtimes' folders of plugins: podman's and containerd's.
const CNI_PATH: &str =
    "/opt/cni/bin:/usr/local/libexec/cni:/usr/libexec/cni:/usr/local/lib/cni:/usr/lib/cni";

/// A machine, as its conflists describe it.
pub(crate) struct LocalNode {
    /// All network configurations.
    pub(crate) conflists: Vec<Conflist>,
    /// The networks of ipam-delegated and host-local; the first one of several with the same name,
    /// as in the runtimes.
    pub(crate) networks: Vec<Network>,
    /// Files and folders that can't be used.
    pub(crate) problems: Vec<Problem>,
    /// The environment of calls: that of this process, with `CNI_PATH`.
    pub(crate) environment: Environment,
    /// The folders of the command line.
    pub(crate) sources: Sources,
}

impl Context<'_> {
    /// Reads this machine's conflists, and names on stderr those that can't be used.
    pub(crate) fn node(&self) -> LocalNode {
        let found = match &self.sources.kubeconfig {
            // Nothing of this machine is meant.
            Some(_) => Listing::default(),
            None => Listing::in_folders(&self.sources.conf_dir),
        };
        let node = self.node_with(found);
        node.problems.iter().for_each(warn);
        node
    }

    /// The node with these conflists.
    pub(crate) fn node_with(&self, found: Listing) -> LocalNode {
        let (sources, environment) = (self.sources, self.environment);
        let cni_path = sources.cni_path.as_deref().unwrap_or(CNI_PATH);
        let mut node = LocalNode {
            conflists: found.conflists,
            networks: Vec::new(),
            problems: found.problems,
            environment: environment.clone().with("CNI_PATH", cni_path),
            sources: sources.clone(),
        };
        for conflist in &node.conflists {
            if node.network(conflist.name.as_str()).is_some() {
                continue;
            }
            match Network::of(conflist, environment) {
                Ok(network) => node.networks.extend(network),
                Err(error) => node.problems.push(Problem::new(&conflist.file, error.msg)),
            }
        }
        // host-local has no records, but a release locks a file there.
        let host_local = node.networks.iter_mut().filter(|one| one.is_host_local);
        host_local.for_each(|network| network.state_dir.clone_from(&sources.state_dir));
        node
    }
}

impl LocalNode {
    /// The network of this name.
    pub(crate) fn network(&self, name: &str) -> Option<&Network> {
        let mut networks = self.networks.iter();
        networks.find(|network| network.name.as_str() == name)
    }

    /// The folders with records.
    pub(crate) fn state_dirs(&self) -> BTreeSet<PathBuf> {
        let networks = self.networks.iter();
        let configured = networks.map(|network| network.state_dir.clone());
        let addresses = self.sources.docker_state_dir.join(ADDRESS_RECORDS);
        let others = [
            self.sources.state_dir.clone(),
            addresses,
            self.endpoints_dir(),
        ];
        configured.chain(others).collect()
    }

    /// The folder of the records of Docker's endpoints.
    pub(crate) fn endpoints_dir(&self) -> PathBuf {
        self.sources.docker_state_dir.join(ENDPOINT_RECORDS)
    }

    /// The networks of these records that have no conflist, each as its newest ADD was configured:
    /// Multus keeps its networks' configurations in the API server, Docker keeps its own.
    pub(crate) fn networks_without_conflist(
        &self,
        records: &[Arc<ListedRecord>],
        problems: &mut Vec<Problem>,
    ) -> Vec<Network> {
        let added = |record: &ListedRecord| record.usable().map(|content| content.added);
        let mut newest: BTreeMap<&str, &ListedRecord> = BTreeMap::new();
        for record in records {
            let network = record.network.as_str();
            let known = newest.get(network).and_then(|known| added(known));
            if self.network(network).is_none() && added(record) > known {
                newest.insert(network, record);
            }
        }
        let mut found = Vec::new();
        for record in newest.into_values() {
            match self.network_of(record) {
                Ok(network) => found.push(network),
                Err(reason) => problems.push(Problem::new(&record.file, reason)),
            }
        }
        found
    }

    /// The folders of reservations that the configurations of these records name.
    pub(crate) fn recorded_data_dirs(&self, records: &[Arc<ListedRecord>]) -> BTreeSet<PathBuf> {
        let with_config = records
            .iter()
            .filter_map(|record| Some((record.usable()?.raw_config().get(), record)));
        let once: BTreeMap<&str, &Arc<ListedRecord>> = with_config.collect();
        let read = once.into_values().map(|record| self.network_of(record));
        let with_files = read.flatten().filter(Network::keeps_files);
        with_files.map(|network| network.data_dir).collect()
    }

    /// The network of a chain's record, as its ADD was configured.
    fn network_of(&self, record: &ListedRecord) -> Result<Network, String> {
        let content = record.content.as_ref().map_err(Clone::clone)?;
        let read = content.config().and_then(|config| {
            let plugin = PluginEntry::of_request(config);
            Network::of_plugin(&record.file, &plugin, &self.environment)
        });
        read.map_err(|error| error.msg)
    }
}
