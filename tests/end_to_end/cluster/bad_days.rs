//! Invalid configurations, and an etcd that is unreachable or has invalid content.

use std::sync::atomic::{AtomicU32, Ordering};

use harness::{ETCD, ETCDCTL, needs};
use serde_json::{Value, json};

use super::{ADDRESSES, Cluster};

/// Checks that an ADD fails with this code and text. Uses a new container each time, because a
/// failed DEL leaves a record.
#[track_caller]
fn refused(cluster: &Cluster, config: &Value, code: u64, text: &str) {
    static CONTAINERS: AtomicU32 = AtomicU32::new(0);
    let container = format!("r{}", CONTAINERS.fetch_add(1, Ordering::Relaxed));
    cluster.add(&container, config).refused(code, text);
}

fn named() -> Value {
    json!([{"name": "blue"}])
}

#[test]
fn a_wrong_configuration_names_the_key_and_the_value() {
    needs!(ETCD, ETCDCTL);
    let cluster = Cluster::default();
    let config = cluster.config("n1", &ADDRESSES, &named());
    for (key, value, text) in [
        (
            "endpoints",
            json!([]),
            "ipam.etcd.endpoints is missing or empty",
        ),
        (
            "endpoints",
            json!(["localhost:2379"]),
            "ipam.etcd.endpoints[0]: \"localhost:2379\" is no http or https URL",
        ),
        (
            "endpoints",
            json!(["https://localhost:2379"]),
            "ipam.etcd.ca is missing",
        ),
        ("timeout", json!("soon"), "ipam.etcd.timeout: \"soon\""),
        ("prefix", json!("ipam"), "ipam.etcd.prefix: \"ipam\""),
    ] {
        let mut wrong = config.clone();
        wrong["ipam"]["etcd"][key] = value;
        refused(&cluster, &wrong, 7, text);
    }
    let mut wrong = config.clone();
    wrong["ipam"]["node"] = json!("a/b");
    refused(&cluster, &wrong, 7, "ipam.node: \"a/b\" can't name a node");
}

#[test]
fn a_pool_that_is_missing_or_wrong_is_named_with_etcds_key() {
    needs!(ETCD, ETCDCTL);
    let cluster = Cluster::default();
    let config = cluster.config("n1", &ADDRESSES, &named());
    refused(
        &cluster,
        &config,
        7,
        "prevResult.pools[0].name: etcd has no pool \"blue\": /ipam/v1/pools/blue is missing",
    );
    for (json, text) in [
        ("{", "/ipam/v1/pools/blue: it is no JSON object"),
        (
            r#"{"subnet":"10.0.0.0"}"#,
            "/ipam/v1/pools/blue.subnet: \"10.0.0.0\" is no subnet",
        ),
    ] {
        cluster.etcd.put("/ipam/v1/pools/blue", json);
        refused(&cluster, &config, 7, text);
        let status = cluster.call("STATUS", "", &config).run().error();
        assert!(status["msg"].as_str().unwrap().contains(text), "{status}");
    }
    assert!(cluster.held().is_empty());
}

#[test]
fn foreign_content_keeps_its_address_and_its_keys() {
    needs!(ETCD, ETCDCTL);
    let cluster = Cluster::default();
    let pools = json!([{"name": "blue", "subnet": "10.0.0.0/30"}]);
    let config = cluster.config("n1", &ADDRESSES, &pools);
    cluster
        .etcd
        .put("/ipam/v1/addresses/blue/10.0.0.2", "somebody's\nnote");
    refused(
        &cluster,
        &config,
        11,
        "pool blue (10.0.0.1-10.0.0.2) has no address left",
    );
    cluster
        .etcd
        .put("/ipam/v1/nodes/n1/testnet/c9:eth0/blue/10.0.0.2", "mine?");
    cluster.etcd.put("/ipam/v1/nodes/n1/testnet/note", "x");
    let mut gc = config.clone();
    gc["cni.dev/valid-attachments"] = json!([]);
    cluster
        .sandbox
        .call("ipam-da-etcd", "GC", &gc)
        .run()
        .nothing();
    assert_eq!(cluster.reserved("blue"), ["10.0.0.2"]);
    assert_eq!(cluster.held(), ["n1/testnet/note"]);
}

