//! What `ipamctl` does with a person's kubeconfig, and with the installed one.

use std::fs;
use std::path::PathBuf;

use harness::{KUBECTL, KUBERNETES_PROGRAMS, KubernetesApi, needs};
use serde_json::{Value, json};

use super::Cluster;
use super::objects::{address, collect_between_looks};
use crate::pool_cluster::PoolCluster;

const NODES: &str = "/api/v1/nodes";

#[test]
fn an_administrator_sees_and_changes_what_all_nodes_hold() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let mut cluster = Cluster::default();
    cluster.define("lan", &json!({"subnet": "10.0.0.0/24"}));
    what_is_released_is_printed_before_what_failed(&cluster);
    a_pool_that_no_schema_refuses_is_found(&cluster);
    of_deleted_nodes_only_what_the_first_look_saw_is_released(&cluster);
    a_kubeconfig_of_a_person_may_execute(&cluster);
    a_list_of_containers_is_of_one_node(&cluster);
    the_installed_kubeconfig_leads_to_the_cluster(&cluster);
    a_restored_api_server_is_reconciled_with_a_persons_rights(&mut cluster);
}

fn text(path: &std::path::Path) -> &str {
    path.to_str().unwrap()
}

fn put_node(cluster: &Cluster, name: &str) {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
    cluster.api.succeed("POST", NODES, &node);
}

fn of_deleted_nodes_only_what_the_first_look_saw_is_released(cluster: &Cluster) {
    for node in ["n1", "n2"] {
        put_node(cluster, node);
    }
    cluster.api.apply(&json!([
        address("10.0.0.2", "10.0.0.2", "n1"),
        address("10.0.0.3", "10.0.0.3", "gone"),
        address("10.0.0.4", "10.0.0.4", "comes-back"),
    ]));
    let before = cluster.addresses();
    let listed = cluster.as_administrator("n1", &["ls", "--json"]).result();
    assert_eq!(listed.as_array().map(Vec::len), Some(before.len()));
    let shown = cluster.as_administrator("n1", &["node-forget", "--deleted"]);
    shown.ends(1).prints(["10.0.0.3", "10.0.0.4"]);
    assert_eq!(cluster.addresses(), before);

    let output = collect_between_looks(cluster, || {
        put_node(cluster, "comes-back");
        cluster.api.apply(&address("10.0.0.5", "10.0.0.5", "gone"));
    });
    let ips = cluster.addresses();
    let ips: Vec<&str> = ips
        .iter()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert_eq!(ips, ["10.0.0.2", "10.0.0.4", "10.0.0.5"], "{output:?}");
    cluster.api.kubectl(&["delete", "ipaddr", "--all"]);
}

fn what_is_released_is_printed_before_what_failed(cluster: &Cluster) {
    let mut kept = address("10.0.0.3", "10.0.0.3", "gone");
    kept["metadata"]["finalizers"] = json!(["example.org/audit"]);
    let forget = |more: &[&str]| {
        cluster.api.apply(&json!([
            address("10.0.0.2", "10.0.0.2", "gone"),
            kept,
            address("10.0.0.4", "10.0.0.4", "gone"),
        ]));
        let words = [&["node-forget", "gone", "--yes"], more].concat();
        let output = cluster.as_administrator("n1", &words);
        output.failed(2, ["example.org/audit"]);
        output.stdout
    };
    let lines = forget(&[]);
    let released = |ip: &str| lines.contains(&format!("released: {ip}, reserved to c1"));
    assert!(released("10.0.0.2") && released("10.0.0.4") && !released("10.0.0.3"));
    let rows: Value = serde_json::from_str(&forget(&["--json"])).unwrap();
    let ips: Vec<&Value> = rows
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["address"])
        .collect();
    assert_eq!(ips, ["10.0.0.2", "10.0.0.4"]);
    let free = r#"{"metadata":{"finalizers":null}}"#;
    cluster
        .api
        .kubectl(&["patch", "ipaddr", "10.0.0.3", "--type=merge", "-p", free]);
}

fn a_pool_that_no_schema_refuses_is_found(cluster: &Cluster) {
    let check = || cluster.as_administrator("n1", &["check"]);
    check().ends(0);
    let reversed = json!({
        "subnet": "10.0.0.0/24", "rangeStart": "10.0.0.9", "rangeEnd": "10.0.0.3"});
    cluster.define("reversed", &reversed);
    let found = check();
    found.ends(1).prints(["pools.ipam-delegated.io/reversed"]);
    cluster.api.kubectl(&["delete", "ipool", "reversed"]);
}

