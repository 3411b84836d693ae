//! Several members, of which one is away or silent, and members that move.

use harness::{ETCD, ETCDCTL, EtcdMember, needs};
use serde_json::json;

use super::Cluster;
use crate::pool_cluster::PoolCluster;

/// A container has an address; then etcd moves to other URLs, and the settings follow.
#[test]
fn an_endpoint_that_moves_under_running_containers_is_found_by_their_del() {
    needs!(ETCD, ETCDCTL);
    let mut cluster = Cluster::default();
    let pools = json!([{"name": "blue", "subnet": "10.0.0.0/29"}]);
    let config = cluster.config("n1", &pools);
    cluster.add("c1", &config).result();
    cluster.etcd.move_to_other_ports();
    let impatient = json!({"endpoints": ["http://127.0.0.1:9"], "timeout": "500ms"});
    cluster.settings("n1", &impatient);
    assert_eq!(cluster.del("c1", &config).code(), 11);
    cluster.settings("n1", &json!({"endpoints": [cluster.etcd.url()]}));
    cluster.del("c1", &config).nothing();
    assert_eq!(cluster.addresses(), Vec::<String>::new());
}

/// A stopped process accepts connections, and answers nothing: half of the time is waited for it, and
/// then another endpoint is asked. Of three, two lead to the living member.
#[test]
fn a_member_that_is_silent_or_gone_fails_no_call() {
    needs!(ETCD, ETCDCTL);
    let cluster = Cluster::default();
    let config = cluster.config("n1", &json!([{"name": "blue", "subnet": "10.0.0.0/24"}]));
    let silent = EtcdMember::default();
    silent.signal("STOP");
    let living = cluster.etcd.url();
    let again = living.replace("127.0.0.1", "localhost");
    for (number, other) in [&silent.url(), "http://127.0.0.1:9"].iter().enumerate() {
        let settings = json!({"endpoints": [other, &living, &again], "timeout": "20s"});
        cluster.settings("n1", &settings);
        for call in 0..2 {
            let container = format!("c{number}-{call}");
            cluster.add(&container, &config).result();
            cluster.del(&container, &config).nothing();
        }
    }
    silent.signal("CONT");
    assert_eq!(cluster.addresses(), Vec::<String>::new());
}
