//! People change objects by hand while nodes reserve and release addresses.

use std::fs::{self, File};
use std::process::Command;

use harness::{ApiProxy, Fate, KUBECTL, KUBERNETES_PROGRAMS, needs};
use serde_json::{Value, json};

use super::api_cluster::ApiCluster;
use crate::cluster::pool_cluster::PoolCluster;

const ALLOCATOR: &str = "ipam-da-kubernetes";

#[test]
fn an_address_that_is_annotated_while_it_is_released_is_released() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let cluster = ApiCluster::default();
    let shared: &dyn PoolCluster = &cluster;
    shared.define("red", &json!({"subnet": "10.1.0.0/24"}));
    let proxy = ApiProxy::start(&cluster.api);
    let mut config = shared.config("n1", &[ALLOCATOR], &json!([{"name": "red"}]));
    let kubeconfig = proxy.kubeconfig_like(&cluster.api, &cluster.api.kubeconfig_of_node("n1"));
    config["ipam"]["kubernetes"]["kubeconfig"] = json!(kubeconfig);
    for command in ["DEL", "GC"] {
        for container in ["a", "b"] {
            let added = shared.alone(ALLOCATOR, "ADD", container, &config);
            added.result();
        }
        let (administrator, namespace) = (cluster.api.kubeconfig(), cluster.api.namespace());
        let mut deletions = 0;
        proxy.decide(move |request| {
            deletions += usize::from(request.method == "DELETE");
            if request.method == "DELETE" && deletions == 1 {
                namespace.enter();
                let words = ["annotate", "addresses.ipam-delegated.io", "--all"];
                let annotated = Command::new(KUBECTL)
                    .env("KUBECONFIG", &administrator)
                    .args(words)
                    .arg(format!("example.com/by={}", request.path.len()))
                    .arg("--overwrite")
                    .output()
                    .unwrap();
                assert!(annotated.status.success(), "{annotated:?}");
            }
            Fate::Answered
        });
        shared.alone(ALLOCATOR, command, "a", &config).nothing();
        let left = if command == "DEL" { 1 } else { 0 };
        assert_eq!(
            cluster.held().len(),
            left,
            "{command}: {:?}",
            cluster.held()
        );
        proxy.decide(|_| Fate::Answered);
        shared.alone(ALLOCATOR, "DEL", "b", &config).nothing();
    }
}

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

#[test]
fn after_a_restore_the_addresses_of_all_networks_are_claimed_whatever_url_they_have() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let cluster = ApiCluster::default();
    let proxy = ApiProxy::start(&cluster.api);
    let shared: &dyn PoolCluster = &cluster;
    shared.define("red", &json!({"subnet": "10.1.0.0/24"}));
    let one = shared.config("n1", &[ALLOCATOR], &json!([{"name": "red"}]));
    let mut other = one.clone();
    other["name"] = json!("othernet");
    let kubeconfig = proxy.kubeconfig_like(&cluster.api, &cluster.api.kubeconfig_of_node("n1"));
    other["ipam"]["kubernetes"]["kubeconfig"] = json!(kubeconfig);
    shared.add("a", &one).result();
    shared.add("b", &other).result();
    let held = cluster.held();
    cluster.delete("addresses", &["--all"]);
    let sandbox = shared.sandbox();
    sandbox.write_conflist("20-other.conflist", &other);
    let administrator = shared.as_administrator(&one);
    let words = ["reconcile", "--begin", "--network", "testnet"];
    let begun = shared.ipamctl(&administrator, &words);
    assert!(begun.status.success(), "{begun:?}");
    let reconciled = shared.ipamctl(&one, &["reconcile", "--network", "testnet"]);
    assert!(reconciled.status.success(), "{reconciled:?}");
    assert_eq!(cluster.held(), held);
}