#[test]
fn a_del_without_etcd_fails_and_is_made_up_for_later() {
    needs!(ETCD, ETCDCTL);
    let mut cluster = Cluster::default();
    let pools = json!([{"name": "blue", "subnet": "10.0.0.0/24"}]);
    let mut config = cluster.config("n1", &ADDRESSES, &pools);
    // DEL uses the configuration of the record.
    config["ipam"]["etcd"]["timeout"] = json!("2s");
    cluster.add("c1", &config).result();
    cluster.etcd.kill();
    let error = cluster.del("c1", &config).error();
    assert_eq!(error["code"], 11, "{error}");
    let msg = error["msg"].as_str().unwrap();
    assert!(
        msg.contains("etcd can't be reached within 2s: http://127.0.0.1:"),
        "{msg}"
    );
    refused(&cluster, &config, 11, "etcd can't be reached within 2s");
    cluster.etcd.restart();
    assert_eq!(cluster.reserved("blue").len(), 1);
    config["ipam"]["etcd"]["timeout"] = json!("10s");
    cluster.gc(&[], &config).nothing();
    assert!(cluster.reserved("blue").is_empty() && cluster.held().is_empty());
}

#[test]
fn a_stopped_etcd_takes_no_longer_than_the_timeout_and_leaves_nothing_after_gc() {
    needs!(ETCD, ETCDCTL);
    let cluster = Cluster::default();
    let pools = json!([{"name": "blue", "subnet": "10.0.0.0/24"}]);
    let mut config = cluster.config("n1", &ADDRESSES, &pools);
    cluster.add("c1", &config).result();
    cluster.etcd.signal("STOP");
    config["ipam"]["etcd"]["timeout"] = json!("300ms");
    assert_eq!(cluster.add("c2", &config).code(), 11);
    cluster.etcd.signal("CONT");
    config["ipam"]["etcd"]["timeout"] = json!("10s");
    cluster.gc(&["c1"], &config).nothing();
    assert_eq!(cluster.held().len(), 1);
}

#[test]
fn a_user_without_a_password_or_without_rights_is_refused() {
    needs!(ETCD, ETCDCTL);
    let cluster = Cluster::default();
    cluster.etcd.ctl(&["user", "add", "other:good"]);
    cluster.etcd.enable_authentication("node:good");
    let pools = json!([{"name": "blue", "subnet": "10.0.0.0/24"}]);
    let mut config = cluster.config("n1", &ADDRESSES, &pools);
    config["ipam"]["etcd"]["timeout"] = json!("5s");
    refused(&cluster, &config, 113, "etcd asks for a user");
    let file = cluster.sandbox.root().join("password");
    std::fs::write(&file, "wrong\n").unwrap();
    config["ipam"]["etcd"]["username"] = json!("node");
    config["ipam"]["etcd"]["passwordFile"] = json!(file);
    refused(
        &cluster,
        &config,
        113,
        "etcd refuses ipam.etcd.username with the password",
    );
    std::fs::write(&file, "good\n").unwrap();
    cluster.add("c1", &config).result();
    cluster.del("c1", &config).nothing();
    let mut other = config.clone();
    other["ipam"]["etcd"]["username"] = json!("other");
    refused(&cluster, &other, 113, "permission denied");
    let status = cluster.call("STATUS", "", &other).run().error();
    assert_eq!(status["code"], 50, "{status}");
    config["ipam"]["etcd"]["prefix"] = json!("/elsewhere");
    refused(&cluster, &config, 113, "permission denied");
    std::fs::remove_file(&file).unwrap();
    config["ipam"]["etcd"]["cacheDir"] = json!(cluster.sandbox.root().join("no-token"));
    refused(&cluster, &config, 7, "ipam.etcd.passwordFile: ");
}
