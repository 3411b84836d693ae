//! Counts in the status of pools, for people and for the admission policy on manual changes of
//! pools. No plugin reads them.

use std::collections::BTreeMap;
use std::time::SystemTime;

use cluster::contents::{ClaimedBlock, DefinedPool};
use cluster::{EngineError, Key};
use ipam::Interval;
use serde_json::{Value, json};

use crate::engine::RESTORE;
use crate::names::key_of;
use crate::objects::label;
use crate::{Client, Replaced, Resource};

/// Number of addresses by pool, and within it by node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldCounts(BTreeMap<String, BTreeMap<String, u64>>);

impl HeldCounts {
    /// Counts the addresses that nodes hold one by one, not their blocks.
    ///
    /// # Errors
    ///
    /// See [`cluster::Kind`].
    pub fn read(client: &mut Client<'_>) -> Result<Self, EngineError> {
        let mut counts = Self::default();
        for item in client.list(Resource::Address, None, true)?.items {
            let Some(Key::Address(pool, _)) = key_of(Resource::Address, &item.name) else {
                continue;
            };
            let node = match item.labels.get(&label("node")) {
                Some(node) => Some(node.clone()),
                // The name was too long for a label's value.
                None => client.get(Resource::Address, &item.name)?.and_then(|item| {
                    let node = item.spec["node"].as_str();
                    node.map(str::to_owned)
                }),
            };
            if let Some(node) = node {
                counts.add(&pool, &node, 1);
            }
        }
        Ok(counts)
    }

    /// Adds the addresses of blocks that nodes have claimed.
    pub fn add_blocks(&mut self, pools: &[DefinedPool], blocks: &[ClaimedBlock]) {
        for claimed in blocks {
            let pool = pools.iter().find(|pool| pool.name == claimed.pool);
            let given = pool.map(|pool| pool.definition.pool.ranges.given());
            let block = Interval::from(claimed.block);
            let parts = given.into_iter().flatten();
            let parts = parts.filter_map(|interval| interval.intersection(block));
            let number = parts.fold(0_u128, |sum, part| sum.saturating_add(part.size()));
            self.add(claimed.pool.as_str(), claimed.node(), capped(number));
        }
    }

    fn add(&mut self, pool: &str, node: &str, number: u64) {
        let nodes = self.0.entry(pool.to_owned()).or_default();
        let count = nodes.entry(node.to_owned()).or_default();
        *count = count.saturating_add(number);
    }

    /// The names of all nodes that hold addresses.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.0
            .values()
            .flat_map(|nodes| nodes.keys().map(String::as_str))
    }

    /// Writes the status of a pool; false if another process has changed the pool.
    ///
    /// # Errors
    ///
    /// See [`cluster::Kind`].
    pub fn write(&self, client: &mut Client<'_>, pool: &DefinedPool) -> Result<bool, EngineError> {
        let Some(item) = client.get(Resource::Pool, pool.name.as_str())? else {
            return Ok(false);
        };
        let mut status = self.status(pool);
        status[RESTORE] = item.status[RESTORE].clone();
        // The API server ignores everything but the status.
        let object = json!({
            "apiVersion": Resource::api_version(),
            "kind": Resource::Pool.kind(),
            "metadata": {
                "name": item.name,
                "uid": item.uid,
                "resourceVersion": item.revision.to_string(),
            },
            "spec": item.spec,
            "status": status,
        });
        let replaced = client.replace_status(Resource::Pool, &object)?;
        Ok(matches!(replaced, Replaced::Done(_)))
    }

    fn status(&self, pool: &DefinedPool) -> Value {
        let by_node = self.0.get(pool.name.as_str()).cloned().unwrap_or_default();
        let reserved = by_node
            .values()
            .fold(0_u64, |sum, count| sum.saturating_add(*count));
        json!({
            "size": capped(pool.definition.pool.ranges.capacity()),
            "reserved": capped(reserved.into()),
            "byNode": by_node,
            "observedAt": humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        })
    }
}

/// The number, but at most the API's largest.
fn capped(number: u128) -> u64 {
    u64::try_from(number)
        .unwrap_or(u64::MAX)
        .min(i64::MAX as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::BlockOwner;

    fn pool(name: &str, definition: &str) -> DefinedPool {
        DefinedPool::read(name, name, definition.as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn a_status_has_the_addresses_of_each_node_and_those_of_its_blocks() {
        let lan = pool(
            "lan",
            r#"{"subnet":"10.0.0.0/24","exclude":["10.0.0.65"],"block":26}"#,
        );
        let claimed = |block: &str, node: &str| ClaimedBlock {
            pool: "lan".parse().unwrap(),
            block: block.parse().unwrap(),
            owner: Some(BlockOwner::new(node)),
            revision: 1,
        };
        let blocks = [claimed("10.0.0.64/26", "n1"), claimed("10.0.0.0/26", "n2")];
        let mut counts = HeldCounts::default();
        counts.add_blocks(std::slice::from_ref(&lan), &blocks);
        let status = counts.status(&lan);
        assert_eq!(status["byNode"], json!({"n1": 63, "n2": 62}));
        assert_eq!(
            (&status["reserved"], &status["size"]),
            (&json!(125), &json!(252))
        );
        assert_eq!(counts.nodes().collect::<Vec<_>>(), ["n1", "n2"]);
    }

    #[test]
    fn a_size_that_the_api_cant_have_is_the_largest_that_it_can() {
        let status = HeldCounts::default().status(&pool("six", r#"{"subnet":"fd00::/48"}"#));
        assert_eq!(status["size"], json!(i64::MAX));
        assert_eq!(
            (&status["reserved"], &status["byNode"]),
            (&json!(0), &json!({}))
        );
    }
}
