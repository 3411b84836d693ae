//! Definitions, folders and names that are changed while addresses and blocks are held.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;

use harness::{ETCD, ETCDCTL, EtcdMember, needs};
use serde_json::{Value, json};

use super::Cluster;

const ADDRESSES: [&str; 1] = ["ipam-da-etcd"];
const BLOCKS: [&str; 2] = ["ipam-ds-etcd", "ipam-da-host-local"];

fn named() -> Value {
    json!([{"name": "blue"}])
}

/// A cluster with a pool of 16 addresses, and further keys of its definition.
fn cluster(keys: &str) -> Cluster {
    let it = Cluster::default();
    define(&it, keys);
    it
}

fn define(it: &Cluster, keys: &str) {
    let ranges = r#""subnet":"10.0.0.0/27","rangeStart":"10.0.0.4","rangeEnd":"10.0.0.19""#;
    it.etcd
        .put("/ipam/v1/pools/blue", &format!("{{{ranges}{keys}}}"));
}

/// ADDs of so many containers; the addresses of those that succeeded.
fn given(it: &Cluster, config: &Value, prefix: &str, number: usize) -> Vec<String> {
    let outputs = (0..number).map(|i| it.add(&format!("{prefix}{i}"), config));
    let given = outputs.filter(|it| it.status.success());
    given.flat_map(|it| it.ips()).collect()
}

