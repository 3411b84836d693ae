//! An import of more pools than etcd accepts in one transaction.

use harness::{ETCD, ETCDCTL, EtcdMember, Output, needs};
use serde_json::{Map, Value, json};

use super::Cluster;

/// A cluster with a conflist for `ipamctl`.
fn cluster(etcd: EtcdMember) -> Cluster {
    let cluster = Cluster::with(etcd);
    let config = cluster.config("n1", &["ipam-da-etcd"], &json!([{"name": "lan"}]));
    cluster.sandbox.write_conflist("10-lan.conflist", &config);
    cluster
}

/// Imports this number of pools.
fn import(cluster: &Cluster, number: usize) -> Output {
    let pool = |i: usize| {
        let subnet = format!("10.{}.{}.0/24", 100 + i / 256, i % 256);
        (format!("p{i}"), json!({"subnet": subnet}))
    };
    let pools = Value::Object((0..number).map(pool).collect::<Map<_, _>>());
    let file = cluster.sandbox.root().join("pools.json");
    std::fs::write(&file, pools.to_string()).unwrap();
    let words = ["import", file.to_str().unwrap()];
    cluster.sandbox.ipamctl(&words).run()
}

fn defined(cluster: &Cluster) -> usize {
    cluster.etcd.keys("/ipam/v1/pools/").len()
}

#[test]
fn more_pools_than_etcd_takes_at_once_are_not_written_in_part() {
    needs!(ETCD, ETCDCTL);
    let smaller = cluster(EtcdMember::default());
    let refused = import(&smaller, 300);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    for why in ["nothing is written", "--max-txn-ops"] {
        assert!(refused.stderr.contains(why), "{why}: {refused:?}");
    }
    assert_eq!(defined(&smaller), 0);
    assert!(import(&smaller, 128).status.success());
    assert_eq!(defined(&smaller), 128);
    let larger = cluster(EtcdMember::start(&["--max-txn-ops=1000"]));
    assert!(import(&larger, 300).status.success());
    assert_eq!(defined(&larger), 300);
}
