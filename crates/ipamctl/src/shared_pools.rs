//! Pools that nodes share: the clusters that conflists name, and their contents.

pub(crate) mod blocks;
pub(crate) mod engines;

use std::any::Any;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::SystemTime;

use anyhow::{Context as _, Result, anyhow, bail};
use cluster::contents::{definitions, held_addresses};
use cluster::restore::Reconciled;
use cluster::{ConfiguredCluster, Engine, EngineError, Group, Holder, Holding, Key};
use cni::{NetworkConfig, NetworkName, Object};
use conflist::Problem;
use ipam::Pool;
use reservations::view::ListedAddress;
use reservations::{Reservation, State};
use serde_json::json;

use crate::arguments::{AnyClusterArguments, OwnClusterArguments};
use crate::context::Context;
use crate::node::{Directory, Network, Node};
use crate::output::warn;
use crate::shared_pools::engines::EngineKind;

/// A cluster, and the networks of this node that use its pools.
#[derive(Clone, Debug)]
pub(crate) struct SharedCluster {
    pub(crate) kind: &'static EngineKind,
    pub(crate) configured: Rc<dyn ConfiguredCluster>,
    /// The networks with the cluster's allocator: the cluster has each of their addresses.
    pub(crate) networks: Vec<NetworkName>,
    /// The configuration of one of these networks.
    pub(crate) config: Option<NetworkConfig>,
}

/// The pools and the addresses of a cluster.
#[derive(Debug, Default)]
pub(crate) struct View {
    /// The defined pools without blocks.
    pub(crate) defined: Vec<Pool>,
    /// The addresses by pool, including pools without a definition.
    pub(crate) directories: Vec<Directory>,
    /// Keys with unusable content.
    pub(crate) problems: Vec<Problem>,
}

