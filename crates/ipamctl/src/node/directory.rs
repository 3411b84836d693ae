//! A directory of reservations on this node, or the addresses of a cluster's pool.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;

use cni::NetworkName;
use reservations::State;
use reservations::view::ListedAddress;

use crate::shared_pools::SharedCluster;

/// A directory of reservations.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) path: PathBuf,
    /// The cluster of a cluster's pool, in which other nodes' addresses are taken and not listed.
    /// `None` for a directory of this node.
    pub(crate) cluster: Option<SharedCluster>,
    /// Name of the network or of the named pool.
    pub(crate) name: NetworkName,
    /// The addresses that aren't free, lowest first.
    pub(crate) taken: Vec<IpAddr>,
    /// Its addresses, lowest first; empty if only `taken` was read.
    pub(crate) listed: Vec<ListedAddress>,
}

impl Directory {
    /// A directory of this node, by the content of its files.
    pub(crate) fn of_files(path: PathBuf, name: NetworkName, listed: Vec<ListedAddress>) -> Self {
        // Only a torn file is free.
        let taken = listed.iter().filter(|address| address.state != State::Torn);
        let taken = taken.map(|address| address.ip).collect();
        Self {
            listed,
            ..Self::of_taken(path, name, taken)
        }
    }

    /// A directory of this node, by the names of its files.
    pub(crate) fn of_taken(path: PathBuf, name: NetworkName, taken: Vec<IpAddr>) -> Self {
        Self {
            path,
            cluster: None,
            name,
            taken,
            listed: Vec::new(),
        }
    }

    /// Path of an address: its file, or its name in the engine.
    pub(crate) fn path_of(&self, ip: IpAddr) -> PathBuf {
        match &self.cluster {
            Some(cluster) => {
                let path = cluster.configured.path_of_address(self.name.as_str(), ip);
                path.into()
            }
            None => self.path.join(ip.to_string()),
        }
    }

    /// The networks of its addresses, and whether it belongs to a named pool.
    pub(crate) fn networks(&self) -> (Vec<NetworkName>, bool) {
        if let Some(cluster) = &self.cluster {
            return (cluster.networks.clone(), true);
        }
        let listed = self.listed.iter();
        let mut networks: BTreeSet<NetworkName> = listed
            .filter_map(|address| address.network.as_deref()?.parse().ok())
            .collect();
        if networks.is_empty() {
            networks.insert(self.name.clone());
        }
        let is_named = !networks.contains(&self.name);
        (networks.into_iter().collect(), is_named)
    }
}