#[test]
fn blocks_of_another_length_overlap_with_none_of_before() {
    needs!(ETCD, ETCDCTL);
    for (before, after) in [(29, 30), (30, 29)] {
        let it = cluster(&format!(r#","block":{before}"#));
        let [one, two] = ["n1", "n2"].map(|node| it.config(node, &BLOCKS, &named()));
        let mut all = given(&it, &one, "a", 1);
        define(&it, &format!(r#","block":{after}"#));
        all.extend(given(&it, &two, "b", 16));
        all.extend(given(&it, &one, "c", 16));
        let distinct: BTreeSet<&String> = all.iter().collect();
        assert_eq!(distinct.len(), all.len(), "{before} {after}: {all:?}");
        // Blocks of 8 can't begin in the 4 addresses before one of 4.
        assert!(all.len() >= 8, "{all:?}");
    }
}

#[test]
fn a_requested_address_in_a_block_of_another_length_is_given_by_its_node_alone() {
    needs!(ETCD, ETCDCTL);
    let it = cluster(r#","block":29"#);
    let [one, two] = ["n1", "n2"]
        .map(|node| move |ip: &str| (node, json!([{"name": "blue", "requested-ip": ip}])));
    let config = |(node, pools): (&str, Value)| it.config(node, &BLOCKS, &pools);
    assert_eq!(it.add("a", &config(one("10.0.0.9"))).ips(), ["10.0.0.9"]);
    define(&it, r#","block":30"#);
    assert_eq!(it.add("b", &config(one("10.0.0.14"))).ips(), ["10.0.0.14"]);
    it.add("refused", &config(two("10.0.0.13")))
        .refused(111, "overlaps with 10.0.0.8/29");
    assert_eq!(it.etcd.keys("/ipam/v1/blocks/blue/"), ["10.0.0.8/29"]);
}

#[test]
fn a_pool_whose_blocks_are_held_gives_no_address_by_itself() {
    needs!(ETCD, ETCDCTL);
    let it = cluster(r#","block":30"#);
    let blocks = it.config("n1", &BLOCKS, &named());
    let addresses = it.config("n2", &ADDRESSES, &named());
    it.add("a", &blocks).result();
    define(&it, "");
    it.add("refused", &addresses).refused(
        7,
        "is given in blocks: nodes have some of it, such as /ipam/v1/blocks/blue/10.0.0.",
    );
    assert!(it.held().is_empty());
    it.etcd.ctl(&["del", "--prefix", "/ipam/v1/blocks/"]);
    it.add("b", &addresses).result();
}

#[test]
fn a_pool_whose_addresses_are_held_gives_no_block() {
    needs!(ETCD, ETCDCTL);
    let it = cluster("");
    let addresses = it.config("n1", &ADDRESSES, &named());
    let blocks = it.config("n2", &BLOCKS, &named());
    it.add("a", &addresses).result();
    define(&it, r#","block":30"#);
    it.add("refused", &blocks).refused(7, "/ipam/v1/pools/blue.block: addresses of this pool are given one by one, such as /ipam/v1/addresses/blue/10.0.0.",
    );
    assert!(it.etcd.keys("/ipam/v1/blocks/").is_empty());
    it.del("a", &addresses).nothing();
    it.add("b", &blocks).result();
}

#[test]
fn a_pool_that_is_shrunk_replaced_or_removed_still_releases_what_is_held() {
    needs!(ETCD, ETCDCTL);
    let it = cluster("");
    let config = it.config("n1", &ADDRESSES, &named());
    let result = it.add("a", &config).result();
    given(&it, &config, "b", 3);
    it.etcd
        .put("/ipam/v1/pools/blue", r#"{"subnet":"10.9.0.0/30"}"#);
    let mut check = config.clone();
    check["prevResult"] = result;
    it.call("CHECK", "a", &check).run().nothing();
    assert_eq!(it.add("c", &config).ips(), ["10.9.0.2"]);
    it.del("a", &config).nothing();
    it.etcd.ctl(&["del", "/ipam/v1/pools/blue"]);
    it.del("b0", &config).nothing();
    it.gc(&["b1"], &config).nothing();
    assert_eq!(it.held().len(), 1);
}

#[test]
fn two_networks_of_a_pool_need_one_folder_of_reservations() {
    needs!(ETCD, ETCDCTL);
    let it = cluster(r#","block":30"#);
    let config = it.config("n1", &BLOCKS, &named());
    it.add("a", &config).result();
    let mut other = config.clone();
    other["name"] = json!("othernet");
    other["ipam"]["dataDir"] = json!(it.sandbox.root().join("elsewhere"));
    it.add("refused", &other)
        .refused(7, "all networks of a pool need one dataDir");
    // GC would take the blocks for empty.
    other["ipam"]["keepEmptyBlocks"] = json!("0s");
    for _ in 0..3 {
        assert!(it.gc(&[], &other).status.success());
    }
    assert_eq!(it.etcd.keys("/ipam/v1/blocks/blue/").len(), 1);
}

#[test]
fn two_clusters_need_a_folder_of_the_nodes_state_each() {
    needs!(ETCD, ETCDCTL);
    let it = cluster(r#","block":30"#);
    let other = EtcdMember::default();
    other.put("/ipam/v1/pools/blue", &it.etcd.value("/ipam/v1/pools/blue"));
    let config = it.config("n1", &BLOCKS, &named());
    it.add("a", &config).result();
    let mut elsewhere = config.clone();
    elsewhere["ipam"]["etcd"]["endpoints"] = json!([other.url()]);
    it.add("refused", &elsewhere)
        .refused(7, "this etcd knows none of the 1 blocks of pool blue");
    assert!(other.keys("/ipam/v1/blocks/").is_empty());
    // Another name of the same cluster is compared, and used.
    let mut renamed = config.clone();
    renamed["ipam"]["etcd"]["endpoints"] = json!([it.etcd.url().replace("127.0.0.1", "localhost")]);
    it.add("b", &renamed).result();
    assert_eq!(it.etcd.keys("/ipam/v1/blocks/blue/").len(), 1);
}

#[test]
fn a_node_that_was_forgotten_compares_its_blocks_before_it_claims_another() {
    needs!(ETCD, ETCDCTL);
    let it = cluster(r#","block":30"#);
    let config = it.config("n1", &BLOCKS, &named());
    it.add("a", &config).result();
    let lost = it.etcd.keys("/ipam/v1/blocks/blue/");
    // In the same boot: somebody was wrong about this node.
    it.etcd.ctl(&["del", "--prefix", "/ipam/v1/blocks/"]);
    it.etcd.ctl(&["del", "/ipam/v1/tokens/n1"]);
    it.etcd.put(
        &format!("/ipam/v1/blocks/blue/{}", lost[0]),
        r#"{"node":"n2","since":"2026-01-01T00:00:00Z"}"#,
    );
    given(&it, &config, "b", 4);
    let file = it.sandbox.root().join("n1/etcd-state/blocks/blue.json");
    let local: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let blocks = local["blocks"].as_array().unwrap();
    assert!(!blocks.is_empty());
    assert!(blocks.iter().all(|it| it["cidr"] != lost[0]), "{local}");
}

#[test]
fn each_add_sees_the_definition_as_it_is_now() {
    needs!(ETCD, ETCDCTL);
    let it = cluster("");
    let config = it.config("n1", &ADDRESSES, &named());
    let remembered = it.sandbox.root().join("n1/cache/pool_ipam_blue");
    it.add("a", &config).result();
    assert!(remembered.exists());
    for (i, subnet) in ["10.1.0", "10.2.0", "10.1.0"].into_iter().enumerate() {
        let definition = format!(r#"{{"subnet":"{subnet}.0/24"}}"#);
        it.etcd.put("/ipam/v1/pools/blue", &definition);
        for container in [format!("b{i}"), format!("c{i}")] {
            let ip = it.add(&container, &config).ips().remove(0);
            assert!(ip.starts_with(subnet), "{ip}");
        }
    }
    define(&it, r#","block":30"#);
    it.add("refused", &config)
        .refused(7, "this pool is given in blocks");
    it.etcd.put("/ipam/v1/pools/blue", "{");
    it.add("refused", &config)
        .refused(7, "/ipam/v1/pools/blue: it is no JSON object");
    it.etcd.ctl(&["del", "/ipam/v1/pools/blue"]);
    it.add("refused", &config)
        .refused(7, "etcd has no pool \"blue\"");
    define(&it, "");
    for foreign in ["{", r#"{"subnet":"10.7.0.0/24"}"#, ""] {
        std::fs::write(&remembered, foreign).unwrap();
        let ip = it
            .add(&format!("d{}", foreign.len()), &config)
            .ips()
            .remove(0);
        assert!(ip.starts_with("10.0.0."), "{ip}");
    }
}

/// Transactions that the member has served.
fn transactions(it: &Cluster) -> f64 {
    let mut connection = TcpStream::connect(it.etcd.url().replace("http://", "")).unwrap();
    connection
        .write_all(b"GET /metrics HTTP/1.0\r\n\r\n")
        .unwrap();
    let mut text = String::new();
    connection.read_to_string(&mut text).unwrap();
    let served = text.lines().filter(|line| {
        line.starts_with("grpc_server_handled_total{") && line.contains("grpc_method=\"Txn\"")
    });
    let numbers = served.map(|line| line.rsplit_once(' ').unwrap().1);
    numbers.map(|it| it.parse::<f64>().unwrap()).sum()
}

#[test]
fn an_add_of_a_known_pool_asks_etcd_twice() {
    needs!(ETCD, ETCDCTL);
    let it = cluster("");
    let config = it.config("n1", &ADDRESSES, &named());
    it.add("a", &config).result();
    let before = transactions(&it);
    it.add("b", &config).result();
    assert!((transactions(&it) - before - 2.0).abs() < 0.1);
}
