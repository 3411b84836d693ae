//! The engines that keep clusters' pools, and their plugins. Only commands for one engine name it
//! elsewhere.

use std::path::Path;
use std::rc::Rc;

use anyhow::{Context, ensure};
use cluster::ConfiguredCluster;
use cni::{DelegateName, Error, Object};

use crate::arguments::AnyClusterArguments;
use crate::node::{Network, Node};
use crate::shared_pools::SharedCluster;

/// An engine, by its plugins.
#[derive(Debug)]
pub(crate) struct EngineKind {
    /// The allocator of addresses.
    pub(crate) allocator: &'static str,
    /// The selector of a node's blocks.
    pub(crate) selector: &'static str,
    /// Reads the cluster from an `ipam` section.
    pub(crate) read: fn(&Object) -> Result<Rc<dyn ConfiguredCluster>, Error>,
}

static ENGINES: [EngineKind; 2] = [
    EngineKind {
        allocator: "ipam-da-etcd",
        selector: "ipam-ds-etcd",
        read: |ipam| Ok(Rc::new(etcd::Cluster::read(ipam)?)),
    },
    EngineKind {
        allocator: "ipam-da-kubernetes",
        selector: "ipam-ds-kubernetes",
        read: |ipam| Ok(Rc::new(kubernetes::Cluster::read(ipam)?)),
    },
];

/// Kubernetes' API.
pub(crate) fn kubernetes() -> &'static EngineKind {
    &ENGINES[1]
}

/// The cluster of a kubeconfig, on a machine that is no node of it.
///
/// # Errors
///
/// The path can't be made absolute.
pub(crate) fn of_kubeconfig(file: &Path) -> anyhow::Result<kubernetes::Cluster> {
    let path = std::path::absolute(file).with_context(|| file.display().to_string())?;
    Ok(kubernetes::Cluster::without_node(path))
}

/// The Kubernetes cluster that the options select.
///
/// # Errors
///
/// As [`SharedCluster::one`]; the cluster has another engine.
pub(crate) fn kubernetes_cluster(
    arguments: &AnyClusterArguments,
    node: impl FnOnce() -> Node,
) -> anyhow::Result<kubernetes::Cluster> {
    if let Some(kubeconfig) = &arguments.kubeconfig {
        return of_kubeconfig(kubeconfig);
    }
    let networks = node().networks;
    let name = arguments.named.network.as_deref();
    let cluster = SharedCluster::one(&networks, name)?;
    ensure!(
        cluster.kind.allocator == kubernetes().allocator,
        "{} isn't in Kubernetes' API: name its cluster with --kubeconfig or --network",
        cluster.path().display()
    );
    let is_of = |network: &&Network| {
        let kind = network.cluster.as_ref().map(|(kind, _)| kind.allocator);
        kind == Some(kubernetes().allocator)
            && name.is_none_or(|name| network.name.as_str() == name)
    };
    let network = networks.iter().find(is_of);
    let network = network.context("no network leads to the cluster")?;
    kubernetes::Cluster::read(&network.ipam()).map_err(|error| anyhow::Error::msg(error.msg))
}

impl EngineKind {
    /// The engine of the first of these delegates that uses one.
    pub(crate) fn of(delegates: &[DelegateName]) -> Option<&'static Self> {
        delegates.iter().find_map(|delegate| {
            let name = delegate.as_str();
            ENGINES
                .iter()
                .find(|kind| kind.allocator == name || kind.selector == name)
        })
    }

    /// The names of all plugins, for messages.
    pub(crate) fn plugins() -> String {
        let plugins = ENGINES
            .iter()
            .flat_map(|kind| [kind.allocator, kind.selector]);
        plugins.collect::<Vec<_>>().join(" or ")
    }
}
