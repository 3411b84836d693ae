//! Cases after a restore in which a node can't claim everything again: an ADD is running, networks
//! name etcd by different endpoints, a conflist is damaged, a block is being claimed.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use harness::{ETCD, ETCDCTL, Output, needs};
use serde_json::{Value, json};

use super::{ADDRESSES, BLOCKS, Cluster};
use crate::waiting::wait_until_equal;

fn cluster(pool: &str) -> Cluster {
    let cluster = Cluster::default();
    cluster.etcd.put("/ipam/v1/pools/lan", pool);
    cluster
}

fn config(cluster: &Cluster, allocators: &[&str]) -> Value {
    cluster.config("n1", allocators, &json!([{"name": "lan"}]))
}

fn snapshot(cluster: &Cluster) -> PathBuf {
    let file = cluster.sandbox.root().join("snapshot");
    cluster
        .etcd
        .ctl(&["snapshot", "save", file.to_str().unwrap()]);
    file
}

fn reconcile(cluster: &Cluster, words: &[&str]) -> Output {
    let words = [&["reconcile"], words].concat();
    cluster.sandbox.ipamctl(&words).run()
}

/// The nodes with a mark: they have not run `ipamctl reconcile` yet.
fn marks(cluster: &Cluster) -> Vec<String> {
    cluster.etcd.keys("/ipam/v1/reconcile/")
}

#[track_caller]
fn has_not_said_everything(cluster: &Cluster, output: &Output, reason: &str) {
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(output.stderr.contains(reason), "{output:?}");
    assert_eq!(marks(cluster), ["n1"]);
}

/// Waits until a process has written a file.
fn appears(file: &Path) {
    for _ in 0..3000 {
        if file.exists() {
            return;
        }
        sleep(Duration::from_millis(10));
    }
    panic!("{} isn't there after 30 s", file.display());
}

