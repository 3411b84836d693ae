//! Changes of authentication, many callers on a new node, unusual pools, and foreign content below
//! every key.

use std::collections::BTreeSet;
use std::thread;

use harness::{ETCD, ETCDCTL, Output, needs};
use serde_json::{Value, json};

use super::{ADDRESSES, BLOCKS, Cluster};

fn red() -> Value {
    json!([{"name": "red", "subnet": "10.1.0.0/24"}])
}

/// The configuration with the user `node`.
fn with_user(cluster: &Cluster, mut config: Value) -> Value {
    let password = cluster.sandbox.root().join("password");
    std::fs::write(&password, "good\r\n").unwrap();
    config["ipam"]["etcd"]["username"] = json!("node");
    config["ipam"]["etcd"]["passwordFile"] = json!(password);
    config
}

#[test]
fn authentication_may_be_enabled_and_disabled_and_tokens_forgotten_at_any_time() {
    needs!(ETCD, ETCDCTL);
    let mut cluster = Cluster::default();
    let config = with_user(&cluster, cluster.config("n1", &ADDRESSES, &red()));
    cluster.add("a", &config).result();
    cluster.etcd.enable_authentication("node:good");
    cluster.add("b", &config).result();
    cluster.del("a", &config).nothing();
    // After a restart, a member has no tokens.
    cluster.etcd.restart();
    cluster.add("c", &config).result();
    cluster
        .etcd
        .ctl(&["--user", "root:secret", "auth", "disable"]);
    cluster.add("d", &config).result();
    cluster.etcd.ctl(&["auth", "enable"]);
    cluster.del("d", &config).nothing();
    cluster.etcd.ctl(&[
        "--user",
        "root:secret",
        "user",
        "revoke-role",
        "node",
        "ipam",
    ]);
    assert_eq!(cluster.add("e", &config).code(), 113);
    cluster.etcd.ctl(&[
        "--user",
        "root:secret",
        "user",
        "grant-role",
        "node",
        "ipam",
    ]);
    cluster.gc(&["b", "c"], &config).nothing();
    cluster.add("f", &config).result();
}

/// ADDs of 64 containers at once.
fn at_once(cluster: &Cluster, config: &Value) -> Vec<Output> {
    thread::scope(|scope| {
        let add = |i| scope.spawn(move || cluster.add(&format!("c{i}"), config));
        let callers: Vec<_> = (0..64).map(add).collect();
        callers
            .into_iter()
            .map(|caller| caller.join().unwrap())
            .collect()
    })
}

#[test]
fn the_first_64_callers_of_a_node_agree_on_its_token_and_its_user() {
    needs!(ETCD, ETCDCTL);
    let cluster = Cluster::default();
    cluster.etcd.enable_authentication("node:good");
    let mut config = with_user(&cluster, cluster.config("n1", &ADDRESSES, &red()));
    config["ipam"]["etcd"]["timeout"] = json!("30s");
    let given: BTreeSet<String> = at_once(&cluster, &config)
        .iter()
        .flat_map(Output::ips)
        .collect();
    assert_eq!(given.len(), 64);
}

#[test]
fn the_first_64_callers_of_a_node_claim_a_block_once() {
    needs!(ETCD, ETCDCTL);
    let cluster = Cluster::default();
    cluster.etcd.put(
        "/ipam/v1/pools/blue",
        r#"{"subnet":"10.0.0.0/20","block":25}"#,
    );
    let mut config = cluster.config("n1", &BLOCKS, &json!([{"name": "blue"}]));
    config["ipam"]["etcd"]["timeout"] = json!("30s");
    let given: BTreeSet<String> = at_once(&cluster, &config)
        .iter()
        .flat_map(Output::ips)
        .collect();
    assert_eq!(given.len(), 64);
    assert_eq!(cluster.etcd.keys("/ipam/v1/blocks/blue/").len(), 1);
}

