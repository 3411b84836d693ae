//! This machine's networks, and the folders of their reservations and records.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use chain::record::networks;
use cni::{Environment, NetworkName};
use conflist::{Conflist, Found, Problem, readable};
use docker_ipam_delegated::state::view::{RECORDS, remembered};

use crate::arguments::Places;
use crate::node::docker::Docker;
use crate::node::docker_memory::{self, Memory};
use crate::node::network::Network;
use crate::output::warn;

/// The runtimes' folders of plugins: podman's and containerd's.
const CNI_PATH: &str =
    "/opt/cni/bin:/usr/local/libexec/cni:/usr/libexec/cni:/usr/local/lib/cni:/usr/lib/cni";

/// A machine, as its conflists describe it.
pub(crate) struct Node {
    /// All network configurations.
    pub(crate) conflists: Vec<Conflist>,
    /// The networks of ipam-delegated and host-local, including Docker's; the first one of several
    /// with the same name, as in the runtimes.
    pub(crate) networks: Vec<Network>,
    docker: Memory,
    /// Files and folders that can't be used.
    pub(crate) problems: Vec<Problem>,
    /// The environment of calls: that of this process, with `CNI_PATH`.
    pub(crate) environment: Environment,
    /// The folders and sockets of the command line.
    pub(crate) places: Places,
}

impl Node {
    /// Reads the conflists of these folders, and names unusable ones on stderr.
    pub(crate) fn read(places: &Places, environment: &Environment) -> Self {
        let node = Self::with(Found::in_folders(&places.conf_dir), places, environment);
        node.problems.iter().for_each(warn);
        node
    }

    /// The node with these conflists.
    pub(crate) fn with(found: Found, places: &Places, environment: &Environment) -> Self {
        let cni_path = places.cni_path.as_deref().unwrap_or(CNI_PATH);
        let state_dir = &places.docker_state_dir;
        let docker = remembered(state_dir).map_err(|error| readable(&error));
        let of_docker = docker_memory::networks(&docker, state_dir);
        let mut problems = found.problems;
        problems.extend(of_docker.problems);
        let mut networks: Vec<Network> = Vec::new();
        for conflist in found.conflists.iter().chain(&of_docker.conflists) {
            if networks.iter().any(|known| known.name == conflist.name) {
                continue;
            }
            match Network::of(conflist, environment) {
                Ok(network) => networks.extend(network),
                Err(reason) => problems.push(Problem::new(&conflist.file, reason)),
            }
        }
        // host-local has no records, but a release locks a file there.
        let of_host_local = networks.iter_mut().filter(|network| network.is_host_local);
        of_host_local.for_each(|network| network.state_dir.clone_from(&places.state_dir));
        Self {
            conflists: found.conflists,
            networks,
            docker,
            problems,
            environment: environment.clone().with("CNI_PATH", cni_path),
            places: places.clone(),
        }
    }

    /// Asks Docker for the containers of its attachments.
    pub(crate) fn ask_docker(&self) -> Docker {
        let places = &self.places;
        Docker::read(
            &self.docker,
            &places.docker_state_dir,
            &places.docker_socket,
        )
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
        let of_docker = self.places.docker_state_dir.join(RECORDS);
        let networks = self.networks.iter();
        let state_dirs = networks.map(|network| network.state_dir.clone());
        let others = [self.places.state_dir.clone(), of_docker];
        state_dirs.chain(others).collect()
    }

    /// The networks with records, each with its `stateDir`. Unreadable folders are problems.
    pub(crate) fn recorded_networks(
        &self,
        problems: &mut Vec<Problem>,
    ) -> Vec<(PathBuf, NetworkName)> {
        let mut found = Vec::new();
        for state_dir in self.state_dirs() {
            let names = known_or_empty(&state_dir, networks(&state_dir), problems);
            found.extend(names.into_iter().map(|name| (state_dir.clone(), name)));
        }
        found
    }
}

/// The values that were read at this path; empty, with a problem, if it can't be read.
pub(crate) fn known_or_empty<T>(
    path: &Path,
    read: io::Result<Vec<T>>,
    problems: &mut Vec<Problem>,
) -> Vec<T> {
    read.unwrap_or_else(|error| {
        problems.push(Problem::new(path, readable(&error)));
        Vec::new()
    })
}
