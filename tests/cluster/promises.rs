//! What an allocator of a cluster's pool promises, for each engine.

use std::collections::BTreeSet;
use std::fs;

use harness::{Flavour, Sandbox};
use serde_json::{Value, json};

use crate::pool_cluster::{PoolCluster, promises};

promises! {
    a_container_gets_an_address_and_del_releases_it,
    pools_that_overlap_share_their_addresses,
    a_pinned_address_is_its_rules_alone,
    gc_releases_what_is_this_nodes_and_this_networks,
    a_del_without_a_result_finds_the_addresses,
    what_fails_while_the_engine_is_away_is_made_up_for_later,
    the_verbose_log_says_who_had_an_address,
}

fn small() -> Value {
    json!([{"name": "blue", "subnet": "10.0.0.0/29"}])
}

fn a_container_gets_an_address_and_del_releases_it(cluster: &mut dyn PoolCluster) {
    let config = cluster.config("n1", &small());
    let result = cluster.add("c1", &config).result();
    assert_eq!(result["ips"][0]["gateway"], "10.0.0.1");
    let address = result["ips"][0]["address"].as_str().unwrap();
    let ip = address.strip_suffix("/29").unwrap();
    assert_eq!(cluster.addresses(), [format!("{ip} n1/testnet/c1:eth0")]);
    let mut check = config.clone();
    check["prevResult"] = result;
    cluster.call("CHECK", "c1", &check).run().nothing();
    cluster.del("c1", &config).nothing();
    cluster.del("c1", &config).nothing();
    assert_eq!(cluster.addresses(), Vec::<String>::new());
    check["prevResult"]["pools"] = small();
    assert_eq!(cluster.alone("CHECK", "c1", &check).run().code(), 112);
}

/// Or a pool that was renamed. The last free address is found by a list, which counts what other
/// pools have given, too.
fn pools_that_overlap_share_their_addresses(cluster: &mut dyn PoolCluster) {
    let definition = json!({"subnet": "10.0.0.0/28", "exclude": ["10.0.0.2"]});
    for pool in ["blue", "green"] {
        cluster.define(pool, &definition);
    }
    let [blue, green] = [("n1", "blue"), ("n2", "green")]
        .map(|(node, pool)| cluster.config(node, &json!([{"name": pool}])));
    let given: BTreeSet<String> = (0..11)
        .flat_map(|i| cluster.add(&format!("c{i}"), &blue).ips())
        .collect();
    let last = cluster.add("c11", &green).ips();
    assert_eq!(given.len() + last.len(), 12);
    assert!(!given.contains(&last[0]));
    assert!(!given.contains("10.0.0.1") && !given.contains("10.0.0.2"));
    let full = "pool green (10.0.0.1-10.0.0.14) has no address left: all 12 are reserved";
    cluster.add("c12", &green).refused(11, full);
    // Kubernetes evicts the pods of a node that isn't ready.
    cluster.call("STATUS", "", &green).run().nothing();
}

/// Of a pool that only the engine defines. Who else asks for the address is refused.
fn a_pinned_address_is_its_rules_alone(cluster: &mut dyn PoolCluster) {
    cluster.define("lan", &json!({"subnet": "10.0.0.0/29"}));
    let mut config = cluster.config("n1", &json!({"lan": {}}));
    config["ipam"]["delegates"] = json!(["ipam-ds-rules", cluster.allocator()]);
    config["ipam"]["rules"] = json!([
        {"when": {"NAME": "db-0"}, "pools": ["lan"], "ip": "10.0.0.3"},
        {"pools": ["lan"]},
    ]);
    let add = |container: &str, name: &str, config: &Value| {
        let call = cluster.call("ADD", container, config);
        call.env("CNI_ARGS", format!("NAME={name}")).run()
    };
    let others: BTreeSet<String> = (0..4)
        .flat_map(|i| add(&format!("c{i}"), "web", &config).ips())
        .collect();
    assert_eq!(others.len(), 4);
    assert!(!others.contains("10.0.0.3"), "{others:?}");
    add("c4", "web", &config).refused(11, "all 4 are reserved, 1 are excluded");
    let pinned = "10.0.0.3 of pool lan is pinned by another rule";
    let mut tenants = config.clone();
    tenants["args"] = json!({"cni": {"ips": ["10.0.0.3/29"]}});
    add("c4", "web", &tenants).refused(111, pinned);
    add("c4", "web;IP=10.0.0.3", &config).refused(111, pinned);
    assert_eq!(add("db", "db-0", &config).ips(), ["10.0.0.3"]);
}

