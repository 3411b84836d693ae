//! Reads pools, reservations and records of a node, without their locks.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::ensure;
use cni::NetworkName;
use conflist::{Problem, readable};
use reservations::view::{directories, list, taken};

use crate::exit_status::Status;
use crate::node::Node;
use crate::node::directory::Directory;
use crate::node::docker::Docker;
use crate::node::network::{ALLOCATOR, HOST_LOCAL, Network, RANGES, RULES};
use crate::node::pools::{PlacedPool, Pools};
use crate::node::record::NetworkRecord;
use crate::output::warn;
use crate::shared_pools::SharedCluster;

/// Delegates that choose no pools that their configuration doesn't say.
const POOLS_ARE_CONFIGURED: [&str; 7] = [
    ALLOCATOR,
    HOST_LOCAL,
    RANGES,
    RULES,
    "ipam-ds-static",
    "static",
    "dhcp",
];

/// How much is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Reservations, and records only where nothing else says what the pools are.
    Pools,
    /// Records, and which addresses are taken.
    Map,
    /// Reservations and records.
    All,
}

/// Pools, reservations and records of a node.
#[derive(Debug, Default)]
pub(crate) struct Inventory {
    pub(crate) pools: Pools,
    pub(crate) directories: Vec<Directory>,
    /// The index of each path in [`Self::directories`].
    by_path: HashMap<PathBuf, usize>,
    pub(crate) records: Vec<NetworkRecord>,
    /// The attachments that were made for Docker; none unless [`Extent::All`] is read.
    pub(crate) docker: Docker,
    /// Files and folders that can't be read.
    pub(crate) problems: Vec<Problem>,
    /// Number of conflists, and files of Docker's memory, that can't be used.
    unread_conflists: usize,
}

impl Inventory {
    /// The pools of the conflists, without reservations and records.
    pub(crate) fn of_conflists(node: &Node) -> Self {
        let mut inventory = Self {
            unread_conflists: node.problems.len(),
            ..Self::default()
        };
        for network in &node.networks {
            inventory.pools.add_configured(network, &node.environment);
        }
        inventory
    }

    /// Reads it, and names on stderr what can't be read.
    pub(crate) fn read(node: &Node, extent: Extent) -> Self {
        let mut inventory = Self::of_conflists(node);
        for data_dir in node.data_dirs() {
            inventory.read_data_dir(&data_dir, extent);
        }
        for cluster in &node.clusters {
            if let Err(error) = inventory.read_cluster(cluster, extent) {
                inventory.problems.push(Problem {
                    path: cluster.path(),
                    reason: error.to_string(),
                });
            }
        }
        for state_dir in node.state_dirs() {
            inventory.read_state_dir(node, &state_dir, extent);
        }
        inventory.add_recorded_pools(node);
        if extent == Extent::All {
            inventory.docker = node.ask_docker();
        }
        inventory.warn();
        inventory
    }

    fn read_data_dir(&mut self, data_dir: &Path, extent: Extent) {
        for name in self.known_or_empty(data_dir, directories(data_dir)) {
            let path = data_dir.join(name.as_str());
            // The networks of a directory that nobody configures are in its files.
            let is_counted = extent != Extent::All && self.is_configured(&path);
            let read = if is_counted {
                taken(&path).map(|taken| Directory {
                    path: path.clone(),
                    shared_by: None,
                    name,
                    taken,
                    listed: Vec::new(),
                })
            } else {
                list(&path).map(|listed| Directory::of_files(path.clone(), name, listed))
            };
            match read {
                Ok(directory) => self.add_directory(directory),
                // Removed meanwhile.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => self.add_problem(&path, &error),
            }
        }
    }

    /// Reads the pools of a cluster; each stands for a directory of reservations.
    fn read_cluster(
        &mut self,
        cluster: &SharedCluster,
        extent: Extent,
    ) -> Result<(), cluster::EngineError> {
        let is_used = |placed: &&PlacedPool| cluster.networks.contains(&placed.networks[0]);
        let used = self.pools.all.iter().filter(is_used);
        let used = used.map(|placed| placed.directory_name().clone()).collect();
        let view = cluster.view(used, extent == Extent::All)?;
        self.problems.extend(view.problems);
        for pool in view.defined {
            self.pools.add_shared(cluster, pool);
        }
        for directory in view.directories {
            self.add_directory(directory);
        }
        Ok(())
    }

