//! Tests whether a record belongs to the reconciled cluster. Conflists may name one cluster by
//! different endpoints.

use std::collections::BTreeSet;

use cluster::{ConfiguredCluster, Engine, Group, Key, Read};
use cni::{Environment, NetworkName};

use crate::shared_pools::SharedCluster;

/// The reconciled cluster, and the answers of other endpoints.
pub(super) struct SameCluster<'a> {
    pub(super) cluster: &'a SharedCluster,
    /// The ID in its engine's answers.
    id: u64,
    pub(super) environment: &'a Environment,
    asked: Vec<(BTreeSet<String>, Result<bool, String>)>,
}

impl<'a> SameCluster<'a> {
    pub(super) fn new(cluster: &'a SharedCluster, id: u64, environment: &'a Environment) -> Self {
        Self {
            cluster,
            id,
            environment,
            asked: Vec::new(),
        }
    }

    /// True if `recorded`, the cluster of an ADD of this network, is this one.
    ///
    /// # Errors
    ///
    /// The reason why it is unknown: the recorded cluster doesn't answer.
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
        // The endpoints may have changed with the restore.
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
        let moment = moment.ok_or_else(|| failed("no cluster ID is answered"))?;
        let id = moment.cluster;
        if id == self.id || engine.has_one_id() {
            return Ok(id == self.id);
        }
        // The registration of this node is random, so it differs between clusters.
        let node = &self.cluster.node().name;
        let of_node = |engine: &mut dyn Engine| {
            let found = engine.get(Key::Node(node.clone()));
            let found = found.map_err(|error| failed(&error.msg))?;
            found.ok_or_else(|| failed(&format!("{node} isn't registered; run this again")))
        };
        Ok(of_node(&mut *engine)?.value == of_node(&mut *self.cluster.engine())?.value)
    }
}

fn urls(node: &cluster::Node) -> BTreeSet<String> {
    node.endpoints.iter().cloned().collect()
}
