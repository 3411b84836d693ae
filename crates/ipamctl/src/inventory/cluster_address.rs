use std::sync::Arc;

use crate::clusters::Cluster;

/// An address as a cluster has it.
#[derive(Clone, Debug)]
pub(crate) struct ClusterAddress {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) held: cluster::Held,
    /// Name of the address by which a person finds it in the engine.
    pub(crate) path: String,
}

impl ClusterAddress {
    /// The reason not to release the address from here: another machine has created it.
    pub(crate) fn foreign_holder(&self) -> Option<String> {
        let holder = self.held.holder.as_ref()?;
        self.cluster.is_held_elsewhere(&self.held).then(|| {
            let machine = holder.machine.as_deref().unwrap_or("unknown");
            format!("node {}, machine {machine} holds it", holder.node)
        })
    }
}
