//! The networks of one machine, and the folders that have to be read to know who holds
//! which address.

pub(crate) mod attachment;
pub(crate) mod container_id;
pub(crate) mod directory;
pub(crate) mod docker;
pub(crate) mod held_address;
pub(crate) mod holders;
pub(crate) mod inventory;
pub(crate) mod names;
pub(crate) mod network;
pub(crate) mod one_address;
pub(crate) mod pool_usage;
pub(crate) mod pools;
pub(crate) mod record;
pub(crate) mod selection;

use std::collections::BTreeSet;
use std::path::PathBuf;

use cni::Environment;
use conflist::{Conflist, Found, Problem};
use docker_ipam_delegated::state::view::RECORDS;

use crate::arguments::Places;
use crate::node::docker::{Docker, Memory};
use crate::node::network::Network;
use crate::output::warn;
use crate::shared_pools::SharedCluster;

/// Where the runtimes look for plugins: podman's folders and containerd's.
const CNI_PATH: &str =
    "/opt/cni/bin:/usr/local/libexec/cni:/usr/libexec/cni:/usr/local/lib/cni:/usr/lib/cni";

/// A machine, as its conflists describe it.
pub(crate) struct Node {
    /// All network configurations.
    pub(crate) conflists: Vec<Conflist>,
    /// The networks of ipam-delegated and host-local; the first of several with one name, as
    /// the runtimes have it.
    pub(crate) networks: Vec<Network>,
    /// The memory of `docker-ipam-delegated`; its networks without a conflist are among
    /// [`Self::networks`].
    docker: Memory,
    /// The clusters whose pools the networks use.
    pub(crate) clusters: Vec<SharedCluster>,
    /// Files and folders that can't be used.
    pub(crate) problems: Vec<Problem>,
    /// The environment of calls: that of this process, with `CNI_PATH`.
    pub(crate) environment: Environment,
    /// The folders and sockets of the command line.
    pub(crate) places: Places,
}

impl Node {
    /// Reads the conflists of these places, and names on stderr what can't be used.
    pub(crate) fn read(places: &Places, environment: &Environment) -> Self {
        let node = Self::with(Found::in_folders(&places.conf_dir), places, environment);
        for Problem { path, reason } in &node.problems {
            warn(&format!("{}: {reason}", path.display()));
        }
        node
    }

    /// The node with these conflists.
    pub(crate) fn with(found: Found, places: &Places, environment: &Environment) -> Self {
        let cni_path = places.cni_path.as_deref().unwrap_or(CNI_PATH);
        let docker = Memory::read(&places.docker);
        let mut node = Self {
            conflists: Vec::new(),
            networks: Vec::new(),
            clusters: Vec::new(),
            problems: found.problems,
            environment: environment.clone().with("CNI_PATH", cni_path),
            places: places.clone(),
            docker: Memory::Missing,
        };
        let problems = docker.problems(&places.docker.docker_state_dir);
        node.problems.extend(problems);
        for conflist in &found.conflists {
            if node.network(conflist.name.as_str()).is_none() {
                node.add_network(conflist);
            }
        }
        node.conflists = found.conflists;
        // The networks of Docker's that have no conflist.
        let pools = docker.remembered().map(|memory| &memory.pools);
        for pool in pools.into_iter().flatten() {
            let Some(config) = &pool.config else {
                continue;
            };
            match Conflist::parse(&pool.file, config.as_bytes()) {
                Ok(conflist) => node.add_network(&conflist),
                Err(reason) => node.problems.push(Problem {
                    path: pool.file.clone(),
                    reason,
                }),
            }
        }
        node.docker = docker;
        node.clusters = SharedCluster::of(&node.networks);
        node
    }

    /// Adds the network of a conflist, if ipam-delegated or host-local gives its addresses.
    fn add_network(&mut self, conflist: &Conflist) {
        match Network::of(conflist, &self.environment) {
            Ok(Some(mut network)) => {
                // host-local has no records; this is where releases are locked.
                if network.is_host_local {
                    network.state_dir.clone_from(&self.places.state_dir);
                }
                self.networks.push(network);
            }
            Ok(None) => {}
            Err(reason) => self.problems.push(Problem {
                path: conflist.file.clone(),
                reason,
            }),
        }
    }

    /// Asks Docker for the containers behind the attachments that were made for it.
    pub(crate) fn ask_docker(&self) -> Docker {
        Docker::read(&self.docker, &self.places.docker)
    }

    /// The network of this name.
    pub(crate) fn network(&self, name: &str) -> Option<&Network> {
        let mut networks = self.networks.iter();
        networks.find(|network| network.name.as_str() == name)
    }

    /// The folders with directories of reservations.
    pub(crate) fn data_dirs(&self) -> BTreeSet<PathBuf> {
        let networks = self.networks.iter().filter(|network| network.keeps_files());
        networks
            .map(|network| network.folders.data_dir.clone())
            .chain([self.places.data_dir.clone()])
            .collect()
    }

    /// The folders with records.
    pub(crate) fn state_dirs(&self) -> BTreeSet<PathBuf> {
        let of_docker = self.places.docker.docker_state_dir.join(RECORDS);
        self.networks
            .iter()
            .map(|network| network.state_dir.clone())
            .chain([self.places.state_dir.clone(), of_docker])
            .collect()
    }
}
