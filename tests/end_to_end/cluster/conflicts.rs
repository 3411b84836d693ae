//! Conflicts after a restore: the engine has an address, a block or a definition that was changed
//! after the snapshot.

use harness::Output;
use serde_json::{Value, json};

use super::pool_cluster::{PoolCluster, promises};

fn ipamctl(cluster: &dyn PoolCluster, config: &Value, words: &[&str]) -> Output {
    cluster.ipamctl(&cluster.as_administrator(config), words)
}

/// Restores the snapshot and marks both nodes.
fn restored(cluster: &mut dyn PoolCluster, [one, two]: [&Value; 2]) {
    cluster.restore();
    let begun = ipamctl(cluster, one, &["reconcile", "--begin", "n1", "n2"]);
    assert!(begun.status.success(), "{begun:?}");
    assert_ne!(one["ipam"]["node"], two["ipam"]["node"]);
}

#[track_caller]
fn reconciles(cluster: &dyn PoolCluster, config: &Value) {
    let output = cluster.ipamctl(config, &["reconcile"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

/// `reconcile` shows this conflict, and the node's mark stays.
#[track_caller]
fn has_conflict(cluster: &dyn PoolCluster, config: &Value, conflict: &str) {
    let output = cluster.ipamctl(config, &["reconcile"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stdout.contains(conflict), "{output:?}");
    let node = config["ipam"]["node"].as_str().unwrap().to_owned();
    assert!(cluster.marks().contains(&node), "{:?}", cluster.marks());
}

fn requesting(config: &Value, ip: &str) -> Value {
    let mut config = config.clone();
    config["ipam"]["pools"][0]["requested-ip"] = json!(ip);
    config
}

/// Gives back all blocks of a node's pool.
fn give_back(cluster: &dyn PoolCluster, config: &Value, pool: &str) {
    let mut at_once = config.clone();
    at_once["ipam"]["keepEmptyBlocks"] = json!("0s");
    for _ in 0..3 {
        cluster.gc(&[], &at_once).nothing();
    }
    assert_eq!(cluster.blocks(pool), [""; 0]);
}

fn a_block_that_was_given_back_after_the_snapshot_is_its_new_nodes(cluster: &mut dyn PoolCluster) {
    cluster.define("blue", &json!({"subnet": "10.1.0.0/24", "block": 26}));
    let [one, two] = ["n1", "n2"].map(|node| {
        let config = cluster.config(node, &cluster.in_blocks(), &json!([{"name": "blue"}]));
        requesting(&config, "10.1.0.200")
    });
    cluster.add("before", &one).result();
    cluster.save();
    cluster.del("before", &one).nothing();
    give_back(cluster, &one, "blue");
    cluster.add("living", &two).result();
    restored(cluster, [&one, &two]);
    // The engine has the block as n1's, and n1's file doesn't list it.
    cluster.gc(&[], &one).nothing();
    cluster.add("other", &one).refused(11, "n1, n2");
    has_conflict(cluster, &two, "it is node n1's");
    reconciles(cluster, &one);
    reconciles(cluster, &two);
    assert_eq!(cluster.marks(), [""; 0]);
    assert_eq!(cluster.blocks_of("blue", "n2"), ["10.1.0.192/26"]);
    cluster.gc(&[], &one).nothing();
    cluster.add("other", &one).refused(111, "node n2's");
}

promises! {
    a_block_that_was_given_back_after_the_snapshot_is_its_new_nodes,
}
