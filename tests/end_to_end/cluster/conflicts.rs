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

/// A pool was split after the snapshot.
fn an_address_that_another_pool_has_is_claimed_once_the_pools_are_defined_as_before(
    cluster: &mut dyn PoolCluster,
) {
    let whole = json!({"subnet": "10.1.0.0/24"});
    let [blue, red] = [
        json!({"subnet": "10.1.0.0/24", "rangeEnd": "10.1.0.127"}),
        json!({"subnet": "10.1.0.0/24", "rangeStart": "10.1.0.128"}),
    ];
    cluster.define("blue", &whole);
    let [one, two] = [("n1", "blue"), ("n2", "red")]
        .map(|(node, pool)| cluster.config(node, &cluster.addresses(), &json!([{ "name": pool }])));
    cluster
        .add("before", &requesting(&one, "10.1.0.5"))
        .result();
    cluster.save();
    cluster.define("blue", &blue);
    cluster.define("red", &red);
    let living = cluster.add("living", &two).ips().remove(0);
    cluster.add("ended", &two).result();
    restored(cluster, [&one, &two]);
    reconciles(cluster, &one);
    has_conflict(
        cluster,
        &two,
        "pool blue (10.1.0.1-10.1.0.254) has it: define",
    );
    cluster
        .add("other", &requesting(&one, &living))
        .refused(11, "n2");
    // The other way out.
    cluster.del("ended", &two).nothing();
    cluster.define("blue", &blue);
    cluster.define("red", &red);
    reconciles(cluster, &two);
    assert_eq!(cluster.marks(), [""; 0]);
    assert_eq!(cluster.reserved("red"), [living.as_str()]);
    cluster
        .add("other", &requesting(&one, &living))
        .refused(7, "10.1.0.1-10.1.0.127");
}

/// The pool's range was smaller, and was made larger after the snapshot.
fn an_address_that_its_pool_does_not_give_is_a_conflict_until_its_container_ends(
    cluster: &mut dyn PoolCluster,
) {
    cluster.define(
        "lan",
        &json!({"subnet": "10.1.0.0/24", "rangeEnd": "10.1.0.9"}),
    );
    let lan = json!([{"name": "lan"}]);
    let [one, two] = ["n1", "n2"].map(|node| cluster.config(node, &cluster.addresses(), &lan));
    cluster.add("before", &one).result();
    cluster.save();
    cluster.define("lan", &json!({"subnet": "10.1.0.0/24"}));
    cluster
        .add("living", &requesting(&two, "10.1.0.20"))
        .result();
    restored(cluster, [&one, &two]);
    reconciles(cluster, &one);
    has_conflict(
        cluster,
        &two,
        "pool lan (10.1.0.1-10.1.0.9) doesn't give it",
    );
    cluster.del("living", &two).nothing();
    reconciles(cluster, &two);
    cluster.add("other", &two).result();
}

/// After the snapshot, a node gave a block back, and another pool got its addresses.
fn an_address_in_a_block_that_was_given_back_is_not_given_in_the_block(
    cluster: &mut dyn PoolCluster,
) {
    cluster.define("blue", &json!({"subnet": "10.1.0.0/24", "block": 26}));
    let one = cluster.config("n1", &cluster.in_blocks(), &json!([{"name": "blue"}]));
    let one = requesting(&one, "10.1.0.200");
    let two = cluster.config("n2", &cluster.addresses(), &json!([{"name": "red"}]));
    cluster.add("before", &one).result();
    cluster.save();
    cluster.del("before", &one).nothing();
    give_back(cluster, &one, "blue");
    let blue = json!({"subnet": "10.1.0.0/24", "rangeEnd": "10.1.0.127", "block": 26});
    cluster.define("blue", &blue);
    cluster.define(
        "red",
        &json!({"subnet": "10.1.0.0/24", "rangeStart": "10.1.0.192"}),
    );
    let living = cluster.add("living", &two).ips().remove(0);
    restored(cluster, [&one, &two]);
    reconciles(cluster, &one);
    assert_eq!(cluster.blocks("blue"), [""; 0]);
    has_conflict(
        cluster,
        &two,
        "pool blue (10.1.0.1-10.1.0.254, in blocks of /26) has it",
    );
    cluster.gc(&[], &one).nothing();
    cluster
        .add("other", &requesting(&one, &living))
        .refused(11, "n2");
}

