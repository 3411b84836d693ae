//! Reads pools, reservations and records of a node, without their locks.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::ensure;
use chain::record::{ListedRecord, records};
use cni::NetworkName;
use conflist::{Problem, readable};
use reservations::view::{directories, list, taken};

use crate::node::directory::Directory;
use crate::node::docker::Docker;
use crate::node::machine::{Node, known_or_empty};
use crate::node::network::{ALLOCATOR, HOST_LOCAL, Network, RANGES, RULES};
use crate::node::pools::Pools;
use crate::output::warn;
use crate::shared_pools::SharedCluster;

/// Delegates that choose only pools of their configuration.
const POOLS_ARE_CONFIGURED: [&str; 7] = [
    ALLOCATOR,
    HOST_LOCAL,
    RANGES,
    RULES,
    "ipam-ds-static",
    "static",
    "dhcp",
];

/// Amount that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The taken addresses, and the records of networks whose pools or cluster only a record names.
    Pools,
    /// The taken addresses, and all records.
    Map,
    /// Reservations, records, and Docker's answer.
    All,
}

/// Pools, reservations and records of a node.
#[derive(Debug, Default)]
pub(crate) struct Inventory {
    pub(crate) pools: Pools,
    /// By path.
    pub(crate) directories: BTreeMap<PathBuf, Directory>,
    pub(crate) records: Vec<ListedRecord>,
    /// The attachments of Docker; empty unless [`Extent::All`] is read.
    pub(crate) docker: Docker,
    /// Files and folders that can't be read.
    pub(crate) problems: Vec<Problem>,
    /// Number of files and folders that can't be read, conflists included.
    pub(crate) unread: usize,
}

impl Inventory {
    /// Reads it, and names on stderr what can't be read.
    pub(crate) fn read(node: &Node, extent: Extent) -> Self {
        let mut inventory = Self::default();
        for network in &node.networks {
            inventory.pools.add_configured(network, &node.environment);
        }
        for data_dir in node.data_dirs() {
            inventory.read_data_dir(&data_dir, extent);
        }
        let recorded = node.recorded_networks(&mut inventory.problems);
        for (state_dir, network) in &recorded {
            inventory.read_records(node, state_dir, network, extent);
        }
        let unconfigured = node.unconfigured_in(&inventory.records, &mut inventory.problems);
        for cluster in SharedCluster::of(node.networks.iter().chain(&unconfigured)) {
            if let Err(error) = inventory.read_cluster(&cluster, extent) {
                let problem = Problem::new(&cluster.path(), error.to_string());
                inventory.problems.push(problem);
            }
        }
        if extent == Extent::All {
            inventory.docker = node.ask_docker();
        }
        inventory.problems.iter().for_each(warn);
        for (network, reason) in &inventory.pools.problems {
            warn(format!("network {network}: {reason}"));
        }
        let of_pools = inventory.pools.problems.len();
        inventory.unread = inventory.problems.len() + of_pools + node.problems.len();
        inventory
    }

    fn read_data_dir(&mut self, data_dir: &Path, extent: Extent) {
        let names = known_or_empty(data_dir, directories(data_dir), &mut self.problems);
        for name in names {
            let path = data_dir.join(name.as_str());
            // The files of a directory without a conflist name its networks.
            let is_counted = extent != Extent::All && self.pools.has_directory(&path);
            let read = if is_counted {
                taken(&path).map(|taken| Directory::of_taken(path.clone(), name, taken))
            } else {
                list(&path).map(|listed| Directory::of_files(path.clone(), name, listed))
            };
            match read {
                Ok(directory) => {
                    self.directories.insert(path, directory);
                }
                // Removed meanwhile.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => self.problems.push(Problem::new(&path, readable(&error))),
            }
        }
    }

    /// Reads the pools of a cluster; the addresses of each are a directory.
    fn read_cluster(
        &mut self,
        cluster: &SharedCluster,
        extent: Extent,
    ) -> Result<(), cluster::EngineError> {
        let view = cluster.view(extent == Extent::All)?;
        self.problems.extend(view.problems);
        for pool in view.defined {
            self.pools.add_shared(cluster, pool);
        }
        let directories = view.directories.into_iter();
        self.directories
            .extend(directories.map(|directory| (directory.path.clone(), directory)));
        Ok(())
    }

    /// Reads the records of a network, and the pools in their selectors' answers.
    fn read_records(&mut self, node: &Node, state_dir: &Path, name: &NetworkName, extent: Extent) {
        let network = node.network(name.as_str());
        let choosing = network.filter(|network| may_have_recorded_pools(network));
        // Of a network without a conflist, only a record may name the cluster.
        if extent == Extent::Pools && network.is_some() && choosing.is_none() {
            return;
        }
        let path = state_dir.join(name.as_str());
        let records = known_or_empty(&path, records(state_dir, name), &mut self.problems);
        if let Some(network) = choosing {
            let contents = records.iter().flat_map(|record| &record.content);
            let delegates = contents.flat_map(|content| &content.delegates);
            for answer in delegates.filter_map(|delegate| delegate.result.as_deref()) {
                self.pools.add_recorded(network, answer);
            }
        }
        self.records.extend(records);
    }

    /// The result of a command that has shown what could be read: whether it has findings.
    ///
    /// # Errors
    ///
    /// If something could not be read: the output is incomplete.
    pub(crate) fn verdict(&self, has_findings: bool) -> anyhow::Result<bool> {
        ensure!(
            self.unread == 0,
            "this is not everything: {} files or folders could not be read",
            self.unread
        );
        Ok(has_findings)
    }

    /// The reason why an attachment of this network may have a record that isn't among
    /// [`Self::records`]; `None` if all folders that may have it were read.
    pub(crate) fn may_have_a_record(&self, node: &Node, network: &str) -> Option<String> {
        let folders = node.state_dirs().into_iter();
        let folders: Vec<PathBuf> = folders.flat_map(|dir| [dir.join(network), dir]).collect();
        let mut problems = self.problems.iter();
        let unread = problems.find(|problem| folders.contains(&problem.path));
        // One of the unreadable files may be its conflist, which may name another folder.
        let conflist = node.problems.first();
        let conflist = conflist.filter(|_| node.network(network).is_none());
        let problem = unread.or(conflist)?;
        Some(format!("it may have a record: {problem}"))
    }

    /// True if the directory exists, and its reservations could not be read.
    pub(crate) fn is_unreadable(&self, directory: &Path) -> bool {
        let mut problems = self.problems.iter();
        problems.any(|problem| directory.starts_with(&problem.path))
    }

    /// The taken addresses of a directory; none if it doesn't exist.
    pub(crate) fn taken(&self, directory: &Path) -> &[IpAddr] {
        let directory = self.directories.get(directory);
        directory.map_or(&[], |directory| &directory.taken)
    }
}

/// True if records of the network may have pools that aren't in its configuration.
fn may_have_recorded_pools(network: &Network) -> bool {
    let mut delegates = network.delegates.iter();
    // Pools may be in files that only the selector reads.
    delegates.any(|name| !POOLS_ARE_CONFIGURED.contains(&name.as_str()))
        || network.ipam().get("poolsDir").is_some()
}
