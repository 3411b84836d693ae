//! What rules and ranges promise for pools that an engine defines: replicas, overflow, facts,
//! gateways.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::pool_cluster::{PoolCluster, promises};

promises! {
    no_gateway_of_the_calls_pools_is_given,
    a_pool_may_have_no_gateway,
    replicas_have_the_addresses_of_their_numbers,
    a_full_pool_overflows_into_the_next,
    facts_choose_the_pool_and_count_until_del,
}

fn no_gateway_of_the_calls_pools_is_given(cluster: &mut dyn PoolCluster) {
    let first = json!({"subnet": "10.0.0.0/28", "rangeEnd": "10.0.0.5"});
    cluster.define("first", &first);
    let second = json!({"subnet": "10.0.0.0/28", "rangeStart": "10.0.0.8", "gateway": "10.0.0.4"});
    cluster.define("second", &second);
    let config = cluster.config("n1", &json!([{"name": "first"}, {"name": "second"}]));
    for i in 0..3 {
        let ips = cluster.add(&format!("c{i}"), &config).ips();
        assert_ne!(ips[0], "10.0.0.4");
    }
    cluster
        .add("c3", &config)
        .refused(11, "pool first (10.0.0.1-10.0.0.5)");
    let requested = json!([{"name": "first", "requested-ip": "10.0.0.4"}, {"name": "second"}]);
    let requested = cluster.config("n1", &requested);
    let gateway = "10.0.0.4 is the gateway of 10.0.0.0/28";
    cluster.add("c3", &requested).refused(7, gateway);
}

fn a_pool_may_have_no_gateway(cluster: &mut dyn PoolCluster) {
    cluster.define("link", &json!({"subnet": "10.0.0.4/31", "gateway": "none"}));
    cluster.define(
        "host",
        &json!({"ranges": [{"subnet": "fd00::7/128", "gateway": "none"}]}),
    );
    let config = cluster.config("n1", &json!([{"name": "link"}, {"name": "host"}]));
    let mut bridge = config.clone();
    bridge["isGateway"] = json!(true);
    let refused = "\"gateway\": \"none\" can't be beside isGateway";
    cluster.add("c1", &bridge).refused(7, refused);
    let result = cluster.add("c1", &config).result();
    let ip = |i: usize| result["ips"][i].as_object().unwrap();
    assert_eq!(ip(1)["address"], "fd00::7/128");
    assert!(!ip(0).contains_key("gateway") && !ip(1).contains_key("gateway"));
    let links = cluster.config("n1", &json!([{"name": "link"}]));
    cluster.add("c2", &links).result();
    cluster.add("c3", &links).refused(11, "all 2 are reserved");
}

/// A configuration of a chain on a node, with rules about pools that only the engine defines.
fn config_of_rules(cluster: &dyn PoolCluster, node: &str, rules: &Value) -> Value {
    let pools = json!({"lan": {}, "spare": {}});
    let mut config = cluster.config(node, &pools);
    config["ipam"]["delegates"] = json!(["ipam-ds-rules", cluster.allocator()]);
    config["ipam"]["rules"] = rules.clone();
    config
}

fn replicas_have_the_addresses_of_their_numbers(cluster: &mut dyn PoolCluster) {
    cluster.define("lan", &json!({"subnet": "10.0.0.0/28"}));
    let rules = json!([
        {"when": {"NAME": "db-*"}, "pools": ["lan"],
         "ip": {"range": "10.0.0.8-10.0.0.14", "index": "${NAME}"}},
        {"pools": ["lan"]},
    ]);
    let [one, two] = ["n1", "n2"].map(|node| config_of_rules(cluster, node, &rules));
    let add = |container: &str, name: &str, config: &Value| {
        let call = cluster.call("ADD", container, config);
        call.env("CNI_ARGS", format!("NAME={name}")).run()
    };
    let others: BTreeSet<String> = (0..6)
        .flat_map(|i| add(&format!("c{i}"), "web", &one).ips())
        .collect();
    let free: BTreeSet<String> = (2..8).map(|last| format!("10.0.0.{last}")).collect();
    assert_eq!(others, free);
    add("c6", "web", &two).refused(11, "all 6 are reserved, 7 are excluded");
    add("c6", "web;IP=10.0.0.9", &two).refused(111, "is pinned by another rule");
    assert_eq!(add("db-0", "db-0", &one).ips(), ["10.0.0.8"]);
    assert_eq!(add("db-6", "db-6", &two).ips(), ["10.0.0.14"]);
    add("db-7", "db-7", &two).refused(7, "\"db-7\": number 7 is beyond");
    // The replica moves to another node.
    add("moved", "db-0", &two).refused(111, "is reserved to db-0 eth0");
    cluster.del("db-0", &one).nothing();
    assert_eq!(add("moved", "db-0", &two).ips(), ["10.0.0.8"]);
}

