//! The kinds are deleted while containers run, and with them all objects: the documented repair.

use harness::{KUBECTL, KUBERNETES_PROGRAMS, needs};
use serde_json::{Value, json};

use super::api_cluster::ApiCluster;
use crate::cluster::pool_cluster::PoolCluster;

#[test]
fn after_a_reconcile_on_each_node_what_lives_is_given_to_nobody_else() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let cluster = ApiCluster::default();
    let shared: &dyn PoolCluster = &cluster;
    let pools = json!({
        "lan": {"subnet": "10.1.0.0/24"},
        "fast": {"subnet": "10.2.0.0/24", "block": 28},
    });
    for (name, definition) in pools.as_object().unwrap() {
        shared.define(name, definition);
    }
    let of = |node: &str, pool: &str, allocators: &[&str]| {
        shared.config(node, allocators, &json!([{"name": pool}]))
    };
    let [one, two] = ["n1", "n2"].map(|node| of(node, "lan", &shared.addresses()));
    let fast = of("n2", "fast", &shared.in_blocks());
    shared.add("a", &one).result();
    let living = shared.add("living", &two).ips().remove(0);
    shared.add("quick", &fast).result();
    let (held, blocks) = (shared.held(), shared.blocks("fast"));

    let label = "app.kubernetes.io/name=ipam-delegated";
    cluster.api.kubectl(&["delete", "crd", "-l", label]);
    cluster.api.install();
    assert!(shared.held().is_empty());
    let mut requesting: Value = one.clone();
    requesting["ipam"]["pools"][0]["requested-ip"] = json!(living);
    // Without the pool, nothing is given.
    shared
        .add("b", &requesting)
        .refused(7, "ipamctl import defines pools");

    let administrator = shared.as_administrator(&one);
    let ipamctl = |config: &Value, words: &[&str]| {
        let output = shared.ipamctl(config, words);
        assert!(output.status.success(), "{output:?}");
    };
    ipamctl(&administrator, &["reconcile", "--begin", "n1", "n2"]);
    for (name, definition) in pools.as_object().unwrap() {
        shared.define(name, definition);
    }
    for config in [&one, &two] {
        ipamctl(config, &["reconcile"]);
    }
    assert_eq!((shared.held(), shared.blocks("fast")), (held, blocks));
    shared.add("b", &requesting).refused(111, &living);
    shared.add("c", &one).result();
    shared.add("d", &fast).result();
}
