//! Pools that overlap, as kubectl can define them: nodes refuse them.

use harness::{KUBECTL, KUBERNETES_PROGRAMS, Output, needs};
use serde_json::{Value, json};

use super::api_cluster::ApiCluster;
use super::interrupted_import::import;
use crate::cluster::pool_cluster::PoolCluster;

#[test]
fn of_two_pools_that_overlap_only_one_gives_addresses() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let cluster = ApiCluster::default();
    let shared: &dyn PoolCluster = &cluster;
    let of = |node: &str, pool: &str, delegates: &[&str]| {
        shared.config(node, delegates, &json!([{"name": pool}]))
    };
    let [addresses, blocks] = [shared.addresses(), shared.in_blocks()];
    let first = of("n1", "first", &addresses);
    shared.define(
        "apart",
        &json!({"subnet": "10.1.0.0/24", "rangeEnd": "10.1.0.127"}),
    );
    shared.define(
        "first",
        &json!({"subnet": "10.1.0.0/24", "rangeStart": "10.1.0.128"}),
    );
    shared.add("a", &first).result();
    shared.add("a", &of("n2", "apart", &addresses)).result();
    // As with kubectl apply, which doesn't compare pools with each other.
    shared.define("second", &json!({"subnet": "10.1.0.192/26"}));
    shared.define("third", &json!({"subnet": "10.1.0.128/25", "block": 28}));
    for (pool, delegates) in [("second", &addresses), ("third", &blocks)] {
        for node in ["n1", "n2"] {
            let config = of(node, pool, delegates);
            let refused = shared.add("b", &config);
            refused.refused(7, &format!("pool {pool} (10.1.0."));
            refused.refused(7, "overlaps with pool ");
            let status = shared.call("STATUS", "", &config).run();
            status.refused(50, "overlaps with pool ");
        }
    }
    assert!(cluster.reserved("second").is_empty() && cluster.blocks("third").is_empty());
    shared.add("b", &first).result();
    // The other pool is deleted.
    shared.undefine("third");
    for container in ["a", "b"] {
        shared.del(container, &first).nothing();
    }
    shared.undefine("first");
    shared.add("b", &of("n1", "second", &addresses)).result();
    shared.add("b", &of("n2", "apart", &addresses)).result();
}

#[test]
fn a_pool_gives_nothing_that_is_in_a_block_of_a_pool_that_was_deleted() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let cluster = ApiCluster::default();
    let shared: &dyn PoolCluster = &cluster;
    shared.define("old", &json!({"subnet": "10.1.0.0/24", "block": 28}));
    let old = shared.config("n1", &shared.in_blocks(), &json!([{"name": "old"}]));
    shared.add("a", &old).result();
    let block = cluster.blocks("old").remove(0);
    shared.undefine("old");
    for (pool, subnet) in [("new", "10.1.0.0/24"), ("blocks", "10.1.0.0/16")] {
        let mut definition = json!({"subnet": subnet});
        let mut delegates = shared.addresses();
        if pool == "blocks" {
            definition["block"] = json!(24);
            delegates = shared.in_blocks();
        }
        shared.define(pool, &definition);
        let config = shared.config("n2", &delegates, &json!([{"name": pool}]));
        let name = format!("blocks.ipam-delegated.io/old.{}", block.replace('/', "-"));
        let reason = format!("pool {pool} overlaps with {name}, which a node has");
        shared.add("b", &config).refused(7, &reason);
        shared
            .call("STATUS", "", &config)
            .run()
            .refused(50, &reason);
        shared.undefine(pool);
    }
    assert!(cluster.held().is_empty() && cluster.blocks("blocks").is_empty());
}

/// Deletes a pool, if it is defined.
fn undefine(cluster: &ApiCluster, pool: &str) {
    let is_defined = cluster.defined().iter().any(|(name, _)| name == pool);
    if is_defined {
        cluster.undefine(pool);
    }
}

/// A change of a pool whose address is held. The policy lets it pass, since the status says 0.
enum Change {
    Deleted,
    Shrunk,
    DefinedAgain,
}