#[test]
fn an_add_whose_requests_are_executed_twice_gets_an_address_of_each_pool_or_none() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let cluster = ApiCluster::default();
    let proxy = ApiProxy::start(&cluster.api);
    let shared: &dyn PoolCluster = &cluster;
    shared.define("red", &json!({"subnet": "10.1.0.0/24"}));
    shared.define("blue", &json!({"subnet": "10.2.0.0/24"}));
    shared.define("green", &json!({"subnet": "10.3.0.0/24", "block": 28}));
    let kubeconfig = proxy.kubeconfig_like(&cluster.api, &cluster.api.kubeconfig_of_node("n1"));
    let behind_proxy = |delegates: &[&str], pools: &Value| {
        let mut config = shared.config("n1", delegates, pools);
        config["ipam"]["kubernetes"]["kubeconfig"] = json!(kubeconfig);
        config
    };
    let pools = json!([{"name": "red"}, {"name": "blue"}]);
    let addresses = behind_proxy(&shared.addresses(), &pools);
    let blocks = behind_proxy(&shared.in_blocks(), &json!([{"name": "green"}]));
    proxy.decide(|request| match request.method.as_str() {
        "GET" => Fate::Answered,
        _ => Fate::Repeated,
    });
    let given = shared.add("a", &addresses).ips();
    assert_eq!(cluster.reserved("red"), given[..1]);
    assert_eq!(cluster.reserved("blue"), given[1..]);
    shared.add("b", &blocks).result();
    assert_eq!(cluster.blocks_of("green", "n1").len(), 1);
    shared.del("a", &addresses).nothing();
    assert!(cluster.held().is_empty(), "{:?}", cluster.held());

    // What was created by the first execution doesn't count, either, while nothing is given.
    let administrator = shared.as_administrator(&addresses);
    let begun = shared.ipamctl(&administrator, &["reconcile", "--begin"]);
    assert!(begun.status.success(), "{begun:?}");
    shared.add("a", &addresses).refused(11, "was restored");
    assert!(cluster.held().is_empty(), "{:?}", cluster.held());
}

#[test]
fn locks_of_the_view_that_a_stopped_process_holds_keep_nobody_from_an_address() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let cluster = ApiCluster::default();
    let shared: &dyn PoolCluster = &cluster;
    let pools = ["red", "blue"].map(|pool| json!({"name": pool}));
    shared.define("red", &json!({"subnet": "10.1.0.0/24"}));
    shared.define("blue", &json!({"subnet": "10.2.0.0/24"}));
    let config = shared.config("n1", &shared.addresses(), &json!(pools));
    shared.add("a", &config).result();
    let cache = shared.sandbox().root().join("n1/cache");
    let mut folders = vec![cache];
    let mut locked = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path.clone());
            }
            let file = File::open(&path).unwrap();
            file.lock().unwrap();
            locked.push(file);
        }
    }
    let config = shared.within("3s", &config);
    shared.add("b", &config).result();
    for container in ["a", "b"] {
        shared.del(container, &config).nothing();
    }
    assert!(cluster.held().is_empty(), "{:?}", cluster.held());
}

#[test]
fn a_mark_whose_writer_was_killed_halfway_holds_on_all_nodes() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let cluster = ApiCluster::default();
    let shared: &dyn PoolCluster = &cluster;
    shared.define("red", &json!({"subnet": "10.1.0.0/24"}));
    let pools = json!([{"name": "red"}]);
    let [one, other] = ["n1", "n2"].map(|node| shared.config(node, &shared.addresses(), &pools));
    shared.add("a", &one).result();
    shared.add("a", &other).result();
    // The node has seen a later state than the API server has: it marks itself.
    let seen = shared
        .sandbox()
        .root()
        .join("n1/engine-state/seen_kubernetes_n1.json");
    let mut moment: Value = serde_json::from_slice(&fs::read(&seen).unwrap()).unwrap();
    moment["revision"] = json!(i64::MAX);
    fs::write(&seen, moment.to_string()).unwrap();
    shared.add("b", &one).refused(11, "was restored");
    // As if it had been killed after the first of two creations.
    cluster.delete("restores", &["cluster"]);
    for config in [&one, &other] {
        shared.add("b", config).refused(11, "was restored");
    }
    assert_eq!(cluster.held().len(), 2);
}
