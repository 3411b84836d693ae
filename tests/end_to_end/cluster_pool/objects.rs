//! Objects as plugins write them, and checks of `kubectl`'s outcomes.

use std::net::{IpAddr, Ipv4Addr};
use std::process::Output;

use harness::KubernetesApi;
use serde_json::{Value, json};

/// The service account of the nodes.
pub(super) const NODES: &str = "ipam-delegated";

/// An object of a kind.
pub(super) fn object(kind: &str, name: &str, spec: &Value) -> Value {
    let mut labels = json!({});
    for key in ["pool", "node"] {
        if let (Some(value), true) = (spec.get(key), kind != "IPAMNode") {
            labels[format!("ipam-delegated.io/{key}")] = value.clone();
        }
    }
    if let ("Address", Some(Ok(ip))) = (kind, spec["ip"].as_str().map(str::parse)) {
        labels["ipam-delegated.io/prefix"] = prefix(ip).into();
    }
    json!({
        "apiVersion": "ipam-delegated.io/v1",
        "kind": kind,
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
    })
}

/// The /24 or /64 of an address, as a label has it.
fn prefix(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => format!("{}-24", Ipv4Addr::from(ip.to_bits() & !0xff)),
        IpAddr::V6(ip) => {
            let [a, b, c, d, ..] = ip.segments();
            format!("{a:x}-{b:x}-{c:x}-{d:x}-0-0-0-0-64")
        }
    }
}

/// A definition of a pool.
pub(super) fn pool(name: &str, spec: &Value) -> Value {
    object("Pool", name, spec)
}

/// An IPv4 address of the pool `lan`, held by container `c1` of a node.
pub(super) fn address(ip: &str, node: &str) -> Value {
    let spec = json!({
        "pool": "lan", "ip": ip, "node": node, "network": "storage", "containerID": "c1",
        "ifname": "net1", "since": "2026-11-21T14:38:21.800225123Z", "call": "1",
        "podNamespace": "shop", "podName": "web-0",
    });
    object("Address", &format!("lan.{ip}"), &spec)
}

/// A block of the pool `fast`, of a node.
pub(super) fn block(cidr: &str, node: &str) -> Value {
    let spec = json!({"pool": "fast", "cidr": cidr, "node": node, "since": "2026-11-21T14:38:21Z"});
    object("Block", &format!("fast.{}", cidr.replace('/', "-")), &spec)
}

/// The registration of a node.
pub(super) fn registration(node: &str, incarnation: &str) -> Value {
    let spec = json!({
        "token": "1", "incarnation": incarnation, "host": node, "hardware": null, "boot": "1",
        "since": "2026-11-21T14:38:21Z",
    });
    object("IPAMNode", node, &spec)
}

/// A mark.
pub(super) fn mark(name: &str) -> Value {
    object("Restore", name, &json!({"since": "2026-11-21T14:38:21Z"}))
}

/// Path of an object for `kubectl`: `addresses/lan.10.0.0.5`.
pub(super) fn path(object: &Value) -> String {
    let kind = object["kind"].as_str().unwrap();
    let name = object["metadata"]["name"].as_str().unwrap();
    format!("{kind}.ipam-delegated.io/{name}")
}

/// Requires success.
#[track_caller]
pub(super) fn allowed(output: &Output) {
    assert!(output.status.success(), "{output:?}");
}

/// Requires a refusal with this text.
#[track_caller]
pub(super) fn refused(output: &Output, text: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.contains(text),
        "{text}\n{said}"
    );
}

/// Creates an object as the administrator; requires a refusal with this text.
#[track_caller]
pub(super) fn invalid(api: &KubernetesApi, object: &Value, text: &str) {
    refused(&api.try_create(&api.kubeconfig(), object), text);
}
