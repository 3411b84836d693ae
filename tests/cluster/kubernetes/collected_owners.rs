//! Owners whose objects come and go: `ipamctl leaks` and the collector's `node-forget --deleted`.

use std::path::Path;

use harness::{
    KUBECTL, KUBERNETES_PROGRAMS, Output, kind_of_virtual_machines, needs, virtual_machine,
};
use serde_json::{Value, json};

use super::Cluster;
use super::objects::{collect_between_looks, of_owner};
use crate::pool_cluster::PoolCluster;

const MACHINES: &str = "/apis/kubevirt.io/v1/namespaces/prod/virtualmachines";

fn object(api_version: &str, kind: &str, name: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}})
}

fn in_prod(api_version: &str, kind: &str, name: &str) -> Value {
    let mut object = object(api_version, kind, name);
    object["metadata"]["namespace"] = json!("prod");
    object
}

/// A pod with this address, or with one that Multus reports.
fn put_pod(cluster: &Cluster, name: &str, ip: Option<&str>, reported: &str) {
    let mut pod = in_prod("v1", "Pod", name);
    pod["metadata"]["annotations"] = json!({"k8s.v1.cni.cncf.io/network-status": reported});
    pod["spec"] = json!({
        "nodeName": "n1", "automountServiceAccountToken": false,
        "containers": [{"name": "c", "image": "none"}],
    });
    let pods = "/api/v1/namespaces/prod/pods";
    let mut created = cluster.api.succeed("POST", pods, &pod);
    if let Some(ip) = ip {
        created["status"] = json!({"podIP": ip, "podIPs": [{"ip": ip}]});
        let status = format!("{pods}/{name}/status");
        cluster.api.succeed("PUT", &status, &created);
    }
}

fn ips(lines: &[String]) -> Vec<&str> {
    let ips = lines.iter().filter_map(|line| line.split(' ').next());
    ips.collect()
}

fn forget(cluster: &dyn PoolCluster, kubeconfig: &Path) -> Output {
    let words = ["node-forget", "--deleted", "--yes", "--between-looks=10ms"];
    let kubeconfig = ["--kubeconfig", kubeconfig.to_str().unwrap()];
    cluster
        .ipamctl("n1", &[&words[..], &kubeconfig].concat())
        .run()
}

#[test]
fn an_owners_address_is_released_if_its_object_is_gone_at_both_looks_and_no_pod_names_it() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let cluster = Cluster::default();
    cluster.api.apply(&json!([
        object("v1", "Namespace", "prod"),
        object("v1", "Node", "n1"),
        kind_of_virtual_machines(),
    ]));
    cluster
        .api
        .apply(&in_prod("v1", "ServiceAccount", "default"));
    cluster.api.wait_for("the kind", || {
        cluster
            .api
            .request("GET", MACHINES, &Value::Null)
            .is_success()
    });
    cluster.api.apply(&virtual_machine("prod", "there"));
    put_pod(&cluster, "p", None, "");
    put_pod(&cluster, "virt-launcher-ip-x7", Some("10.0.0.14"), "");
    let reported = r#"[{"name":"lan","interface":"net1","ips":["10.0.0.15"]}]"#;
    put_pod(&cluster, "virt-launcher-net-x7", None, reported);
    let of = |last: u8, owner: &str| of_owner(&format!("10.0.0.{last}"), owner);
    let of_vm = |last, name: &str| of(last, &format!("virtualmachines.kubevirt.io/prod/{name}"));
    cluster.api.apply(&json!([
        of_vm(11, "there"),
        of_vm(12, "gone"),
        of_vm(13, "comes-back"),
        of_vm(14, "named-by-its-pod"),
        of_vm(15, "named-by-multus"),
        of(16, "pods/prod/p"),
        of(17, "pods/prod/gone/eth0"),
        of(18, "things.example.org/prod/x"),
        of(19, "things.kubevirt.io/prod/x"),
        of(20, "a text"),
    ]));
    let all = cluster.addresses();
    // A person sees them.
    let leaks = cluster.as_administrator("n1", &["leaks", "--json"]);
    leaks.ends(1);
    let rows = leaks.json();
    let leaked = rows.as_array().unwrap().iter().map(|row| {
        assert_eq!(row["evidence"], json!(["owner-gone"]), "{row}");
        row["addresses"][0].as_str().unwrap().to_owned()
    });
    let mut leaked: Vec<String> = leaked.collect();
    leaked.sort();
    let named = "virtualmachines.kubevirt.io/prod/gone is gone";
    leaks.prints([named]);
    assert_eq!(leaked, ["10.0.0.12", "10.0.0.13", "10.0.0.17"]);
    // Without the rights, nothing is known.
    let binding = [
        "create",
        "clusterrolebinding",
        "operators",
        "--user=operator",
    ];
    let role = "--clusterrole=ipam-delegated-collector";
    cluster
        .api
        .apply_folder("docs/kubernetes-cluster-pool/collector");
    cluster.api.kubectl(&[&binding[..], &[role]].concat());
    let operator = cluster.api.kubeconfig_of_user("operator");
    cluster.api.wait_for("the rights", || {
        let get = cluster
            .api
            .kubectl_with(&operator, &["get", "ipaddr,nodes"]);
        get.status.success()
    });
    let kept = forget(&cluster, &operator);
    kept.failed(0, ["10.0.0.12 is kept"]);
    assert_eq!(cluster.addresses(), all);
    // An object comes back between the looks.
    let released = collect_between_looks(&cluster, || {
        cluster.api.apply(&virtual_machine("prod", "comes-back"));
    });
    for unknown in ["10.0.0.18", "10.0.0.19", "10.0.0.20"] {
        let text = format!("{unknown} is kept");
        released.warns([&text]);
    }
    let left = cluster.addresses();
    let kept = [11, 13, 14, 15, 16, 18, 19, 20].map(|last| format!("10.0.0.{last}"));
    assert_eq!(ips(&left), kept, "{released:?}");
}
