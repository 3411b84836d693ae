//! The networks of one machine, and the folders that have to be read to know who holds
//! which address.

pub(crate) mod attachment;
pub(crate) mod docker;
pub(crate) mod held_address;
pub(crate) mod inventory;
pub(crate) mod names;
pub(crate) mod network;
pub(crate) mod one_address;
pub(crate) mod pools;
pub(crate) mod usage;

use std::collections::BTreeSet;
use std::path::PathBuf;

use cni::Environment;
use conflist::{Conflist, Found, Problem};
use docker_ipam_delegated::state::view::RECORDS;

use crate::arguments::{DockerPlaces, Places};
use crate::node::docker::{Docker, Memory};
use crate::node::network::Network;
use crate::output::warn;
use crate::shared_pools::EtcdCluster;

/// Where the runtimes look for plugins: podman's folders and containerd's.
const CNI_PATH: &str =
    "/opt/cni/bin:/usr/local/libexec/cni:/usr/libexec/cni:/usr/local/lib/cni:/usr/lib/cni";

/// What is known of a machine by its conflists.
pub(crate) struct Node {
    /// All network configurations.
    pub(crate) conflists: Vec<Conflist>,
    /// The networks that we can look into; the first of several with one name, as the
    /// runtimes have it.
    pub(crate) networks: Vec<Network>,
    /// The memory of `docker-ipam-delegated`; its networks without a conflist are among
    /// [`Self::networks`].
    docker: Memory,
    /// The clusters whose pools the networks use.
    pub(crate) clusters: Vec<EtcdCluster>,
    /// Files and folders that can't be used.
    pub(crate) problems: Vec<Problem>,
    /// The environment of calls: that of this process, with `CNI_PATH`.
    pub(crate) environment: Environment,
    places: Places,
}

impl Node {
    /// Reads the conflists of these places.
    pub(crate) fn read(places: &Places, environment: &Environment) -> Self {
        Self::with(Found::in_folders(&places.conf_dir), places, environment)
    }

    /// The node with these conflists.
    pub(crate) fn with(found: Found, places: &Places, environment: &Environment) -> Self {
        let cni_path = places.cni_path.clone();
        let environment = environment
            .clone()
            .with("CNI_PATH", cni_path.unwrap_or_else(|| CNI_PATH.to_owned()));
        let mut it = Self {
            conflists: found.conflists,
            networks: Vec::new(),
            docker: Memory::read(&places.docker),
            clusters: Vec::new(),
            problems: found.problems,
            environment,
            places: places.clone(),
        };
        it.problems
            .extend(it.docker.problems(&places.docker.docker_state_dir));
        for conflist in &it.conflists {
            if it.networks.iter().any(|known| known.name == conflist.name) {
                continue;
            }
            match Network::of(conflist, &it.environment) {
                Ok(Some(mut network)) => {
                    // host-local has no records; this is where releases are locked.
                    if network.is_host_local {
                        network.state_dir.clone_from(&places.state_dir);
                    }
                    it.networks.push(network);
                }
                Ok(None) => {}
                Err(reason) => it.problems.push(Problem {
                    path: conflist.file.clone(),
                    reason,
                }),
            }
        }
        it.add_docker_networks();
        it.clusters = EtcdCluster::of(&it.networks);
        it
    }

    /// Adds the networks of Docker's that have no conflist.
    fn add_docker_networks(&mut self) {
        let pools = self.docker.remembered().map(|it| &it.pools);
        for pool in pools.into_iter().flatten() {
            let Some(config) = &pool.config else {
                continue;
            };
            let conflist = Conflist::parse(&pool.file, config.as_bytes());
            let network = conflist.and_then(|it| Network::of(&it, &self.environment));
            match network {
                Ok(network) => self.networks.extend(network),
                Err(reason) => self.problems.push(Problem {
                    path: pool.file.clone(),
                    reason,
                }),
            }
        }
    }

    /// Asks Docker for the containers behind the attachments that were made for it.
    pub(crate) fn ask_docker(&self) -> Docker {
        Docker::read(&self.docker, &self.places.docker)
    }

    /// Docker's folder and sockets.
    pub(crate) fn docker_places(&self) -> &DockerPlaces {
        &self.places.docker
    }

    /// The network of this name.
    pub(crate) fn network(&self, name: &str) -> Option<&Network> {
        self.networks.iter().find(|it| it.name.as_str() == name)
    }

    /// The folders with directories of reservations.
    pub(crate) fn data_dirs(&self) -> BTreeSet<PathBuf> {
        let networks = self.networks.iter().filter(|it| it.keeps_files());
        networks
            .map(|it| it.folders.data_dir.clone())
            .chain([self.places.data_dir.clone()])
            .collect()
    }

    /// The folders with records.
    pub(crate) fn state_dirs(&self) -> BTreeSet<PathBuf> {
        let networks = self.networks.iter();
        networks
            .map(|it| it.state_dir.clone())
            .chain([self.places.state_dir.clone()])
            .chain([self.places.docker.docker_state_dir.join(RECORDS)])
            .collect()
    }

    /// The options of the command line that lead to this node, where they aren't the defaults.
    pub(crate) fn words(&self) -> Vec<String> {
        self.places.words()
    }

    /// Prints what can't be used, on stderr.
    pub(crate) fn warn(&self) {
        for Problem { path, reason } in &self.problems {
            warn(&format!("{}: {reason}", path.display()));
        }
    }
}
