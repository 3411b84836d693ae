//! A node that can't say everything after a restore: an ADD is under way, networks name etcd by
//! different endpoints, a conflist is damaged, a block is being claimed.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use harness::{ETCD, ETCDCTL, Output, needs};
use serde_json::{Value, json};

use super::Cluster;

const ADDRESSES: [&str; 1] = ["ipam-da-etcd"];
const BLOCKS: [&str; 2] = ["ipam-ds-etcd", "ipam-da-host-local"];

fn cluster(pool: &str) -> Cluster {
    let it = Cluster::default();
    it.etcd.put("/ipam/v1/pools/lan", pool);
    it
}

fn config(it: &Cluster, allocators: &[&str]) -> Value {
    it.config("n1", allocators, &json!([{"name": "lan"}]))
}

fn snapshot(it: &Cluster) -> PathBuf {
    let file = it.sandbox.root().join("snapshot");
    it.etcd.ctl(&["snapshot", "save", file.to_str().unwrap()]);
    file
}

fn reconcile(it: &Cluster, words: &[&str]) -> Output {
    let words = [&["reconcile"], words].concat();
    it.sandbox.ipamctl(&words).run()
}

/// The marks of nodes that have not said what lives there.
fn marks(it: &Cluster) -> Vec<String> {
    it.etcd.keys("/ipam/v1/reconcile/")
}

#[track_caller]
fn has_not_said_everything(it: &Cluster, output: &Output, reason: &str) {
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(output.stderr.contains(reason), "{output:?}");
    assert_eq!(marks(it), ["n1"]);
}

/// Waits for a file that a process writes.
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
    let mut it = cluster(r#"{"subnet":"10.55.0.0/29","rangeEnd":"10.55.0.2"}"#);
    let config = config(&it, &ADDRESSES);
    it.sandbox.write_conflist("10-lan.conflist", &config);
    it.call("STATUS", "", &config).run().nothing();
    let file = snapshot(&it);
    // The allocator has its answer, and has not ended.
    let plugin = it.sandbox.plugins().join("ipam-da-etcd");
    let real = fs::canonicalize(&plugin).unwrap();
    let [held, go] = ["held", "go"].map(|name| it.sandbox.root().join(name));
    it.sandbox.write_executable(
        "ipam-da-etcd",
        &format!(
            "#!/bin/sh\nanswer=$({}); status=$?\n: > {held}\nwhile [ ! -e {go} ]; do sleep 0.02; done\nprintf %s \"$answer\"; exit $status\n",
            real.display(),
            held = held.display(),
            go = go.display(),
        ),
    );
    let slow = it.call("ADD", "a", &config).start();
    appears(&held);
    it.etcd.restore(&file);
    assert_eq!(it.reserved("lan"), Vec::<String>::new());
    assert!(reconcile(&it, &["--begin", "n1"]).status.success());
    let output = reconcile(&it, &[]);
    has_not_said_everything(&it, &output, "its ADD is running");
    fs::write(&go, "").unwrap();
    let ips = slow.output().ips();
    let output = reconcile(&it, &[]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(it.reserved("lan"), ips);
    assert_eq!(it.add("b", &config).code(), 11);
}

#[test]
fn what_a_network_with_other_endpoints_of_the_same_etcd_holds_is_claimed_again() {
    needs!(ETCD, ETCDCTL);
    let mut it = cluster(r#"{"subnet":"10.55.0.0/29"}"#);
    let one = config(&it, &ADDRESSES);
    let mut two = one.clone();
    two["name"] = json!("second");
    let url = it.etcd.url().replace("127.0.0.1", "localhost");
    two["ipam"]["etcd"]["endpoints"] = json!([url]);
    it.sandbox.write_conflist("10-one.conflist", &one);
    it.sandbox.write_conflist("20-two.conflist", &two);
    it.add("a", &one).result();
    let file = snapshot(&it);
    it.add("b", &two).result();
    let before = it.reserved("lan");
    it.etcd.restore(&file);
    let words = ["--network", "testnet"];
    let begun = reconcile(&it, &[&words[..], &["--begin", "n1"]].concat());
    assert!(begun.status.success(), "{begun:?}");
    let output = reconcile(&it, &words);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(it.reserved("lan"), before);
}

#[test]
fn a_network_of_an_etcd_that_cannot_be_asked_keeps_the_mark() {
    needs!(ETCD, ETCDCTL);
    let it = cluster(r#"{"subnet":"10.55.0.0/29"}"#);
    let one = config(&it, &ADDRESSES);
    let mut two = one.clone();
    two["name"] = json!("second");
    let url = it.etcd.url().replace("127.0.0.1", "localhost");
    two["ipam"]["etcd"]["endpoints"] = json!([url]);
    it.sandbox.write_conflist("10-one.conflist", &one);
    it.add("b", &two).result();
    let record = it.sandbox.root().join("n1/state/second/b:eth0.json");
    let content = fs::read_to_string(&record).unwrap();
    fs::write(&record, content.replace(&url, "http://127.0.0.1:1")).unwrap();
    assert!(reconcile(&it, &["--begin", "n1"]).status.success());
    let output = reconcile(&it, &[]);
    has_not_said_everything(&it, &output, "it isn't known whether it is of this etcd");
    fs::write(&record, content).unwrap();
    assert!(reconcile(&it, &[]).status.success());
    assert_eq!(marks(&it), Vec::<String>::new());
}

#[test]
fn a_conflist_that_cannot_be_read_keeps_the_mark() {
    needs!(ETCD, ETCDCTL);
    let it = cluster(r#"{"subnet":"10.55.0.0/29"}"#);
    let one = config(&it, &ADDRESSES);
    it.sandbox.write_conflist("10-one.conflist", &one);
    assert!(reconcile(&it, &["--begin", "n1"]).status.success());
    it.sandbox.write_conf("20-two.conflist", "{\"name\": ");
    let output = reconcile(&it, &[]);
    has_not_said_everything(&it, &output, "20-two.conflist");
    fs::remove_file(it.sandbox.conf_dir().join("20-two.conflist")).unwrap();
    assert!(reconcile(&it, &[]).status.success());
}

#[test]
fn a_block_that_is_being_claimed_is_waited_for() {
    needs!(ETCD, ETCDCTL);
    let it = cluster(r#"{"subnet":"10.55.0.0/29","block":30}"#);
    let mut config = config(&it, &BLOCKS);
    it.add("a", &config).result();
    it.sandbox.write_conflist("10-lan.conflist", &config);
    assert!(reconcile(&it, &["--begin", "n1"]).status.success());
    config["ipam"]["etcd"]["timeout"] = json!("1s");
    it.sandbox.write_conflist("10-lan.conflist", &config);
    // As a process does that claims.
    let folder = fs::File::open(it.sandbox.root().join("n1/etcd-state/blocks")).unwrap();
    folder.lock().unwrap();
    let output = reconcile(&it, &[]);
    folder.unlock().unwrap();
    has_not_said_everything(&it, &output, "is claiming a block");
    config["ipam"]["etcd"]["timeout"] = json!("10s");
    it.sandbox.write_conflist("10-lan.conflist", &config);
    assert!(reconcile(&it, &[]).status.success());
}
