//! The commands of docs/operations.md on a node of a cluster whose pool has no address left.

use std::fs;
use std::time::{Duration, SystemTime};

use harness::{ETCD, ETCDCTL, make_old, needs, replay};
use serde_json::{Value, json};

use super::Cluster;
use crate::pool_cluster::PoolCluster;

/// The container that is gone.
const LOST: &str = "5e11c0ffee0a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c";

#[test]
fn a_full_pool_of_a_cluster_is_walked_to_its_leak() {
    needs!(ETCD, ETCDCTL);
    let cluster = Cluster::default();
    let sandbox = cluster.sandbox();
    cluster.define("blue", &json!({"subnet": "10.0.0.0/29"}));
    let config = |node: &str, ip: u8| {
        let requested = format!("10.0.0.{ip}");
        let pool = json!({"name": "blue", "subnet": "10.0.0.0/29", "requested-ip": requested});
        let mut config = cluster.config(node, &json!([pool]));
        config["name"] = json!("tenants");
        config
    };
    let netns = sandbox.root().join("netns/cni-9c04");
    fs::create_dir(netns.parent().unwrap()).unwrap();
    fs::write(&netns, "").unwrap();
    for (ip, container, node) in [
        (2, "a2", "n1"),
        (3, "a3", "n2"),
        (4, LOST, "n1"),
        (5, "a5", "n2"),
        (6, "a6", "n1"),
    ] {
        let add = cluster.call("ADD", container, &config(node, ip));
        let pod = "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=db-0";
        let netns = match container {
            LOST => netns.to_str().unwrap(),
            // A namespace that isn't the host's own network namespace.
            _ => "/proc/self/ns/uts",
        };
        add.env("CNI_ARGS", pod)
            .env("CNI_NETNS", netns)
            .run()
            .result();
        let record = format!("{node}/state/tenants/{container}:eth0.json");
        make_old(&sandbox.root().join(record), 50);
    }
    fs::remove_file(&netns).unwrap();
    let addresses = "/ipam/v1/addresses/";
    for (ip, value) in cluster.etcd.values(addresses) {
        let mut holder: Value = serde_json::from_str(&value).unwrap();
        let then = SystemTime::now() - Duration::from_secs(50 * 3_600 + 60);
        holder["since"] = json!(humantime::format_rfc3339_seconds(then).to_string());
        cluster
            .etcd
            .put(&format!("{addresses}{ip}"), &holder.to_string());
    }
    sandbox.write_conflist("10-tenants.conflist", &config("n1", 2));
    let (page, section) = ("docs/operations.md", "### Of a cluster's pool");
    assert_eq!(replay(page, section, sandbox, "", |_| {}), 3);
    assert_eq!(cluster.addresses().len(), 4);
}