impl SharedCluster {
    /// The clusters of these networks, each once.
    pub(crate) fn of<'a>(networks: impl IntoIterator<Item = &'a Network>) -> Vec<Self> {
        let mut found: Vec<Self> = Vec::new();
        for network in networks {
            let Some((kind, configured)) = &network.cluster else {
                continue;
            };
            let known = found.iter().position(|known| known.is(kind, &**configured));
            let at = known.unwrap_or_else(|| {
                found.push(Self::without_networks(kind, Rc::clone(configured)));
                found.len() - 1
            });
            if network.has_delegate(kind.allocator) {
                let cluster = &mut found[at];
                cluster.networks.push(network.name.clone());
                cluster.config.get_or_insert_with(|| network.config.clone());
            }
        }
        found
    }

    fn without_networks(kind: &'static EngineKind, configured: Rc<dyn ConfiguredCluster>) -> Self {
        Self {
            kind,
            configured,
            networks: Vec::new(),
            config: None,
        }
    }

    /// The clusters of this node's conflists, and of records of networks without a conflist. What
    /// can't be read is named on stderr.
    pub(crate) fn all(node: &Node) -> Vec<Self> {
        let mut problems = Vec::new();
        let unconfigured = node.unconfigured(&mut problems);
        problems.iter().for_each(warn);
        Self::of(node.networks.iter().chain(&unconfigured))
    }

    /// The cluster that the options select: that of a kubeconfig, on a machine that needs to be no
    /// node of it, or that of this node's networks.
    ///
    /// # Errors
    ///
    /// As [`Self::one`]; the path of the kubeconfig can't be made absolute.
    pub(crate) fn chosen(arguments: &AnyClusterArguments, context: &Context<'_>) -> Result<Self> {
        let Some(file) = &arguments.kubeconfig else {
            return Self::one(&context.node(), arguments.network.as_deref());
        };
        let cluster = kubernetes::Cluster::without_node(absolute(file)?);
        let configured = Rc::new(cluster.with_environment(context.environment));
        Ok(Self::without_networks(engines::kubernetes(), configured))
    }

    /// The cluster that the options select, with this machine as a node of it.
    ///
    /// # Errors
    ///
    /// As [`Self::one`]; the kubeconfig can't be used.
    pub(crate) fn of_this_node(arguments: &OwnClusterArguments, node: &Node) -> Result<Self> {
        let Some(file) = &arguments.any.kubeconfig else {
            return Self::one(node, arguments.any.network.as_deref());
        };
        let mut ipam = Object::new();
        ipam.set("kubernetes", &json!({"kubeconfig": absolute(file)?}));
        if let Some(name) = &arguments.node {
            ipam.set("node", name);
        }
        let kind = engines::kubernetes();
        let configured = (kind.read)(&ipam, &node.environment).map_err(failed)?;
        // A conflist or a record may name other folders of this node's files.
        let mut known = Self::all(node).into_iter();
        let known = known.find(|known| known.is(kind, &*configured));
        Ok(known.unwrap_or_else(|| Self::without_networks(kind, configured)))
    }

    /// The same cluster as one in Kubernetes' API.
    ///
    /// # Errors
    ///
    /// It has another engine.
    pub(crate) fn in_kubernetes(self) -> Result<Rc<kubernetes::Cluster>> {
        let path = self.path();
        let configured: Rc<dyn Any> = self.configured;
        configured.downcast().map_err(|_| {
            anyhow!(
                "{} isn't in Kubernetes' API: name its cluster with --kubeconfig or --network",
                path.display()
            )
        })
    }

    /// The one cluster of this node's networks, or that of the network with this name. Records
    /// count if no conflist leads to one.
    ///
    /// # Errors
    ///
    /// There is none, or several.
    fn one(node: &Node, name: Option<&str>) -> Result<Self> {
        let is_wanted = |network: &&Network| name.is_none_or(|name| network.name.as_str() == name);
        let mut clusters = Self::of(node.networks.iter().filter(is_wanted));
        // A record may have other endpoints of a conflist's cluster, such as earlier ones.
        if clusters.is_empty() {
            let mut problems = Vec::new();
            let unconfigured = node.unconfigured(&mut problems);
            clusters = Self::of(unconfigured.iter().filter(is_wanted));
            if clusters.is_empty() {
                problems.iter().for_each(warn);
            }
        }
        match (clusters.len(), name) {
            (1, _) => Ok(clusters.remove(0)),
            (0, None) => Err(no_cluster()),
            (0, Some(name)) => bail!(
                "no conflist and no record of a network {name} has {} among its delegates",
                EngineKind::plugins()
            ),
            _ => bail!(
                "conflists and records lead to several clusters: name a network of one with --network"
            ),
        }
    }

    /// True for the same engine, endpoints, prefix and node.
    fn is(&self, kind: &EngineKind, other: &dyn ConfiguredCluster) -> bool {
        let (one, other) = (self.node(), other.node());
        self.kind.allocator == kind.allocator
            && one.endpoints == other.endpoints
            && one.prefix == other.prefix
            && one.name == other.name
    }

    /// This node in the cluster.
    pub(crate) fn node(&self) -> &cluster::Node {
        self.configured.node()
    }

    /// The engine for the requests of one command. Each request may take `timeout`, since a
    /// cluster's pools are large.
    pub(crate) fn engine(&self) -> Box<dyn Engine + '_> {
        let mut engine = self.configured.engine(None);
        engine.time().bound_each_request();
        engine
    }

    /// The cluster as a path, for messages: `etcd:/ipam`.
    pub(crate) fn path(&self) -> PathBuf {
        self.configured.path().into()
    }

    /// The path of a pool's addresses. It replaces the directory of reservations.
    pub(crate) fn directory(&self, pool: &str) -> PathBuf {
        self.configured.path_of_addresses(pool).into()
    }

    /// Reads the pools, and with `lists` the addresses of this node.
    ///
    /// # Errors
    ///
    /// Those of the engine.
    pub(crate) fn view(&self, lists: bool) -> Result<View, EngineError> {
        let engine = &mut *self.engine();
        let mut view = View::default();
        let mut directories: BTreeMap<NetworkName, Directory> = BTreeMap::new();
        for pool in definitions(engine)? {
            match pool {
                Ok(pool) if pool.definition.block.is_some() => {}
                Ok(pool) => view.defined.push(pool.definition.pool),
                Err(unusable) => view.problems.push(problem(engine, unusable)),
            }
        }
        for address in held_addresses(engine, false)? {
            let directory = self.directory_of(&address.pool, &mut directories);
            directory.taken.push(address.ip);
        }
        if lists {
            for (pool, address) in of_node(engine, &self.node().name)? {
                let directory = self.directory_of(&pool, &mut directories);
                directory.listed.push(address);
            }
        }
        for mut directory in directories.into_values() {
            directory.listed.sort_unstable_by_key(|address| address.ip);
            // The pool's first address was reserved after the addresses were listed.
            if directory.taken.is_empty() {
                let listed = directory.listed.iter();
                directory.taken = listed.map(|address| address.ip).collect();
            }
            directory.taken.sort_unstable();
            view.directories.push(directory);
        }
        Ok(view)
    }

    /// The directory of a pool among these; a new one is empty.
    fn directory_of<'d>(
        &self,
        pool: &NetworkName,
        directories: &'d mut BTreeMap<NetworkName, Directory>,
    ) -> &'d mut Directory {
        let path = self.directory(pool.as_str());
        let entry = directories.entry(pool.clone());
        entry.or_insert_with(|| Directory {
            cluster: Some(self.clone()),
            ..Directory::of_taken(path, pool.clone(), Vec::new())
        })
    }
}