#[test]
fn the_smallest_pools_give_all_that_they_have() {
    needs!(ETCD, ETCDCTL);
    let cluster = Cluster::default();
    for (i, (pool, given)) in [
        (json!({"subnet": "10.2.0.0/30"}), Ok(vec!["10.2.0.2"])),
        (
            json!({"subnet": "10.3.0.0/24", "rangeStart": "10.3.0.7", "rangeEnd": "10.3.0.7"}),
            Ok(vec!["10.3.0.7"]),
        ),
        (
            json!({"subnet": "fd02::/126"}),
            Ok(vec!["fd02::2", "fd02::3"]),
        ),
        (json!({"subnet": "10.4.0.0/31"}), Err("10.4.0.0/31")),
        (json!({"subnet": "10.5.0.0/32"}), Err("10.5.0.0/32")),
        (json!({"subnet": "fd03::/127"}), Err("fd03::/127")),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("pool-{i}");
        cluster
            .etcd
            .put(&format!("/ipam/v1/pools/{name}"), &pool.to_string());
        let config = cluster.config("n1", &ADDRESSES, &json!([{"name": name}]));
        match given {
            Ok(given) => {
                let all: BTreeSet<String> = (0..given.len())
                    .flat_map(|j| cluster.add(&format!("{i}-{j}"), &config).ips())
                    .collect();
                assert_eq!(Vec::from_iter(&all), given);
                assert_eq!(cluster.add(&format!("{i}-more"), &config).code(), 11);
                cluster.gc(&[], &config).nothing();
                cluster.add(&format!("{i}-again"), &config).result();
            }
            Err(subnet) => {
                let error = cluster.add(&format!("{i}-none"), &config).error();
                assert_eq!(error["code"], 7);
                let msg = error["msg"].as_str().unwrap();
                let key = format!("/ipam/v1/pools/{name}.subnet: \"{subnet}\" is too small");
                assert!(msg.contains(&key), "{msg}");
            }
        }
    }
}

#[test]
fn names_that_would_be_parts_of_other_keys_are_refused_and_long_ones_are_not() {
    needs!(ETCD, ETCDCTL);
    let cluster = Cluster::default();
    let config = cluster.config("n1", &ADDRESSES, &red());
    for node in ["a/b", "a:b", "..", "ü"] {
        let mut wrong = config.clone();
        wrong["ipam"]["node"] = json!(node);
        assert_eq!(cluster.add("a", &wrong).code(), 7);
    }
    assert_eq!(cluster.add("a:b", &config).code(), 4);
    let mut long = config.clone();
    long["name"] = json!("n".repeat(200));
    long["ipam"]["node"] = json!("x".repeat(200));
    long["ipam"]["etcd"]["prefix"] = json!("/ä \"%2f/..");
    let container = "c".repeat(200);
    cluster.add(&container, &long).result();
    assert_eq!(cluster.etcd.keys("/ä \"%2f/../v1/addresses/red/").len(), 1);
    cluster.del(&container, &long).nothing();
    assert!(
        cluster
            .etcd
            .keys("/ä \"%2f/../v1/addresses/red/")
            .is_empty()
    );
}

#[test]
fn foreign_content_below_any_key_hinders_nobody_and_stays() {
    needs!(ETCD, ETCDCTL);
    let cluster = Cluster::default();
    cluster.etcd.put(
        "/ipam/v1/pools/blue",
        r#"{"subnet":"10.0.0.0/24","block":28}"#,
    );
    let foreign = [
        "addresses/red",
        "addresses/red/",
        "addresses/red/x",
        "blocks/blue",
        "blocks/blue/",
        "blocks/blue/10.0.0.0",
        "nodes/n1/",
        "nodes/n1/testnet/",
        "nodes/n1/testnet/b:eth0/",
        "pools/",
        "pools/blue/",
        "sticky/red/keys/",
        "tokens/",
        "x",
    ];
    for key in foreign {
        cluster
            .etcd
            .put(&format!("/ipam/v1/{key}"), "somebody's\nnote");
    }
    let before = cluster.etcd.keys("/ipam/v1/");
    let addresses = cluster.config("n1", &ADDRESSES, &red());
    let blocks = cluster.config("n2", &BLOCKS, &json!([{"name": "blue"}]));
    for config in [&addresses, &blocks] {
        cluster.call("STATUS", "", config).run();
        cluster.add("a", config).result();
        cluster.add("b", config).result();
        cluster.del("a", config).nothing();
        assert!(cluster.gc(&["b"], config).status.success());
        cluster.del("b", config).nothing();
    }
    let after = cluster.etcd.keys("/ipam/v1/");
    let lost: Vec<&String> = before.iter().filter(|key| !after.contains(key)).collect();
    assert!(lost.is_empty(), "{lost:?}");
}
