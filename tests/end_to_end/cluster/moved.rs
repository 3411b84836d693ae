//! The conflist changes to another etcd while containers have addresses from the former one.

use harness::{ETCD, ETCDCTL, EtcdMember, needs};
use serde_json::json;

use super::Cluster;

#[test]
fn a_del_that_could_not_ask_the_recorded_etcd_fails_and_keeps_the_record() {
    needs!(ETCD, ETCDCTL);
    let mut cluster = Cluster::default();
    let definition = r#"{"subnet":"10.55.0.0/24"}"#;
    cluster.etcd.put("/ipam/v1/pools/lan", definition);
    let config = cluster.config("n1", &["ipam-da-etcd"], &json!([{"name": "lan"}]));
    cluster.add("a", &config).result();
    let record = cluster.sandbox.root().join("n1/state/testnet/a:eth0.json");
    assert!(record.exists());

    let other = EtcdMember::default();
    other.put("/ipam/v1/pools/lan", definition);
    let mut today = config.clone();
    today["ipam"]["etcd"]["endpoints"] = json!([other.url()]);
    cluster.etcd.kill();
    let del = cluster.del("a", &today);
    assert_eq!(del.code(), 11, "{del:?}");
    assert!(record.exists());

    // The former etcd was only away for a while.
    cluster.etcd.restart();
    assert_eq!(cluster.held().len(), 1);
    cluster.del("a", &today).nothing();
    assert!(!record.exists());
    assert_eq!(cluster.held(), Vec::<String>::new());
    assert_eq!(cluster.reserved("lan"), Vec::<String>::new());
}