    fn read_state_dir(&mut self, node: &Node, state_dir: &Path, extent: Extent) {
        for network in self.known_or_empty(state_dir, chain::record::networks(state_dir)) {
            let is_wanted = extent != Extent::Pools
                || node
                    .network(network.as_str())
                    .is_some_and(may_have_recorded_pools);
            if is_wanted {
                self.read_records(state_dir, &network);
            }
        }
    }

    fn read_records(&mut self, state_dir: &Path, network: &NetworkName) {
        let records = chain::record::records(state_dir, network);
        let records = self.known_or_empty(&state_dir.join(network.as_str()), records);
        let of_network = records.into_iter().map(|listed| NetworkRecord {
            network: network.clone(),
            listed,
        });
        self.records.extend(of_network);
    }

    /// Adds the pools that recorded selectors have chosen.
    fn add_recorded_pools(&mut self, node: &Node) {
        for record in &self.records {
            let network = node.network(record.network.as_str());
            if let Some(network) = network.filter(|network| may_have_recorded_pools(network))
                && let Some(content) = record.content()
            {
                let answers = content.delegates.iter();
                for answer in answers.filter_map(|delegate| delegate.result.as_deref()) {
                    self.pools.add_recorded(network, answer);
                }
            }
        }
    }

    /// Adds a directory.
    pub(crate) fn add_directory(&mut self, directory: Directory) {
        let path = directory.path.clone();
        self.by_path.entry(path).or_insert(self.directories.len());
        self.directories.push(directory);
    }

    /// The values that were read at this path; none if it can't be read, which is noted.
    fn known_or_empty<T>(&mut self, path: &Path, read: io::Result<Vec<T>>) -> Vec<T> {
        read.unwrap_or_else(|error| {
            self.add_problem(path, &error);
            Vec::new()
        })
    }

    fn add_problem(&mut self, path: &Path, error: &io::Error) {
        self.problems.push(Problem {
            path: path.to_owned(),
            reason: readable(error),
        });
    }

    /// Names on stderr what can't be read.
    pub(crate) fn warn(&self) {
        for Problem { path, reason } in &self.problems {
            warn(&format!("{}: {reason}", path.display()));
        }
        for (network, reason) in &self.pools.problems {
            warn(&format!("network {network}: {reason}"));
        }
    }

    /// Number of files and folders that could not be read, conflists included.
    pub(crate) fn unread(&self) -> usize {
        self.problems.len() + self.unread_conflists + self.pools.problems.len()
    }

    /// The status of a command that has shown what could be read.
    ///
    /// # Errors
    ///
    /// If something could not be read: the output is incomplete.
    pub(crate) fn verdict(&self, status: Status) -> anyhow::Result<Status> {
        let unread = self.unread();
        ensure!(
            unread == 0,
            "this is not everything: {unread} files or folders could not be read"
        );
        Ok(status)
    }

    /// The reason why an attachment of this network may have a record that isn't among
    /// [`Self::records`]; `None` if all folders that may have it were read.
    pub(crate) fn may_have_a_record(&self, node: &Node, network: &str) -> Option<String> {
        let state_dirs = node.state_dirs();
        let unread = self.problems.iter().find(|problem| {
            state_dirs.contains(&problem.path)
                || state_dirs
                    .iter()
                    .any(|folder| folder.join(network) == problem.path)
        });
        // Its conflist, which may name another folder, may be one of those that can't be read.
        let conflist = node.problems.first();
        let conflist = conflist.filter(|_| node.network(network).is_none());
        let Problem { path, reason } = unread.or(conflist)?;
        Some(format!(
            "it may have a record: {}: {reason}",
            path.display()
        ))
    }

    /// True if the directory exists, and its reservations could not be read.
    pub(crate) fn is_unreadable(&self, directory: &Path) -> bool {
        let mut problems = self.problems.iter();
        problems.any(|problem| directory.starts_with(&problem.path))
    }

    /// The taken addresses of a directory; none if it doesn't exist.
    pub(crate) fn taken(&self, directory: &Path) -> &[IpAddr] {
        let at = self.by_path.get(directory);
        at.map_or(&[], |at| &self.directories[*at].taken)
    }

    /// True if a pool is known to be kept in this directory.
    pub(crate) fn is_configured(&self, directory: &Path) -> bool {
        self.pools.has_directory(directory)
    }
}

/// True if records of the network may have pools that its configuration doesn't say.
fn may_have_recorded_pools(network: &Network) -> bool {
    let mut delegates = network.delegates.iter();
    // Pools may be in files that only the selector reads.
    delegates.any(|name| !POOLS_ARE_CONFIGURED.contains(&name.as_str()))
        || network.ipam().get("poolsDir").is_some()
}