fn a_kubeconfig_of_a_person_may_execute(cluster: &Cluster) {
    let original = fs::read(cluster.api.kubeconfig()).unwrap();
    let mut content: Value = serde_json::from_slice(&original).unwrap();
    let token = content["users"][0]["user"]["token"].take();
    let credential = json!({
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": token},
    });
    content["users"][0]["user"] = json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "/bin/echo",
        "args": [credential.to_string()],
        "interactiveMode": "Never",
    }});
    let file = cluster.sandbox.root().join("exec.kubeconfig");
    fs::write(&file, content.to_string()).unwrap();
    let words = ["pools", "--json", "--kubeconfig", text(&file)];
    let pools = cluster.ipamctl("n1", &words).run().result();
    assert_eq!(pools[0]["pool"], "lan");
}

fn a_list_of_containers_is_of_one_node(cluster: &Cluster) {
    let kubeconfig = cluster.api.kubeconfig();
    for command in ["leaks", "gc"] {
        let words = [command, "--valid", "-", "--kubeconfig", text(&kubeconfig)];
        let output = cluster.ipamctl("n1", &words).stdin("c1\n").run();
        output.failed(2, ["without --kubeconfig"]);
    }
}

/// The kubeconfig of a node as its installer writes it, among the conflists.
fn install_kubeconfig(cluster: &Cluster, node: &str) -> PathBuf {
    let mut content: Value =
        serde_json::from_slice(&fs::read(cluster.kubeconfig(node)).unwrap()).unwrap();
    content["contexts"][0]["context"]["extensions"] =
        json!([{"name": "ipam-delegated.io", "extension": {"node": node}}]);
    let file = cluster.sandbox.conf_dir().join("ipam-delegated.kubeconfig");
    fs::write(&file, content.to_string()).unwrap();
    file
}

/// With Multus, and without a record.
fn the_installed_kubeconfig_leads_to_the_cluster(cluster: &Cluster) {
    cluster.api.apply(&json!([
        address("10.0.0.2", "10.0.0.2", "n1"),
        address("10.0.0.3", "10.0.0.3", "n2"),
    ]));
    let file = install_kubeconfig(cluster, "n1");
    let words = ["leaks", "--valid", "-", "--yes", "--older-than", "0s"];
    let leaks = cluster.ipamctl("n1", &words).stdin("c9\n").run();
    leaks.ends(1);
    assert!(leaks.stdout.contains("10.0.0.2") && !leaks.stdout.contains("10.0.0.3"));
    let release = cluster.ipamctl("n1", &["release", "10.0.0.2"]).run();
    release.ends(0);
    assert_eq!(cluster.addresses(), ["10.0.0.3 n2/storage/c1:net1"]);
    fs::remove_file(file).unwrap();
    cluster.api.kubectl(&["delete", "ipaddr", "--all"]);
}

/// etcd is set back. The node's token may be of a pod that the older state doesn't know.
fn a_restored_api_server_is_reconciled_with_a_persons_rights(cluster: &mut Cluster) {
    let config = cluster.config("n1", &json!([{"name": "lan"}]));
    cluster.add("stale", &config).result();
    cluster.api.control_plane.snapshot();
    let lost = cluster.add("lost", &config).ips();
    cluster.del("stale", &config).nothing();
    let node_file = cluster.kubeconfig("n1");
    cluster.api.control_plane.restore();
    let known = cluster.addresses();
    assert!(known[0].contains("stale") && known.len() == 1, "{known:?}");
    fs::write(node_file, "{}").unwrap();
    let refused = cluster.as_administrator("n1", &["reconcile"]);
    refused.warns(["--node is missing"]);
    let output = cluster.as_administrator("n1", &["reconcile", "--node", "n1"]);
    output.ends(0);
    let again = format!("{} n1/testnet/lost:eth0", lost[0]);
    assert!(cluster.addresses().contains(&again), "{output:?}");
    let path = KubernetesApi::path("addresses", &lost[0]);
    let object = cluster.api.succeed("GET", &path, &Value::Null);
    let labels = &object["metadata"]["labels"];
    assert_eq!(labels["ipam-delegated.io/node"], "n1");
}
