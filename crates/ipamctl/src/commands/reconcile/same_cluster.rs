//! Tells whether a record belongs to the cluster that is reconciled: conflists may name one
//! cluster by different endpoints.

use std::collections::BTreeSet;
use std::rc::Rc;

use cluster::{ConfiguredCluster, Engine, Group, Key, Read};
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
        let answer = self.ask(recorded);
        self.asked.push((recorded_urls, answer.clone()));
        answer
    }

    /// Asks the cluster at the other endpoints.
    fn ask(&self, recorded: &dyn ConfiguredCluster) -> Result<bool, String> {
        let mut engine = recorded.engine(None);
        let name = engine.name();
        let failed =
            |reason: &str| format!("it isn't known whether it is of this {name}: {reason}");
        let asked = engine.read(&[Read::Count(Group::Pools)]);
        asked.map_err(|error| failed(&error.msg))?;
        let moment = engine.moment();
        let id = moment
            .ok_or_else(|| failed("no cluster ID is answered"))?
            .cluster;
        if id == self.id || engine.has_one_id() {
            return Ok(id == self.id);
        }
        // No two clusters have the same registration of this node: it is random.
        let node = self.node();
        let of_node = |engine: &mut dyn Engine| {
            let found = engine.get(Key::Node(node.to_owned()));
            let found = found.map_err(|error| failed(&error.msg))?;
            found.ok_or_else(|| failed(&format!("{node} isn't registered; run this again")))
        };
        Ok(of_node(&mut *engine)?.value == of_node(&mut *self.cluster.engine())?.value)
    }
}

fn urls(node: &cluster::Node) -> BTreeSet<String> {
    node.endpoints.iter().cloned().collect()
}