#[test]
fn a_pool_gives_nothing_that_is_held_of_a_pool_that_was_deleted_or_changed() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let cluster = ApiCluster::default();
    let shared: &dyn PoolCluster = &cluster;
    let v4 = json!({"subnet": "10.1.0.0/16", "rangeStart": "10.1.7.9", "rangeEnd": "10.1.7.99"});
    let v6 = json!({"subnet": "fd00:0:0:5::/64", "rangeStart": "fd00:0:0:5::7:1"});
    let rest_of_v4 = json!({"subnet": "10.1.0.0/22"});
    let rest_of_v6 = json!({"subnet": "fd00:0:0:5::/120"});
    let new_v4 = json!({"subnet": "10.1.7.0/24"});
    let large = json!({"subnet": "10.0.0.0/8", "rangeStart": "10.1.4.0"});
    let new_v6 = json!({"subnet": "fd00:0:0:5::/64", "rangeStart": "fd00:0:0:5::7:0"});
    for (change, old, rest, new, block) in [
        (Change::Deleted, &v4, &rest_of_v4, &new_v4, 28),
        (Change::Shrunk, &v4, &rest_of_v4, &new_v4, 28),
        (Change::Shrunk, &v4, &rest_of_v4, &large, 28),
        (Change::DefinedAgain, &v6, &rest_of_v6, &new_v6, 124),
    ] {
        let of = |node: &str, pool: &str, delegates: &[&str]| {
            shared.config(node, delegates, &json!([{"name": pool}]))
        };
        let [addresses, blocks] = [shared.addresses(), shared.in_blocks()];
        shared.define("old", old);
        let before = of("n1", "old", &addresses);
        shared.add("a", &before).result();
        let held = cluster.held();
        match change {
            Change::Deleted => shared.undefine("old"),
            Change::Shrunk => shared.define("old", rest),
            Change::DefinedAgain => {
                shared.undefine("old");
                shared.define("old", rest);
            }
        }
        let mut in_blocks = new.clone();
        in_blocks["block"] = json!(block);
        for (definition, delegates) in [(&in_blocks, &blocks), (new, &addresses)] {
            undefine(&cluster, "new");
            shared.define("new", definition);
            let after = of("n2", "new", delegates);
            let reason = "pool new overlaps with addresses.ipam-delegated.io/old.";
            let refused = shared.add("b", &after);
            refused.refused(7, reason);
            refused.refused(7, "which n1 holds: an address would be given twice");
            let status = shared.call("STATUS", "", &after).run();
            status.refused(50, reason);
        }
        assert_eq!(cluster.held(), held);
        let after = of("n2", "new", &addresses);
        shared.del("a", &before).nothing();
        shared.add("b", &after).result();
        shared.del("b", &after).nothing();
        for pool in ["old", "new"] {
            undefine(&cluster, pool);
        }
    }
}

#[test]
fn an_address_of_an_earlier_version_without_the_label_is_compared_as_well() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let cluster = ApiCluster::default();
    let shared: &dyn PoolCluster = &cluster;
    let of =
        |node: &str, pool: &str| shared.config(node, &shared.addresses(), &json!([{"name": pool}]));
    shared.define("old", &json!({"subnet": "10.1.0.0/24"}));
    shared.add("a", &of("n1", "old")).result();
    let policy = "validatingadmissionpolicybinding/labels.ipam-delegated.io";
    cluster.api.kubectl(&["delete", policy]);
    let label = ["label", "ipaddr", "--all", "ipam-delegated.io/prefix-"];
    cluster.api.wait_for("the policy to end", || {
        cluster.api.try_kubectl(&label).status.success()
    });
    let labels = &cluster.api.get("ipaddr", &[])[0]["metadata"]["labels"];
    assert!(labels.get("ipam-delegated.io/prefix").is_none(), "{labels}");
    shared.undefine("old");
    shared.define("new", &json!({"subnet": "10.1.0.0/24"}));
    let refused = shared.add("b", &of("n2", "new"));
    refused.refused(7, "pool new overlaps with addresses.ipam-delegated.io/old.");
}

/// The steps after a restore of etcd.
fn reconcile(cluster: &dyn PoolCluster, nodes: &[&Value]) -> Vec<Output> {
    let name = |node: &&Value| node["ipam"]["node"].as_str().unwrap().to_owned();
    let names: Vec<String> = nodes.iter().map(name).collect();
    let begin = ["reconcile", "--begin"].into_iter();
    let begin: Vec<&str> = begin.chain(names.iter().map(String::as_str)).collect();
    let begun = cluster.ipamctl(&cluster.as_administrator(nodes[0]), &begin);
    assert!(begun.status.success(), "{begun:?}");
    let each = nodes.iter();
    each.map(|node| cluster.ipamctl(node, &["reconcile"]))
        .collect()
}

