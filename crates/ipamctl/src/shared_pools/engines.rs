//! The engines of clusters' pools, and their plugins. Elsewhere, only commands for one engine name
//! it.

use std::rc::Rc;

use cluster::ConfiguredCluster;
use cni::{DelegateName, Environment, Error, Object};

use crate::output::joined;

/// Reads a cluster; see [`EngineKind::read`].
type ReadCluster = fn(&Object, &Environment) -> Result<Rc<dyn ConfiguredCluster>, Error>;

/// An engine, by its plugins.
#[derive(Debug)]
pub(crate) struct EngineKind {
    /// The allocator of addresses.
    pub(crate) allocator: &'static str,
    /// The selector of a node's blocks.
    pub(crate) selector: &'static str,
    /// Reads the cluster from an `ipam` section, with the variables of its engine's client.
    pub(crate) read: ReadCluster,
}

static ENGINES: [EngineKind; 2] = [
    EngineKind {
        allocator: "ipam-da-etcd",
        selector: "ipam-ds-etcd",
        read: |ipam, _| Ok(Rc::new(etcd::Cluster::read(ipam)?)),
    },
    EngineKind {
        allocator: "ipam-da-kubernetes",
        selector: "ipam-ds-kubernetes",
        read: |ipam, environment| {
            let cluster = kubernetes::Cluster::read(ipam)?;
            Ok(Rc::new(cluster.with_environment(environment)))
        },
    },
];

/// Kubernetes' API.
pub(crate) fn kubernetes() -> &'static EngineKind {
    &ENGINES[1]
}

impl EngineKind {
    /// The engine of the first of these delegates that uses one.
    pub(crate) fn of(delegates: &[DelegateName]) -> Option<&'static Self> {
        delegates.iter().find_map(|delegate| {
            let mut kinds = ENGINES.iter();
            kinds.find(|kind| [kind.allocator, kind.selector].contains(&delegate.as_str()))
        })
    }

    /// The names of all plugins, for messages.
    pub(crate) fn plugins() -> String {
        let plugins = ENGINES.iter();
        joined(
            plugins.flat_map(|kind| [kind.allocator, kind.selector]),
            " or ",
        )
    }
}
