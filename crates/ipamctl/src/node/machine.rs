//! This machine's networks, and the folders that have their reservations and records.

use std::collections::BTreeSet;
use std::path::PathBuf;

use cni::Environment;
use conflist::{Conflist, Found, Problem};
use docker_ipam_delegated::state::view::RECORDS;

use crate::arguments::Places;
use crate::node::docker::Docker;
use crate::node::docker_memory::{self, Memory};
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
    /// The networks of ipam-delegated and host-local, Docker's included; the first of several
    /// with one name, as the runtimes have it.
    pub(crate) networks: Vec<Network>,
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
        node.problems.iter().for_each(warn);
        node
    }

    /// The node with these conflists.
    pub(crate) fn with(found: Found, places: &Places, environment: &Environment) -> Self {
        let cni_path = places.cni_path.as_deref().unwrap_or(CNI_PATH);
        let docker = docker_memory::read(&places.docker);
        let mut problems = found.problems;
        problems.extend(docker_memory::problems(&docker, &places.docker));
        let of_docker = docker_memory::conflists(&docker, &mut problems);
        let mut networks: Vec<Network> = Vec::new();
        for conflist in found.conflists.iter().chain(&of_docker) {
            if networks.iter().any(|known| known.name == conflist.name) {
                continue;
            }
            match Network::of(conflist, environment) {
                Ok(network) => networks.extend(network),
                Err(reason) => problems.push(Problem::new(&conflist.file, reason)),
            }
        }
        // host-local has no records; this is where releases are locked.
        let of_host_local = networks.iter_mut().filter(|network| network.is_host_local);
        of_host_local.for_each(|network| network.state_dir.clone_from(&places.state_dir));
        Self {
            clusters: SharedCluster::of(&networks),
            conflists: found.conflists,
            networks,
            docker,
            problems,
            environment: environment.clone().with("CNI_PATH", cni_path),
            places: places.clone(),
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
        let data_dirs = networks.map(|network| network.folders.data_dir.clone());
        data_dirs.chain([self.places.data_dir.clone()]).collect()
    }

    /// The folders with records.
    pub(crate) fn state_dirs(&self) -> BTreeSet<PathBuf> {
        let of_docker = self.places.docker.docker_state_dir.join(RECORDS);
        let state_dirs = self
            .networks
            .iter()
            .map(|network| network.state_dir.clone());
        let others = [self.places.state_dir.clone(), of_docker];
        state_dirs.chain(others).collect()
    }
}
