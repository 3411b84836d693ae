//! Definitions, folders and names that are changed while addresses and blocks are held.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;

use harness::{ETCD, ETCDCTL, EtcdMember, needs};
use serde_json::{Value, json};

use super::{ADDRESSES, BLOCKS, Cluster};

fn named() -> Value {
    json!([{"name": "blue"}])
}

/// A cluster with a pool of 16 addresses, and further keys of its definition.
fn cluster(keys: &str) -> Cluster {
    let cluster = Cluster::default();
    define(&cluster, keys);
    cluster
}

fn define(cluster: &Cluster, keys: &str) {
    let ranges = r#""subnet":"10.0.0.0/27","rangeStart":"10.0.0.4","rangeEnd":"10.0.0.19""#;
    cluster
        .etcd
        .put("/ipam/v1/pools/blue", &format!("{{{ranges}{keys}}}"));
}

/// Runs ADD for this number of containers; returns the addresses of the successful ones.
fn given(cluster: &Cluster, config: &Value, prefix: &str, number: usize) -> Vec<String> {
    let outputs = (0..number).map(|i| cluster.add(&format!("{prefix}{i}"), config));
    let given = outputs.filter(|output| output.status.success());
    given.flat_map(|output| output.ips()).collect()
}

#[test]
fn blocks_of_another_length_overlap_with_none_of_before() {
    needs!(ETCD, ETCDCTL);
    for (before, after) in [(29, 30), (30, 29)] {
        let cluster = cluster(&format!(r#","block":{before}"#));
        let [one, two] = ["n1", "n2"].map(|node| cluster.config(node, &BLOCKS, &named()));
        let mut all = given(&cluster, &one, "a", 1);
        define(&cluster, &format!(r#","block":{after}"#));
        all.extend(given(&cluster, &two, "b", 16));
        all.extend(given(&cluster, &one, "c", 16));
        let distinct: BTreeSet<&String> = all.iter().collect();
        assert_eq!(distinct.len(), all.len(), "{before} {after}: {all:?}");
        // A block of 8 can't begin in the 4 addresses before a block of 4.
        assert!(all.len() >= 8, "{all:?}");
    }
}

#[test]
fn a_requested_address_in_a_block_of_another_length_is_given_by_its_node_alone() {
    needs!(ETCD, ETCDCTL);
    let cluster = cluster(r#","block":29"#);
    let [one, two] = ["n1", "n2"]
        .map(|node| move |ip: &str| (node, json!([{"name": "blue", "requested-ip": ip}])));
    let config = |(node, pools): (&str, Value)| cluster.config(node, &BLOCKS, &pools);
    assert_eq!(
        cluster.add("a", &config(one("10.0.0.9"))).ips(),
        ["10.0.0.9"]
    );
    define(&cluster, r#","block":30"#);
    assert_eq!(
        cluster.add("b", &config(one("10.0.0.14"))).ips(),
        ["10.0.0.14"]
    );
    cluster
        .add("refused", &config(two("10.0.0.13")))
        .refused(111, "overlaps with 10.0.0.8/29");
    assert_eq!(cluster.etcd.keys("/ipam/v1/blocks/blue/"), ["10.0.0.8/29"]);
}

#[test]
fn a_pool_whose_blocks_are_held_gives_no_address_by_itself() {
    needs!(ETCD, ETCDCTL);
    let cluster = cluster(r#","block":30"#);
    let blocks = cluster.config("n1", &BLOCKS, &named());
    let addresses = cluster.config("n2", &ADDRESSES, &named());
    cluster.add("a", &blocks).result();
    define(&cluster, "");
    cluster.add("refused", &addresses).refused(
        7,
        "is given in blocks: nodes have some of it, such as /ipam/v1/blocks/blue/10.0.0.",
    );
    assert!(cluster.held().is_empty());
    cluster.etcd.ctl(&["del", "--prefix", "/ipam/v1/blocks/"]);
    cluster.add("b", &addresses).result();
}

#[test]
fn a_pool_whose_addresses_are_held_gives_no_block() {
    needs!(ETCD, ETCDCTL);
    let cluster = cluster("");
    let addresses = cluster.config("n1", &ADDRESSES, &named());
    let blocks = cluster.config("n2", &BLOCKS, &named());
    cluster.add("a", &addresses).result();
    define(&cluster, r#","block":30"#);
    cluster.add("refused", &blocks).refused(7, "/ipam/v1/pools/blue.block: addresses of this pool are given one by one, such as /ipam/v1/addresses/blue/10.0.0.",
    );
    assert!(cluster.etcd.keys("/ipam/v1/blocks/").is_empty());
    cluster.del("a", &addresses).nothing();
    cluster.add("b", &blocks).result();
}

#[test]
fn a_pool_that_is_shrunk_replaced_or_removed_still_releases_what_is_held() {
    needs!(ETCD, ETCDCTL);
    let cluster = cluster("");
    let config = cluster.config("n1", &ADDRESSES, &named());
    let result = cluster.add("a", &config).result();
    given(&cluster, &config, "b", 3);
    cluster
        .etcd
        .put("/ipam/v1/pools/blue", r#"{"subnet":"10.9.0.0/30"}"#);
    let mut check = config.clone();
    check["prevResult"] = result;
    cluster.call("CHECK", "a", &check).run().nothing();
    assert_eq!(cluster.add("c", &config).ips(), ["10.9.0.2"]);
    cluster.del("a", &config).nothing();
    cluster.etcd.ctl(&["del", "/ipam/v1/pools/blue"]);
    cluster.del("b0", &config).nothing();
    cluster.gc(&["b1"], &config).nothing();
    assert_eq!(cluster.held().len(), 1);
}

#[test]
fn two_networks_of_a_pool_need_one_folder_of_reservations() {
    needs!(ETCD, ETCDCTL);
    let cluster = cluster(r#","block":30"#);
    let config = cluster.config("n1", &BLOCKS, &named());
    cluster.add("a", &config).result();
    let mut other = config.clone();
    other["name"] = json!("othernet");
    other["ipam"]["dataDir"] = json!(cluster.sandbox.root().join("elsewhere"));
    cluster
        .add("refused", &other)
        .refused(7, "all networks of a pool need one dataDir");
    // Otherwise GC would find the blocks empty.
    other["ipam"]["keepEmptyBlocks"] = json!("0s");
    for _ in 0..3 {
        assert!(cluster.gc(&[], &other).status.success());
    }
    assert_eq!(cluster.etcd.keys("/ipam/v1/blocks/blue/").len(), 1);
}

#[test]
fn two_clusters_need_a_folder_of_the_nodes_state_each() {
    needs!(ETCD, ETCDCTL);
    let cluster = cluster(r#","block":30"#);
    let other = EtcdMember::default();
    other.put(
        "/ipam/v1/pools/blue",
        &cluster.etcd.value("/ipam/v1/pools/blue"),
    );
    let config = cluster.config("n1", &BLOCKS, &named());
    cluster.add("a", &config).result();
    let mut elsewhere = config.clone();
    elsewhere["ipam"]["etcd"]["endpoints"] = json!([other.url()]);
    cluster
        .add("refused", &elsewhere)
        .refused(7, "this etcd knows none of the 1 blocks of pool blue");
    assert!(other.keys("/ipam/v1/blocks/").is_empty());
    // Another URL of the same cluster: the blocks are compared and used.
    let mut renamed = config.clone();
    renamed["ipam"]["etcd"]["endpoints"] =
        json!([cluster.etcd.url().replace("127.0.0.1", "localhost")]);
    cluster.add("b", &renamed).result();
    assert_eq!(cluster.etcd.keys("/ipam/v1/blocks/blue/").len(), 1);
}

#[test]
fn a_node_that_was_forgotten_compares_its_blocks_before_it_claims_another() {
    needs!(ETCD, ETCDCTL);
    let cluster = cluster(r#","block":30"#);
    let config = cluster.config("n1", &BLOCKS, &named());
    cluster.add("a", &config).result();
    let lost = cluster.etcd.keys("/ipam/v1/blocks/blue/");
    // In the same boot: a person has forgotten this node by mistake.
    cluster.etcd.ctl(&["del", "--prefix", "/ipam/v1/blocks/"]);
    cluster.etcd.ctl(&["del", "/ipam/v1/tokens/n1"]);
    cluster.etcd.put(
        &format!("/ipam/v1/blocks/blue/{}", lost[0]),
        r#"{"node":"n2","since":"2026-01-01T00:00:00Z"}"#,
    );
    given(&cluster, &config, "b", 4);
    let file = cluster
        .sandbox
        .root()
        .join("n1/engine-state/blocks/blue.json");
    let local: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let blocks = local["blocks"].as_array().unwrap();
    assert!(!blocks.is_empty());
    assert!(
        blocks.iter().all(|block| block["cidr"] != lost[0]),
        "{local}"
    );
}

#[test]
fn each_add_sees_the_definition_as_it_is_now() {
    needs!(ETCD, ETCDCTL);
    let cluster = cluster("");
    let config = cluster.config("n1", &ADDRESSES, &named());
    let remembered = cluster.sandbox.root().join("n1/cache/pool_ipam_blue");
    cluster.add("a", &config).result();
    assert!(remembered.exists());
    for (i, subnet) in ["10.1.0", "10.2.0", "10.1.0"].into_iter().enumerate() {
        let definition = format!(r#"{{"subnet":"{subnet}.0/24"}}"#);
        cluster.etcd.put("/ipam/v1/pools/blue", &definition);
        for container in [format!("b{i}"), format!("c{i}")] {
            let ip = cluster.add(&container, &config).ips().remove(0);
            assert!(ip.starts_with(subnet), "{ip}");
        }
    }
    define(&cluster, r#","block":30"#);
    cluster
        .add("refused", &config)
        .refused(7, "this pool is given in blocks");
    cluster.etcd.put("/ipam/v1/pools/blue", "{");
    cluster
        .add("refused", &config)
        .refused(7, "/ipam/v1/pools/blue: it is no JSON object");
    cluster.etcd.ctl(&["del", "/ipam/v1/pools/blue"]);
    cluster
        .add("refused", &config)
        .refused(7, "etcd has no pool \"blue\"");
    define(&cluster, "");
    for foreign in ["{", r#"{"subnet":"10.7.0.0/24"}"#, ""] {
        std::fs::write(&remembered, foreign).unwrap();
        let ip = cluster
            .add(&format!("d{}", foreign.len()), &config)
            .ips()
            .remove(0);
        assert!(ip.starts_with("10.0.0."), "{ip}");
    }
}

/// Transactions that the member has served.
fn transactions(cluster: &Cluster) -> f64 {
    let mut connection = TcpStream::connect(cluster.etcd.url().replace("http://", "")).unwrap();
    connection
        .write_all(b"GET /metrics HTTP/1.0\r\n\r\n")
        .unwrap();
    let mut text = String::new();
    connection.read_to_string(&mut text).unwrap();
    let served = text.lines().filter(|line| {
        line.starts_with("grpc_server_handled_total{") && line.contains("grpc_method=\"Txn\"")
    });
    let numbers = served.map(|line| line.rsplit_once(' ').unwrap().1);
    numbers.map(|number| number.parse::<f64>().unwrap()).sum()
}

#[test]
fn an_add_of_a_known_pool_asks_etcd_twice() {
    needs!(ETCD, ETCDCTL);
    let cluster = cluster("");
    let config = cluster.config("n1", &ADDRESSES, &named());
    cluster.add("a", &config).result();
    let before = transactions(&cluster);
    cluster.add("b", &config).result();
    assert!((transactions(&cluster) - before - 2.0).abs() < 0.1);
}