/// The error if neither a conflist nor a record leads to a cluster.
pub(crate) fn no_cluster() -> anyhow::Error {
    let plugins = EngineKind::plugins();
    anyhow!("no conflist and no record leads to a cluster: none has {plugins} among its delegates")
}

/// The absolute path of a kubeconfig.
fn absolute(file: &Path) -> Result<PathBuf> {
    std::path::absolute(file).with_context(|| file.display().to_string())
}

/// The message of a cluster's error.
pub(crate) fn failed(error: cni::Error) -> anyhow::Error {
    anyhow::Error::msg(error.msg)
}

/// The outcome of a claim: `held`, `claimed` or `conflict`, and what the engine has instead.
pub(crate) fn outcome(state: Reconciled) -> (&'static str, Option<String>) {
    match state {
        Reconciled::Held => ("held", None),
        Reconciled::Claimed => ("claimed", None),
        Reconciled::Conflict(other) => ("conflict", Some(other)),
    }
}

/// An unusable definition, with its path and the reason.
pub(crate) fn problem(engine: &dyn Engine, (path, reason): (String, String)) -> Problem {
    let path = format!("{}:{path}", engine.name());
    Problem::new(path.as_ref(), reason)
}

/// The addresses of a node, each with its pool.
fn of_node(
    engine: &mut dyn Engine,
    node: &str,
) -> Result<Vec<(NetworkName, ListedAddress)>, EngineError> {
    let mut found = Vec::new();
    for stored in engine.list(&Group::Held(Holding::of_node(node)), true)? {
        let Key::Held(held) = stored.key else {
            continue;
        };
        let network = Some(held.network.to_string());
        let address = ListedAddress {
            ip: held.ip,
            state: State::Reserved(Reservation {
                container_id: held.attachment.container_id.to_string(),
                ifname: Some(held.attachment.ifname.to_string()),
                network: network.clone(),
            }),
            network,
            since: Holder::parse(&stored.value).and_then(|holder| since(&holder)),
        };
        found.push((held.pool, address));
    }
    Ok(found)
}

/// The time of the ADD; `None` if it isn't in our format.
pub(crate) fn since(holder: &Holder) -> Option<SystemTime> {
    humantime::parse_rfc3339(&holder.since).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cni::Environment;
    use conflist::Conflist;

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
            network("a", "ipam-da-etcd", one).unwrap(),
            network("b", "ipam-da-etcd", one).unwrap(),
            network("c", "ipam-ds-etcd", one).unwrap(),
            network("d", "ipam-da-etcd", other).unwrap(),
            network("e", "ipam-da-host-local", "7").unwrap(),
        ];
        let clusters = SharedCluster::of(&networks);
        let names: Vec<Vec<&str>> = clusters
            .iter()
            .map(|cluster| cluster.networks.iter().map(NetworkName::as_str).collect())
            .collect();
        assert_eq!(names, [vec!["a", "b"], vec!["d"]]);
        assert_eq!(clusters[1].path(), Path::new("etcd:/other"));
        let web = networks[0].directory("web");
        assert_eq!(web, Path::new("etcd:/ipam/v1/addresses/web"));
        assert_eq!(clusters[0].directory("web"), web);
        let error = network("f", "ipam-da-etcd", r#"{"endpoints":[]}"#).unwrap_err();
        assert!(error.contains("etcd.endpoints"), "{error}");
    }
}
