//! Sticky keys that etcd remembers: their number is bounded.

use std::io::Write;
use std::process::{Command, Stdio};

use harness::{ETCD, ETCDCTL, EtcdMember, needs};
use serde_json::json;

use super::Cluster;

/// Most keys that are remembered for a pool.
const MOST: usize = 65_536;

/// Number of keys that are written in one transaction.
const AT_ONCE: usize = 8192;

/// Writes this number of keys; each has the address with the same number.
fn remember(etcd: &EtcdMember, number: usize) {
    for chunk in (0..number).collect::<Vec<_>>().chunks(AT_ONCE) {
        let mut puts = String::from("\n");
        for i in chunk {
            let ip = format!("10.9.{}.{}", i >> 8, i & 255);
            puts += &format!("put /ipam/v1/sticky/lan/keys/old{i} {ip}\n");
            puts += &format!("put /ipam/v1/sticky/lan/addresses/{ip} old{i}\n");
        }
        let mut etcdctl = Command::new(ETCDCTL)
            .args(["--endpoints", &etcd.url(), "txn"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut stdin = etcdctl.stdin.take().unwrap();
        stdin.write_all(format!("{puts}\n\n").as_bytes()).unwrap();
        drop(stdin);
        assert!(etcdctl.wait().unwrap().success());
    }
}

#[test]
fn of_more_sticky_keys_than_65536_the_oldest_are_forgotten() {
    needs!(ETCD, ETCDCTL);
    let etcd = EtcdMember::start(&["--max-txn-ops=20000", "--max-request-bytes=8000000"]);
    let cluster = Cluster::with(etcd);
    remember(&cluster.etcd, MOST);
    let pools = json!([{"name": "lan", "subnet": "10.9.0.0/16", "sticky": "new"}]);
    cluster
        .add("c1", &cluster.config("n1", &["ipam-da-etcd"], &pools))
        .result();
    let keys = cluster.etcd.keys("/ipam/v1/sticky/lan/keys/");
    assert!(keys.contains(&"new".to_owned()));
    // The key that had this address before is forgotten as well.
    assert!(keys.len() <= MOST, "{}", keys.len());

    // An address without a key.
    let pools = json!([{"name": "lan", "subnet": "10.8.0.0/16", "sticky": "newer"}]);
    cluster
        .add("c2", &cluster.config("n1", &["ipam-da-etcd"], &pools))
        .result();
    let keys = cluster.etcd.keys("/ipam/v1/sticky/lan/keys/");
    assert_eq!(keys.len(), MOST);
    assert!(keys.contains(&"newer".to_owned()));
    let gone = (0..MOST)
        .find(|i| !keys.contains(&format!("old{i}")))
        .unwrap();
    assert!(gone < AT_ONCE, "{gone}");
}