/// After the snapshot, a pool of addresses got blocks. A node that nobody named reconciles late.
fn a_block_of_a_pool_whose_addresses_are_given_one_by_one_is_a_conflict(
    cluster: &mut dyn PoolCluster,
) {
    let lan = json!([{"name": "lan"}]);
    cluster.define("lan", &json!({"subnet": "10.1.0.0/24"}));
    let one = cluster.config("n1", &cluster.addresses(), &lan);
    let two = cluster.config("n2", &cluster.in_blocks(), &lan);
    cluster.add("before", &one).result();
    cluster.del("before", &one).nothing();
    cluster.save();
    let in_blocks = json!({"subnet": "10.1.0.0/24", "block": 28});
    cluster.define("lan", &in_blocks);
    let living = cluster.add("living", &two).ips().remove(0);
    restored(cluster, [&one, &two]);
    has_conflict(
        cluster,
        &two,
        "pool lan (10.1.0.1-10.1.0.254) doesn't give this block",
    );
    let forgotten = ipamctl(cluster, &one, &["node-forget", "n2", "--yes"]);
    assert!(forgotten.status.success(), "{forgotten:?}");
    reconciles(cluster, &one);
    cluster.add("other", &requesting(&one, &living)).result();
    // As if nobody had named n2.
    let begun = ipamctl(cluster, &one, &["reconcile", "--begin", "n2"]);
    assert!(begun.status.success(), "{begun:?}");
    has_conflict(
        cluster,
        &two,
        "addresses of pool lan are given one by one, such as",
    );
    cluster.define("lan", &in_blocks);
    has_conflict(
        cluster,
        &two,
        "addresses of pool lan are given one by one, such as",
    );
}

fn a_block_with_containers_of_two_nodes_is_the_others_once_its_containers_have_ended_on_one(
    cluster: &mut dyn PoolCluster,
) {
    cluster.define("blue", &json!({"subnet": "10.1.0.0/24", "block": 26}));
    let [one, two] = ["n1", "n2"]
        .map(|node| cluster.config(node, &cluster.in_blocks(), &json!([{"name": "blue"}])));
    cluster.add("living", &one).result();
    cluster.add("other", &two).result();
    let block = cluster.blocks_of("blue", "n1").remove(0);
    cluster.move_block("blue", &block, "n2");
    let begun = ipamctl(cluster, &two, &["reconcile", "--begin"]);
    assert!(begun.status.success(), "{begun:?}");
    has_conflict(cluster, &one, "it is node n2's");
    cluster.del("living", &one).nothing();
    has_conflict(cluster, &one, "it is node n2's");
    cluster.gc(&[], &one).nothing();
    reconciles(cluster, &one);
    cluster.add("third", &one).refused(11, "n2");
}

/// The pool was made larger after the snapshot. The node's GC reads the restored definition.
fn a_block_is_claimed_again_only_with_all_addresses_that_its_node_gives(
    cluster: &mut dyn PoolCluster,
) {
    let small = json!({"subnet": "10.1.0.0/24", "rangeEnd": "10.1.0.200", "block": 26});
    let large = json!({"subnet": "10.1.0.0/24", "block": 26});
    cluster.define("blue", &small);
    let [one, two] = ["n1", "n2"]
        .map(|node| cluster.config(node, &cluster.in_blocks(), &json!([{"name": "blue"}])));
    cluster
        .add("before", &requesting(&one, "10.1.0.5"))
        .result();
    cluster.save();
    cluster.define("blue", &large);
    cluster.gc(&["before"], &one).nothing();
    cluster
        .add("living", &requesting(&one, "10.1.0.230"))
        .result();
    restored(cluster, [&one, &two]);
    cluster.gc(&["before", "living"], &one);
    has_conflict(cluster, &one, "doesn't give this block");
    cluster.define("blue", &large);
    reconciles(cluster, &one);
    assert_eq!(
        cluster.blocks_of("blue", "n1"),
        ["10.1.0.0/26", "10.1.0.192/26"]
    );
}

promises! {
    a_block_is_claimed_again_only_with_all_addresses_that_its_node_gives,
    a_block_with_containers_of_two_nodes_is_the_others_once_its_containers_have_ended_on_one,
    an_address_that_another_pool_has_is_claimed_once_the_pools_are_defined_as_before,
    an_address_that_its_pool_does_not_give_is_a_conflict_until_its_container_ends,
    an_address_in_a_block_that_was_given_back_is_not_given_in_the_block,
    a_block_of_a_pool_whose_addresses_are_given_one_by_one_is_a_conflict,
    a_block_that_was_given_back_after_the_snapshot_is_its_new_nodes,
}
