//! STATUS is 50 where every ADD is refused, and 0 where one succeeds; a call ends in its time.

use std::time::{Duration, Instant};

use harness::{ETCD, ETCDCTL, EtcdMember, Output, needs};
use serde_json::{Value, json};

use super::Cluster;

const ADDRESSES: [&str; 1] = ["ipam-da-etcd"];
const BLOCKS: [&str; 2] = ["ipam-ds-etcd", "ipam-da-host-local"];

fn status(it: &Cluster, config: &Value) -> Output {
    it.call("STATUS", "", config).run()
}

fn pools(number: usize) -> Value {
    (0..number)
        .map(|i| json!({"name": format!("p{i}"), "subnet": format!("10.7.{i}.0/24")}))
        .collect()
}

/// STATUS is 50 and ADD is refused, both with this text.
#[track_caller]
fn both_refuse(it: &Cluster, config: &Value, text: &str) {
    status(it, config).refused(50, text);
    let add = it.add("refused", config);
    assert!(!add.status.success(), "{add:?}");
    let msg = add.error()["msg"].to_string();
    assert!(msg.contains(text), "{msg}");
}

#[test]
fn status_says_why_every_add_would_be_refused() {
    needs!(ETCD, ETCDCTL);
    let it = Cluster::default();
    it.etcd.put(
        "/ipam/v1/pools/blue",
        r#"{"subnet":"10.0.0.0/24","block":28}"#,
    );
    it.etcd
        .put("/ipam/v1/pools/red", r#"{"subnet":"10.1.0.0/24"}"#);
    let red = it.config("n1", &ADDRESSES, &json!([{"name": "red"}]));
    let blue = it.config("n1", &BLOCKS, &json!([{"name": "blue"}]));
    for config in [&red, &blue] {
        status(&it, config).nothing();
    }
    both_refuse(&it, &it.config("n1", &ADDRESSES, &pools(31)), "31 pools");
    status(&it, &it.config("n1", &ADDRESSES, &pools(30))).nothing();
    let mut wrong = red.clone();
    wrong["ipam"]["resolvConf"] = json!("/nowhere/resolv.conf");
    both_refuse(&it, &wrong, "/nowhere/resolv.conf");
    let mut wrong = red.clone();
    wrong["ipam"]["routes"] = json!([{"dst": "x"}]);
    both_refuse(&it, &wrong, "ipam.routes[0]");
    for config in [&red, &blue] {
        let mut wrong = config.clone();
        wrong["ipam"]["delegates"].as_array_mut().unwrap().remove(0);
        both_refuse(&it, &wrong, "prevResult.pools is missing or empty");
    }
    // Another machine's name.
    it.add("a", &red).result();
    for config in [&red, &blue] {
        let other = it.on_another_disk(config);
        both_refuse(&it, &other, "is the name of another node");
    }
    // Blocks, or addresses, of before.
    it.etcd.put("/ipam/v1/blocks/red/10.1.0.16/28", "{}");
    both_refuse(&it, &red, "is given in blocks");
    it.etcd.ctl(&["del", "/ipam/v1/blocks/red/10.1.0.16/28"]);
    it.etcd.put("/ipam/v1/addresses/blue/10.0.0.9", "{}");
    both_refuse(&it, &blue, "addresses of this pool are given one by one");
    it.etcd.ctl(&["del", "/ipam/v1/addresses/blue/10.0.0.9"]);
    for config in [&red, &blue] {
        status(&it, config).nothing();
    }
}

#[test]
fn status_is_50_while_etcd_has_no_space_or_lets_the_node_not_write() {
    needs!(ETCD, ETCDCTL);
    let mut it = Cluster::with(EtcdMember::start(&["--quota-backend-bytes=1048576"]));
    let red = it.config(
        "n1",
        &ADDRESSES,
        &json!([{"name": "red", "subnet": "10.1.0.0/24"}]),
    );
    it.add("a", &red).result();
    let large = "x".repeat(100_000);
    for i in 0..40 {
        let key = format!("/large/{i}");
        if !it.etcd.try_ctl(&["put", &key, &large]).status.success() {
            break;
        }
    }
    both_refuse(&it, &red, "space");
    it.etcd.kill();
    let it = Cluster::default();
    it.etcd.enable_authentication("node:good");
    let password = it.sandbox.root().join("password");
    std::fs::write(&password, "good").unwrap();
    let mut red = it.config(
        "n1",
        &ADDRESSES,
        &json!([{"name": "red", "subnet": "10.1.0.0/24"}]),
    );
    red["ipam"]["etcd"]["username"] = json!("node");
    red["ipam"]["etcd"]["passwordFile"] = json!(password);
    it.add("a", &red).result();
    for words in [
        &["role", "revoke-permission", "ipam", "/ipam/", "--prefix"][..],
        &[
            "role",
            "grant-permission",
            "ipam",
            "read",
            "/ipam/",
            "--prefix",
        ],
    ] {
        let words = [&["--user", "root:secret"], words].concat();
        it.etcd.ctl(&words);
    }
    both_refuse(&it, &red, "permission denied");
}

#[test]
fn an_address_whose_pool_was_deleted_passes_check() {
    needs!(ETCD, ETCDCTL);
    let it = Cluster::default();
    it.etcd
        .put("/ipam/v1/pools/red", r#"{"subnet":"10.1.0.0/24"}"#);
    let mut config = it.config("n1", &ADDRESSES, &json!([{"name": "red"}]));
    config["prevResult"] = it.add("a", &config).result();
    it.etcd.ctl(&["del", "/ipam/v1/pools/red"]);
    it.call("CHECK", "a", &config).run().nothing();
    let address = it.reserved("red").remove(0);
    it.etcd
        .put(&format!("/ipam/v1/addresses/red/{address}"), "{}");
    assert_eq!(it.call("CHECK", "a", &config).run().code(), 112);
}

/// Time that a call takes.
fn time(call: impl FnOnce() -> Output) -> Duration {
    let started = Instant::now();
    let output = call();
    assert!(!output.status.success(), "{output:?}");
    started.elapsed()
}

#[test]
fn a_call_ends_in_its_time_whatever_the_number_of_pools() {
    needs!(ETCD, ETCDCTL);
    let it = Cluster::default();
    let named: Value = (0..8).map(|i| json!({"name": format!("p{i}")})).collect();
    for i in 0..8 {
        it.etcd.put(
            &format!("/ipam/v1/pools/p{i}"),
            &format!(r#"{{"subnet":"10.7.{i}.0/24","block":28}}"#),
        );
    }
    let mut config = it.config("n1", &BLOCKS, &named);
    config["prevResult"] = json!({"cniVersion": "1.1.0", "ips": [], "pools": named});
    config["cni.dev/valid-attachments"] = json!([]);
    let first = it.sandbox.call("ipam-ds-etcd", "ADD", &config);
    first.container("c").run().result();
    config["ipam"]["etcd"]["timeout"] = json!("1s");
    let call = |command: &str| {
        let call = it.sandbox.call("ipam-ds-etcd", command, &config);
        call.container("c").run()
    };
    std::fs::remove_dir_all(it.sandbox.root().join("n1/cache")).unwrap();
    it.etcd.signal("STOP");
    // Eight times as long, if each pool had the time for itself.
    for command in ["STATUS", "ADD"] {
        let took = time(|| call(command));
        assert!(took < Duration::from_secs(7), "{command}: {took:?}");
    }
    let started = Instant::now();
    call("GC");
    let took = started.elapsed();
    assert!(took < Duration::from_secs(7), "GC: {took:?}");
    it.etcd.signal("CONT");
}