/// The UID and the generation of the only pool of this name.
fn generation(cluster: &ApiCluster, pool: &str) -> (Value, Value) {
    let pools = cluster.objects("pools").into_iter();
    let mut named = pools.filter(|object| object["metadata"]["name"] == pool);
    let mut metadata = named.next().unwrap()["metadata"].take();
    (metadata["uid"].take(), metadata["generation"].take())
}

#[test]
fn after_a_restore_nothing_counts_that_was_compared_before() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let mut cluster = ApiCluster::default();
    let of = |cluster: &dyn PoolCluster, pool: &str| {
        cluster.config("n1", &cluster.addresses(), &json!([{"name": pool}]))
    };
    let first = of(&cluster, "first");
    // `ipamctl` doesn't know this network.
    let mut elsewhere = first.clone();
    elsewhere["name"] = json!("othernet");
    elsewhere["ipam"]["kubernetes"]["cacheDir"] = json!(cluster.sandbox.root().join("other-cache"));
    PoolCluster::define(&cluster, "first", &json!({"subnet": "10.1.0.0/24"}));
    cluster.save();
    let shared: &dyn PoolCluster = &cluster;
    shared.define("first", &json!({"subnet": "10.1.1.0/24"}));
    for config in [&first, &elsewhere] {
        shared.add("a", config).result();
        shared.del("a", config).nothing();
    }
    let compared = generation(&cluster, "first");
    cluster.restore();
    let shared: &dyn PoolCluster = &cluster;
    assert!(reconcile(shared, &[&first])[0].status.success());
    shared.define("second", &json!({"subnet": "10.1.2.0/24"}));
    shared.add("a", &of(shared, "second")).result();
    shared.define("first", &json!({"subnet": "10.1.2.0/24"}));
    assert_eq!(generation(&cluster, "first"), compared);
    for config in [&first, &elsewhere] {
        let refused = shared.add("b", config);
        refused.refused(7, "overlaps with pool second (10.1.2.1-10.1.2.254)");
    }
}

/// The same configuration, in which the first pool's address is requested.
fn requesting(config: &Value, ip: &str) -> Value {
    let mut config = config.clone();
    config["ipam"]["pools"][0]["requested-ip"] = json!(ip);
    config
}

#[test]
fn after_a_restore_what_lives_in_a_part_of_a_pool_that_was_defined_since_is_not_given_again() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let blocks = json!({"lan": {"subnet": "10.1.0.0/24", "block": 28}});
    let split = json!({
        "lan": {"subnet": "10.1.0.0/24", "rangeEnd": "10.1.0.127"},
        "part": {"subnet": "10.1.0.0/24", "rangeStart": "10.1.0.128"},
    });
    for (pools, of_two, in_blocks) in [(blocks, "lan", true), (split, "part", false)] {
        let mut cluster = ApiCluster::default();
        let shared: &dyn PoolCluster = &cluster;
        shared.define("lan", &json!({"subnet": "10.1.0.0/24"}));
        let delegates = match in_blocks {
            true => shared.in_blocks(),
            false => shared.addresses(),
        };
        let one = shared.config("n1", &shared.addresses(), &json!([{"name": "lan"}]));
        let two = shared.config("n2", &delegates, &json!([{"name": of_two}]));
        // The node notes that nobody else has a block or an address of the pool.
        shared.add("before", &one).result();
        shared.del("before", &one).nothing();
        cluster.save();
        let shared: &dyn PoolCluster = &cluster;
        let imported = import(shared, &shared.as_administrator(&one), &pools);
        assert!(imported.status.success(), "{imported:?}");
        let living = shared.add("living", &two).ips().remove(0);
        cluster.restore();
        let shared: &dyn PoolCluster = &cluster;
        let reconciled = reconcile(shared, &[&one, &two]);
        let status = shared.call("STATUS", "", &one).run();
        let again = shared.add("other", &requesting(&one, &living));
        assert!(
            !again.status.success(),
            "{reconciled:?} {status:?} {again:?}"
        );
    }
}
