//! STATUS fails with 50 if every ADD is refused, and succeeds otherwise; a call ends within its
//! timeout.

use std::time::{Duration, Instant};

use harness::{ETCD, ETCDCTL, EtcdMember, Output, needs};
use serde_json::{Value, json};

use super::{ADDRESSES, BLOCKS, Cluster};

fn status(cluster: &Cluster, config: &Value) -> Output {
    cluster.call("STATUS", "", config).run()
}

fn pools(number: usize) -> Value {
    (0..number)
        .map(|i| json!({"name": format!("p{i}"), "subnet": format!("10.7.{i}.0/24")}))
        .collect()
}

/// Checks that STATUS fails with 50, that ADD is refused, and that both have this text.
#[track_caller]
fn both_refuse(cluster: &Cluster, config: &Value, text: &str) {
    status(cluster, config).refused(50, text);
    let add = cluster.add("refused", config);
    assert!(!add.status.success(), "{add:?}");
    let msg = add.error()["msg"].to_string();
    assert!(msg.contains(text), "{msg}");
}

#[test]
fn status_names_the_reason_for_which_every_add_would_be_refused() {
    needs!(ETCD, ETCDCTL);
    let cluster = Cluster::default();
    cluster.etcd.put(
        "/ipam/v1/pools/blue",
        r#"{"subnet":"10.0.0.0/24","block":28}"#,
    );
    cluster
        .etcd
        .put("/ipam/v1/pools/red", r#"{"subnet":"10.1.0.0/24"}"#);
    let red = cluster.config("n1", &ADDRESSES, &json!([{"name": "red"}]));
    let blue = cluster.config("n1", &BLOCKS, &json!([{"name": "blue"}]));
    for config in [&red, &blue] {
        status(&cluster, config).nothing();
    }
    both_refuse(
        &cluster,
        &cluster.config("n1", &ADDRESSES, &pools(31)),
        "31 pools",
    );
    status(&cluster, &cluster.config("n1", &ADDRESSES, &pools(30))).nothing();
    let mut wrong = red.clone();
    wrong["ipam"]["resolvConf"] = json!("/nowhere/resolv.conf");
    both_refuse(&cluster, &wrong, "/nowhere/resolv.conf");
    let mut wrong = red.clone();
    wrong["ipam"]["routes"] = json!([{"dst": "x"}]);
    both_refuse(&cluster, &wrong, "ipam.routes[0]");
    for config in [&red, &blue] {
        let mut wrong = config.clone();
        wrong["ipam"]["delegates"].as_array_mut().unwrap().remove(0);
        both_refuse(&cluster, &wrong, "prevResult.pools is missing or empty");
    }
    // The node's name belongs to another machine.
    cluster.add("a", &red).result();
    for config in [&red, &blue] {
        let other = cluster.on_another_disk(config);
        both_refuse(&cluster, &other, "is the name of another node");
    }
    // Blocks or addresses from before a change of the definition.
    cluster.etcd.put("/ipam/v1/blocks/red/10.1.0.16/28", "{}");
    both_refuse(&cluster, &red, "is given in blocks");
    cluster
        .etcd
        .ctl(&["del", "/ipam/v1/blocks/red/10.1.0.16/28"]);
    cluster.etcd.put("/ipam/v1/addresses/blue/10.0.0.9", "{}");
    both_refuse(
        &cluster,
        &blue,
        "addresses of this pool are given one by one",
    );
    cluster
        .etcd
        .ctl(&["del", "/ipam/v1/addresses/blue/10.0.0.9"]);
    for config in [&red, &blue] {
        status(&cluster, config).nothing();
    }
}

#[test]
fn status_is_50_while_etcd_has_no_space_or_lets_the_node_not_write() {
    needs!(ETCD, ETCDCTL);
    let mut cluster = Cluster::with(EtcdMember::start(&["--quota-backend-bytes=1048576"]));
    let red = cluster.config(
        "n1",
        &ADDRESSES,
        &json!([{"name": "red", "subnet": "10.1.0.0/24"}]),
    );
    cluster.add("a", &red).result();
    let large = "x".repeat(100_000);
    for i in 0..40 {
        let key = format!("/large/{i}");
        if !cluster
            .etcd
            .try_ctl(&["put", &key, &large])
            .status
            .success()
        {
            break;
        }
    }
    both_refuse(&cluster, &red, "space");
    cluster.etcd.kill();
    let cluster = Cluster::default();
    cluster.etcd.enable_authentication("node:good");
    let password = cluster.sandbox.root().join("password");
    std::fs::write(&password, "good").unwrap();
    let mut red = cluster.config(
        "n1",
        &ADDRESSES,
        &json!([{"name": "red", "subnet": "10.1.0.0/24"}]),
    );
    red["ipam"]["etcd"]["username"] = json!("node");
    red["ipam"]["etcd"]["passwordFile"] = json!(password);
    cluster.add("a", &red).result();
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
        cluster.etcd.ctl(&words);
    }
    both_refuse(&cluster, &red, "permission denied");
}

#[test]
fn an_address_whose_pool_was_deleted_passes_check() {
    needs!(ETCD, ETCDCTL);
    let cluster = Cluster::default();
    cluster
        .etcd
        .put("/ipam/v1/pools/red", r#"{"subnet":"10.1.0.0/24"}"#);
    let mut config = cluster.config("n1", &ADDRESSES, &json!([{"name": "red"}]));
    config["prevResult"] = cluster.add("a", &config).result();
    cluster.etcd.ctl(&["del", "/ipam/v1/pools/red"]);
    cluster.call("CHECK", "a", &config).run().nothing();
    let address = cluster.reserved("red").remove(0);
    cluster
        .etcd
        .put(&format!("/ipam/v1/addresses/red/{address}"), "{}");
    assert_eq!(cluster.call("CHECK", "a", &config).run().code(), 112);
}

/// Duration of a call.
fn time(call: impl FnOnce() -> Output) -> Duration {
    let started = Instant::now();
    let output = call();
    assert!(!output.status.success(), "{output:?}");
    started.elapsed()
}

#[test]
fn a_call_ends_in_its_time_whatever_the_number_of_pools() {
    needs!(ETCD, ETCDCTL);
    let cluster = Cluster::default();
    let named: Value = (0..8).map(|i| json!({"name": format!("p{i}")})).collect();
    for i in 0..8 {
        cluster.etcd.put(
            &format!("/ipam/v1/pools/p{i}"),
            &format!(r#"{{"subnet":"10.7.{i}.0/24","block":28}}"#),
        );
    }
    let mut config = cluster.config("n1", &BLOCKS, &named);
    config["prevResult"] = json!({"cniVersion": "1.1.0", "ips": [], "pools": named});
    config["cni.dev/valid-attachments"] = json!([]);
    let first = cluster.sandbox.call("ipam-ds-etcd", "ADD", &config);
    first.container("c").run().result();
    config["ipam"]["etcd"]["timeout"] = json!("1s");
    let call = |command: &str| {
        let call = cluster.sandbox.call("ipam-ds-etcd", command, &config);
        call.container("c").run()
    };
    std::fs::remove_dir_all(cluster.sandbox.root().join("n1/cache")).unwrap();
    cluster.etcd.signal("STOP");
    // If the time limit were for each pool, it would take eight times as long.
    for command in ["STATUS", "ADD"] {
        let took = time(|| call(command));
        assert!(took < Duration::from_secs(7), "{command}: {took:?}");
    }
    let started = Instant::now();
    call("GC");
    let took = started.elapsed();
    assert!(took < Duration::from_secs(7), "GC: {took:?}");
    cluster.etcd.signal("CONT");
}
