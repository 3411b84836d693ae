//! Objects of our kinds, and answers of kubectl.

use std::process::Output;

use serde_json::{Value, json};

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
