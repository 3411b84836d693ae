//! Tells whether a record belongs to the cluster that is reconciled: conflists may name one
//! etcd by different endpoints.

use std::collections::BTreeSet;

use cluster::{Engine as _, Key, Read};
use cni::NetworkName;
use etcd::{Cluster, Engine};

use crate::shared_pools::EtcdCluster;

/// The cluster that is reconciled, and what other endpoints have answered.
pub(super) struct SameCluster<'a> {
    cluster: &'a EtcdCluster,
    /// The ID that its etcd answers with.
    id: u64,
    asked: Vec<(BTreeSet<String>, Result<bool, String>)>,
}

impl<'a> SameCluster<'a> {
    pub(super) fn new(cluster: &'a EtcdCluster, id: u64) -> Self {
        Self {
            cluster,
            id,
            asked: Vec::new(),
        }
    }

    /// True if the etcd that an ADD of this network has asked is this one.
    ///
    /// # Errors
    ///
    /// The reason why it isn't known: that etcd can't be asked.
    pub(super) fn is(&mut self, network: &NetworkName, recorded: &Cluster) -> Result<bool, String> {
        if recorded.keys != self.cluster.cluster.keys {
            return Ok(false);
        }
        let (urls, recorded_urls) = (urls(&self.cluster.cluster), urls(recorded));
        // A restored etcd may have other endpoints than those of its time.
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

fn urls(cluster: &Cluster) -> BTreeSet<String> {
    let endpoints = cluster.settings.endpoints.iter();
    endpoints
        .map(|endpoint| endpoint.url().to_owned())
        .collect()
}

/// The ID of the cluster at these endpoints.
fn cluster_id(cluster: &Cluster) -> Result<u64, String> {
    let mut engine = Engine::new(cluster, None);
    let asked = engine.read(&[Read::Exists(Key::Node(cluster.node.name.clone()))]);
    let failed = |reason: String| format!("it isn't known whether it is of this etcd: {reason}");
    asked.map_err(|error| failed(error.msg))?;
    let id = engine.moment().map(|moment| moment.cluster);
    id.ok_or_else(|| failed("no cluster ID is answered".to_owned()))
}
