//! Objects of our kinds, and answers of kubectl.

use std::process::Output;
use std::sync::mpsc::channel;

use harness::{ApiProxy, Fate, ProxiedRequest};
use serde_json::{Value, json};

use super::Cluster;
use crate::pool_cluster::PoolCluster;

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "ipam-delegated.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    })
}

pub(super) fn pool(name: &str, definition: &Value) -> Value {
    object("Pool", name, definition)
}

/// An address of the pool `lan` that this node holds.
pub(super) fn address(name: &str, ip: &str, node: &str) -> Value {
    let spec = json!({
        "ip": ip, "pool": "lan", "node": node, "network": "storage",
        "containerID": "c1", "ifname": "net1", "since": "2026-11-21T14:38:21Z",
        "namespace": "shop", "pod": "web-0",
    });
    let mut address = object("Address", name, &spec);
    address["metadata"]["labels"] = json!({"ipam-delegated.io/node": node});
    address
}

/// An address of the pool `lan` that belongs to this owner.
pub(super) fn of_owner(ip: &str, owner: &str) -> Value {
    let spec = json!({
        "ip": ip, "pool": "lan", "owner": owner, "place": 0, "network": "storage",
        "ifname": "net1", "since": "2026-11-21T14:38:21Z",
    });
    object("Address", ip, &spec)
}

#[track_caller]
pub(super) fn allowed(output: &Output) {
    assert!(output.status.success(), "{output:?}");
}

/// Asserts that kubectl was refused with this text.
#[track_caller]
pub(super) fn refused(output: &Output, text: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{output:?}");
    assert!(stderr.contains(text), "{text:?} isn't in {stderr}");
}

/// Runs the collector with an administrator's rights through a proxy; `change` is made when its second
/// look begins.
pub(super) fn collect_between_looks(cluster: &Cluster, change: impl FnOnce()) -> harness::Output {
    let proxy = ApiProxy::start(&cluster.api);
    let (first_look, looked) = channel();
    let (go_on, wait) = channel::<()>();
    let mut looks = 0;
    proxy.decide(move |request: &ProxiedRequest| {
        if request.path.starts_with("/api/v1/nodes") {
            looks += 1;
            if looks == 2 {
                first_look.send(()).unwrap();
                wait.recv().unwrap();
            }
        }
        Fate::Answered
    });
    let kubeconfig = proxy.kubeconfig_like(&cluster.api, &cluster.api.kubeconfig());
    let words = ["node-forget", "--deleted", "--yes", "--between-looks=100ms"];
    let kubeconfig = ["--kubeconfig", kubeconfig.to_str().unwrap()];
    let running = cluster.ipamctl("n1", &[&words[..], &kubeconfig].concat());
    let running = running.start();
    looked.recv().unwrap();
    change();
    go_on.send(()).unwrap();
    let output = running.output();
    output.ends(0);
    output
}
