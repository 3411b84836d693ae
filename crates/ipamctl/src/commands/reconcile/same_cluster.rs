//! Tells whether a record belongs to the cluster that is reconciled: conflists may name one
//! cluster by different endpoints.

use std::collections::BTreeSet;
use std::rc::Rc;

use cluster::{ConfiguredCluster, Group, Read};
use cni::{NetworkName, Object};

use crate::shared_pools::SharedCluster;

/// The cluster that is reconciled, and what other endpoints have answered.
pub(super) struct SameCluster<'a> {
    cluster: &'a SharedCluster,
    /// The ID that its engine answers with.
    id: u64,
    asked: Vec<(BTreeSet<String>, Result<bool, String>)>,
}

impl<'a> SameCluster<'a> {
    pub(super) fn new(cluster: &'a SharedCluster, id: u64) -> Self {
        Self {
            cluster,
            id,
            asked: Vec::new(),
        }
    }

    /// The name of this node.
    pub(super) fn node(&self) -> &'a str {
        &self.cluster.node().name
    }

    /// The allocator of its addresses.
    pub(super) fn allocator(&self) -> &'static str {
        self.cluster.kind.allocator
    }

    /// Reads a cluster of the same engine from a recorded `ipam` section.
    ///
    /// # Errors
    ///
    /// The reason why the section can't be used.
    pub(super) fn read(&self, ipam: &Object) -> Result<Rc<dyn ConfiguredCluster>, String> {
        (self.cluster.kind.read)(ipam).map_err(|error| error.msg)
    }

    /// True if the cluster that an ADD of this network has asked is this one.
    ///
    /// # Errors
    ///
    /// The reason why it isn't known: that cluster can't be asked.
    pub(super) fn is(
        &mut self,
        network: &NetworkName,
        recorded: &dyn ConfiguredCluster,
    ) -> Result<bool, String> {
        let node = self.cluster.node();
        if recorded.node().prefix != node.prefix {
            return Ok(false);
        }
        let (urls, recorded_urls) = (urls(node), urls(recorded.node()));
        // A restored engine may have other endpoints than those of its time.
        if self.cluster.networks.contains(network) || !urls.is_disjoint(&recorded_urls) {
            return Ok(true);
        }
        if let Some((_, known)) = self.asked.iter().find(|(urls, _)| *urls == recorded_urls) {
            return known.clone();
        }
        let answer = cluster_id(recorded).map(|id| id == self.id);
        self.asked.push((recorded_urls, answer.clone()));
        answer
    }
}

fn urls(node: &cluster::Node) -> BTreeSet<String> {
    node.endpoints.iter().cloned().collect()
}

/// The ID of the cluster at these endpoints.
fn cluster_id(cluster: &dyn ConfiguredCluster) -> Result<u64, String> {
    let mut engine = cluster.engine(None);
    let name = engine.name();
    let failed = |reason: &str| format!("it isn't known whether it is of this {name}: {reason}");
    let asked = engine.read(&[Read::Count(Group::Pools)]);
    asked.map_err(|error| failed(&error.msg))?;
    let id = engine.moment().map(|moment| moment.cluster);
    id.ok_or_else(|| failed("no cluster ID is answered"))
}
