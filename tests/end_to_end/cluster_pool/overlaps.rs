//! Pools that overlap, as kubectl can define them: nodes refuse them.

use harness::{KUBECTL, KUBERNETES_PROGRAMS, needs};
use serde_json::json;

use super::api_cluster::ApiCluster;
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