fn gc_releases_what_is_this_nodes_and_this_networks(cluster: &mut dyn PoolCluster) {
    let [one, two] = ["n1", "n2"].map(|node| cluster.config(node, &small()));
    let mut other = one.clone();
    other["name"] = json!("othernet");
    for (container, config) in [("a", &one), ("b", &one), ("c", &two), ("d", &other)] {
        cluster.add(container, config).result();
    }
    let mut gc = one.clone();
    gc["cni.dev/valid-attachments"] = json!([{"containerID": "b", "ifname": "eth0"}]);
    cluster.alone("GC", "", &gc).run().nothing();
    let addresses = cluster.addresses();
    let mut left: Vec<&str> = addresses
        .iter()
        .map(|line| line.split_once(' ').unwrap().1)
        .collect();
    left.sort_unstable();
    let expected = [
        "n1/othernet/d:eth0",
        "n1/testnet/b:eth0",
        "n2/testnet/c:eth0",
    ];
    assert_eq!(left, expected);
}

/// containerd calls DEL again when it removes a sandbox that it has stopped.
fn a_del_without_a_result_finds_the_addresses(cluster: &mut dyn PoolCluster) {
    let config = cluster.config("n1", &small());
    cluster.add("other", &config).result();
    let before = cluster.addresses();
    cluster.alone("ADD", "c1", &config).run().result();
    cluster.alone("DEL", "c1", &config).run().nothing();
    assert_eq!(cluster.addresses(), before);
    // In a rollback, what is left is an earlier ADD's.
    cluster.alone("ADD", "c1", &config).run().result();
    let rollback = cluster.alone("DEL", "c1", &config);
    rollback.env("IPAM_DELEGATED_ROLLBACK", "1").run().nothing();
    assert_eq!(cluster.addresses().len(), 2);
    cluster.alone("DEL", "c1", &config).run().nothing();
    assert_eq!(cluster.addresses(), before);
}

fn what_fails_while_the_engine_is_away_is_made_up_for_later(cluster: &mut dyn PoolCluster) {
    let pools = small();
    let config = cluster.config("n1", &pools);
    cluster.add("c1", &config).result();
    cluster.stop();
    let impatient = cluster.config_within("n1", &pools, "500ms");
    assert_eq!(cluster.add("c2", &impatient).code(), 11);
    assert_eq!(cluster.call("STATUS", "", &impatient).run().code(), 50);
    // How the engine is reached is read now; the record has the rest.
    assert_eq!(cluster.del("c1", &impatient).code(), 11);
    let records = cluster.sandbox().root().join("n1/state/testnet");
    assert!(records.join("c1:eth0.json").exists());
    cluster.start();
    assert_eq!(cluster.addresses().len(), 1);
    cluster.del("c1", &config).nothing();
    assert_eq!(cluster.addresses(), Vec::<String>::new());
    assert_eq!(fs::read_dir(records).map_or(0, Iterator::count), 0);
}

/// In the lines that the operations page looks for.
fn the_verbose_log_says_who_had_an_address(cluster: &mut dyn PoolCluster) {
    let verbose = Sandbox::new(Flavour::Verbose).with_network_plugins(Flavour::Verbose);
    let config = cluster.config("n1", &small());
    let call = |plugin: &str, command: &str, config: &Value| {
        let args = "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-1";
        let call = verbose.call(plugin, command, config);
        call.env("CNI_ARGS", args).run()
    };
    let of_log = |word: &str, ip: &str| {
        let log = verbose.log(cluster.allocator());
        let mut lines = log.lines().rev();
        let text = format!(": {word} ip={ip} ");
        let line = lines.find(|line| line.contains(&text));
        line.unwrap_or_else(|| panic!("{text}\n{log}")).to_owned()
    };
    let ip = &call("ipam-delegated", "ADD", &config).ips()[0];
    call("ipam-delegated", "DEL", &config).nothing();
    for line in [of_log("reserved", ip), of_log("released", ip)] {
        assert!(line.contains("K8S_POD_NAME=web-1: "), "{line}");
        assert!(line.contains(" container=c1 ifname=eth0"), "{line}");
    }
    // GC, which has no CNI_ARGS, takes the pod from the holder.
    let mut alone = config.clone();
    let pools = &config["ipam"]["pools"];
    alone["prevResult"] = json!({"cniVersion": "1.1.0", "ips": [], "pools": pools});
    let ip = &call(cluster.allocator(), "ADD", &alone).ips()[0];
    alone["cni.dev/valid-attachments"] = json!([]);
    call(cluster.allocator(), "GC", &alone).nothing();
    let line = of_log("released", ip);
    assert!(line.contains("pod=\"web-1\""), "{line}");
}