#[test]
fn an_add_that_has_its_answer_of_before_the_restore_is_waited_for() {
    needs!(ETCD, ETCDCTL);
    let mut cluster = cluster(r#"{"subnet":"10.55.0.0/29","rangeEnd":"10.55.0.2"}"#);
    let config = config(&cluster, &ADDRESSES);
    cluster.sandbox.write_conflist("10-lan.conflist", &config);
    cluster.call("STATUS", "", &config).run().nothing();
    let file = snapshot(&cluster);
    // The allocator has its answer, but has not ended.
    let plugin = cluster.sandbox.plugins().join("ipam-da-etcd");
    let real = fs::canonicalize(&plugin).unwrap();
    let [held, go] = ["held", "go"].map(|name| cluster.sandbox.root().join(name));
    cluster.sandbox.write_executable(
        "ipam-da-etcd",
        &format!(
            "#!/bin/sh\nanswer=$({}); status=$?\n: > {held}\nwhile [ ! -e {go} ]; do sleep 0.02; done\nprintf %s \"$answer\"; exit $status\n",
            real.display(),
            held = held.display(),
            go = go.display(),
        ),
    );
    let slow = cluster.call("ADD", "a", &config).start();
    appears(&held);
    cluster.etcd.restore(&file);
    assert_eq!(cluster.reserved("lan"), Vec::<String>::new());
    assert!(reconcile(&cluster, &["--begin", "n1"]).status.success());
    let output = reconcile(&cluster, &[]);
    has_not_said_everything(&cluster, &output, "its ADD is running");
    let waiting = cluster.sandbox.ipamctl(&["reconcile"]).start();
    // By now, `ipamctl` waits for the running ADD.
    sleep(Duration::from_millis(500));
    fs::write(&go, "").unwrap();
    let ips = slow.output().ips();
    let output = waiting.output();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(cluster.reserved("lan"), ips);
    assert_eq!(cluster.add("b", &config).code(), 11);
}

#[test]
fn a_conflict_that_goes_away_is_waited_for_after_the_running_calls() {
    needs!(ETCD, ETCDCTL);
    let mut cluster = cluster(r#"{"subnet":"10.55.0.0/29","rangeEnd":"10.55.0.3"}"#);
    let config = config(&cluster, &ADDRESSES);
    cluster.sandbox.write_conflist("10-lan.conflist", &config);
    let of_dead = cluster.add("dead", &config).ips();
    let file = snapshot(&cluster);
    cluster.add("other", &config).result();
    cluster.del("dead", &config).nothing();
    assert_eq!(cluster.add("alive", &config).ips(), of_dead);
    cluster.etcd.restore(&file);
    assert!(reconcile(&cluster, &["--begin", "n1"]).status.success());
    // Holds the lock like a call that runs longer than it is waited for.
    let record = cluster
        .sandbox
        .root()
        .join("n1/state/testnet/other:eth0.json");
    let record = fs::File::open(record).unwrap();
    record.lock().unwrap();
    let waiting = cluster.sandbox.ipamctl(&["reconcile"]).start();
    let both = ["10.55.0.2", "10.55.0.3"];
    wait_until_equal(|| cluster.reserved("lan"), both);
    cluster.del("dead", &config).nothing();
    let output = waiting.output();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(cluster.reserved("lan"), both);
}

#[test]
fn what_a_network_with_other_endpoints_of_the_same_etcd_holds_is_claimed_again() {
    needs!(ETCD, ETCDCTL);
    let mut cluster = cluster(r#"{"subnet":"10.55.0.0/29"}"#);
    let one = config(&cluster, &ADDRESSES);
    let mut two = one.clone();
    two["name"] = json!("second");
    let url = cluster.etcd.url().replace("127.0.0.1", "localhost");
    two["ipam"]["etcd"]["endpoints"] = json!([url]);
    cluster.sandbox.write_conflist("10-one.conflist", &one);
    cluster.sandbox.write_conflist("20-two.conflist", &two);
    cluster.add("a", &one).result();
    let file = snapshot(&cluster);
    cluster.add("b", &two).result();
    let before = cluster.reserved("lan");
    cluster.etcd.restore(&file);
    let words = ["--network", "testnet"];
    let begun = reconcile(&cluster, &[&words[..], &["--begin", "n1"]].concat());
    assert!(begun.status.success(), "{begun:?}");
    let output = reconcile(&cluster, &words);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(cluster.reserved("lan"), before);
}

#[test]
fn a_network_of_an_etcd_that_cannot_be_asked_keeps_the_mark() {
    needs!(ETCD, ETCDCTL);
    let cluster = cluster(r#"{"subnet":"10.55.0.0/29"}"#);
    let one = config(&cluster, &ADDRESSES);
    let mut two = one.clone();
    two["name"] = json!("second");
    let url = cluster.etcd.url().replace("127.0.0.1", "localhost");
    two["ipam"]["etcd"]["endpoints"] = json!([url]);
    cluster.sandbox.write_conflist("10-one.conflist", &one);
    cluster.add("b", &two).result();
    let record = cluster.sandbox.root().join("n1/state/second/b:eth0.json");
    let content = fs::read_to_string(&record).unwrap();
    fs::write(&record, content.replace(&url, "http://127.0.0.1:1")).unwrap();
    assert!(reconcile(&cluster, &["--begin", "n1"]).status.success());
    let output = reconcile(&cluster, &[]);
    has_not_said_everything(
        &cluster,
        &output,
        "it isn't known whether it is of this etcd",
    );
    fs::write(&record, content).unwrap();
    assert!(reconcile(&cluster, &[]).status.success());
    assert_eq!(marks(&cluster), Vec::<String>::new());
}

#[test]
fn a_conflist_that_cannot_be_read_keeps_the_mark() {
    needs!(ETCD, ETCDCTL);
    let cluster = cluster(r#"{"subnet":"10.55.0.0/29"}"#);
    let one = config(&cluster, &ADDRESSES);
    cluster.sandbox.write_conflist("10-one.conflist", &one);
    assert!(reconcile(&cluster, &["--begin", "n1"]).status.success());
    cluster.sandbox.write_conf("20-two.conflist", "{\"name\": ");
    let output = reconcile(&cluster, &[]);
    has_not_said_everything(&cluster, &output, "20-two.conflist");
    fs::remove_file(cluster.sandbox.conf_dir().join("20-two.conflist")).unwrap();
    assert!(reconcile(&cluster, &[]).status.success());
}

#[test]
fn a_block_that_is_being_claimed_is_waited_for() {
    needs!(ETCD, ETCDCTL);
    let cluster = cluster(r#"{"subnet":"10.55.0.0/29","block":30}"#);
    let mut config = config(&cluster, &BLOCKS);
    cluster.add("a", &config).result();
    cluster.sandbox.write_conflist("10-lan.conflist", &config);
    assert!(reconcile(&cluster, &["--begin", "n1"]).status.success());
    config["ipam"]["etcd"]["timeout"] = json!("1s");
    cluster.sandbox.write_conflist("10-lan.conflist", &config);
    // Holds the lock like a process that is claiming.
    let lock = cluster.sandbox.root().join("n1/engine-state/blocks/lock");
    let lock = fs::File::open(lock).unwrap();
    lock.lock().unwrap();
    let output = reconcile(&cluster, &[]);
    lock.unlock().unwrap();
    has_not_said_everything(&cluster, &output, "is claiming a block");
    config["ipam"]["etcd"]["timeout"] = json!("10s");
    cluster.sandbox.write_conflist("10-lan.conflist", &config);
    assert!(reconcile(&cluster, &[]).status.success());
}
