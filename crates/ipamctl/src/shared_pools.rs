//! Pools that nodes share in etcd: the clusters that conflists lead to, and what etcd has
//! of them.

mod blocks;
mod view;

use std::path::PathBuf;

use anyhow::{Result, bail};
use cluster::Engine as _;
use cni::NetworkName;
use etcd::{Cluster, Engine};

use crate::node::Node;
use crate::node::network::{ETCD_ALLOCATOR, ETCD_SELECTOR, Network, shared_directory};

pub(crate) use blocks::{BlockPool, ClaimedBlock, block_pools, claimed_blocks};
pub(crate) use view::{DefinedPool, Member, since};

/// A cluster of etcd, and the networks of this node whose pools it has.
#[derive(Clone, Debug)]
pub(crate) struct EtcdCluster {
    pub(crate) cluster: Cluster,
    /// The networks whose addresses stand in etcd: those with `ipam-da-etcd`.
    pub(crate) networks: Vec<NetworkName>,
}

impl EtcdCluster {
    /// The clusters of a node's networks, each once.
    pub(crate) fn of(networks: &[Network]) -> Vec<Self> {
        let mut found: Vec<Self> = Vec::new();
        for network in networks {
            let Some(cluster) = &network.cluster else {
                continue;
            };
            let name = Some(&network.name).filter(|_| network.has_delegate(ETCD_ALLOCATOR));
            match found.iter_mut().find(|it| it.is(cluster)) {
                Some(known) => known.networks.extend(name.cloned()),
                None => {
                    let cluster = cluster.clone();
                    let networks = name.cloned().into_iter().collect();
                    found.push(Self { cluster, networks });
                }
            }
        }
        found
    }

    /// The one cluster of this node, or that of a network.
    ///
    /// # Errors
    ///
    /// There is none, or several.
    pub(crate) fn one(node: &Node, network: Option<&str>) -> Result<Self> {
        let wanted = |it: &&Network| network.is_none_or(|name| it.name.as_str() == name);
        let networks: Vec<Network> = node.networks.iter().filter(wanted).cloned().collect();
        let mut clusters = Self::of(&networks);
        match (clusters.len(), network) {
            (1, _) => Ok(clusters.remove(0)),
            (0, None) => bail!(
                "no conflist has {ETCD_ALLOCATOR} or {ETCD_SELECTOR} among its delegates: etcd's endpoints are in these"
            ),
            (0, Some(name)) => bail!(
                "no conflist of a network {name} has {ETCD_ALLOCATOR} or {ETCD_SELECTOR} among its delegates"
            ),
            _ => bail!(
                "the conflists lead to several clusters: name a network of one with --network"
            ),
        }
    }

    /// True for the same endpoints, keys and node.
    pub(crate) fn is(&self, other: &Cluster) -> bool {
        let urls = |it: &Cluster| -> Vec<String> {
            let endpoints = it.settings.endpoints.iter();
            endpoints.map(|it| it.url().to_owned()).collect()
        };
        urls(&self.cluster) == urls(other)
            && self.cluster.keys == other.keys
            && self.cluster.node.name == other.node.name
    }

    /// The engine for the requests of one command, each of which may take `timeout`: pools of a
    /// cluster are large.
    pub(crate) fn engine(&self) -> Engine<'_> {
        let mut engine = Engine::new(&self.cluster, None);
        engine.time().bound_each_request();
        engine
    }

    /// The cluster as a path, for messages: `etcd:/ipam`.
    pub(crate) fn path(&self) -> PathBuf {
        format!("etcd:{}", self.cluster.settings.prefix).into()
    }

    /// The place of a pool's addresses, which stands for the directory of its reservations.
    pub(crate) fn directory(&self, pool: &str) -> PathBuf {
        shared_directory(&self.cluster, pool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cni::Environment;
    use conflist::Conflist;
    use std::path::Path;

    fn network(name: &str, delegate: &str, etcd: &str) -> Result<Network, String> {
        let ipam = format!(
            r#"{{"type":"ipam-delegated","delegates":["{delegate}"],"node":"n1","etcd":{etcd}}}"#
        );
        let content = format!(
            r#"{{"cniVersion":"1.0.0","name":"{name}","plugins":[{{"type":"macvlan","ipam":{ipam}}}]}}"#
        );
        let list = Conflist::parse(Path::new("/nowhere/n.conflist"), content.as_bytes())?;
        Ok(Network::of(&list, &Environment::default())?.unwrap())
    }

    #[test]
    fn networks_of_one_cluster_are_read_once() {
        let one = r#"{"endpoints":["http://10.0.0.1"]}"#;
        let other = r#"{"endpoints":["http://10.0.0.1"],"prefix":"/other"}"#;
        let networks = [
            network("a", ETCD_ALLOCATOR, one).unwrap(),
            network("b", ETCD_ALLOCATOR, one).unwrap(),
            network("c", ETCD_SELECTOR, one).unwrap(),
            network("d", ETCD_ALLOCATOR, other).unwrap(),
            network("e", "ipam-da-host-local", "7").unwrap(),
        ];
        let clusters = EtcdCluster::of(&networks);
        let names: Vec<Vec<&str>> = clusters
            .iter()
            .map(|it| it.networks.iter().map(NetworkName::as_str).collect())
            .collect();
        assert_eq!(names, [vec!["a", "b"], vec!["d"]]);
        assert_eq!(clusters[1].path(), Path::new("etcd:/other"));
        let web = networks[0].directory("web");
        assert_eq!(web, Path::new("etcd:/ipam/v1/addresses/web"));
        assert_eq!(clusters[0].directory("web"), web);
        let error = network("f", ETCD_ALLOCATOR, r#"{"endpoints":[]}"#).unwrap_err();
        assert!(error.contains("etcd.endpoints"), "{error}");
    }
}