fn a_full_pool_overflows_into_the_next(cluster: &mut dyn PoolCluster) {
    cluster.define("lan", &json!({"subnet": "10.0.0.0/30"}));
    cluster.define(
        "spare",
        &json!({"subnet": "10.1.0.0/29", "rangeEnd": "10.1.0.3"}),
    );
    let rules = json!([{"pools": [["lan", "spare"]]}]);
    let config = config_of_rules(cluster, "n1", &rules);
    assert_eq!(cluster.add("c1", &config).ips(), ["10.0.0.2"]);
    let mut requests = config.clone();
    requests["args"] = json!({"cni": {"ips": ["10.1.0.3"]}});
    assert_eq!(cluster.add("c2", &requests).ips(), ["10.1.0.3"]);
    cluster
        .add("c3", &requests)
        .refused(111, "10.1.0.3, requested of pool spare");
    let third = cluster.add("c3", &config).result();
    assert_eq!(third["ips"][0]["address"], "10.1.0.2/29");
    assert_eq!(third["ips"][0]["gateway"], "10.1.0.1");
    let full = "pool lan (10.0.0.1-10.0.0.2) has no address left: all 1 are reserved; \
        pool spare (10.1.0.1-10.1.0.3) has no address left: all 2 are reserved";
    cluster.add("c4", &config).refused(11, full);
    let mut check = config.clone();
    check["prevResult"] = third;
    cluster.call("CHECK", "c3", &check).run().nothing();
    // The records claim again what a restored engine lacks, in the pool's space.
    let before = cluster.addresses();
    let engine = config.clone();
    cluster
        .sandbox()
        .write_conflist("10-testnet.conflist", &engine);
    cluster.lose("10.1.0.2");
    assert_ne!(cluster.addresses(), before);
    let reconciled = cluster.ipamctl("n1", &["reconcile"]).run();
    reconciled.ends(0);
    assert_eq!(cluster.addresses(), before);
    for container in ["c1", "c2", "c3"] {
        cluster.del(container, &config).nothing();
    }
    assert_eq!(cluster.addresses(), Vec::<String>::new());
}

fn facts_choose_the_pool_and_count_until_del(cluster: &mut dyn PoolCluster) {
    cluster.define("lan", &json!({"subnet": "10.0.0.0/29"}));
    cluster.define("spare", &json!({"subnet": "10.1.0.0/29"}));
    let rules = json!([
        {"when": {"node": "n1", "rack": "r7"}, "pools": ["spare"]},
        {"pools": ["lan"]},
    ]);
    let [mut one, mut two] = ["n1", "n2"].map(|node| config_of_rules(cluster, node, &rules));
    let delegates = json!(["ipam-df-rack", "ipam-ds-rules", cluster.allocator()]);
    for config in [&mut one, &mut two] {
        config["ipam"]["delegates"] = delegates.clone();
    }
    let write = |body: &str| {
        let script = format!("#!/bin/sh\n{body}\n");
        cluster.sandbox().write_executable("ipam-df-rack", &script);
    };
    write(r#"echo '{"ips": [], "facts": {"rack": "r7"}}'"#);
    let added = cluster.add("c1", &one).result();
    assert!(harness::answer_of(&added)[0].starts_with("10.1.0."));
    assert!(cluster.add("c2", &two).ips()[0].starts_with("10.0.0."));
    assert_eq!(added.get("facts"), None);
    write("exit 1");
    let mut check = one.clone();
    check["prevResult"] = added;
    cluster.call("CHECK", "c1", &check).run().nothing();
    cluster.del("c1", &one).nothing();
    cluster.del("c2", &two).nothing();
    assert_eq!(cluster.addresses(), Vec::<String>::new());
}
