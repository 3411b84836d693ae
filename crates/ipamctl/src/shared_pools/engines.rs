//! The engines that keep clusters' pools, and their plugins. No other file names an engine.

use std::rc::Rc;

use cluster::ConfiguredCluster;
use cni::{DelegateName, Error, Object};

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
