//! The network configuration `web` of the tests of Docker's networks, Docker's calls for it, and
//! the remains of endpoints on a node.

use std::fs;

use crate::{Node, Sandbox};
use serde_json::{Value, json};

/// All calls of Docker's network protocol that dockerd makes here. It makes `DiscoverNew` and
/// `DiscoverDelete` only for drivers with global ConnectivityScope, and only in a swarm or with a
/// cluster store.
pub const CALLS: [&str; 8] = [
    "CreateEndpoint",
    "CreateNetwork",
    "DeleteEndpoint",
    "DeleteNetwork",
    "EndpointOperInfo",
    "GetCapabilities",
    "Join",
    "Leave",
];

/// Configures `web`: a bridge with two families and a default route, and with these further keys
/// and routes.
pub fn configure(sandbox: &Sandbox, more: &Value, routes: &[Value]) {
    let default = json!({"dst": "0.0.0.0/0"});
    let mut ipam = ipam(
        sandbox,
        &json!([[{"subnet": "10.95.0.0/24"}], [{"subnet": "fd00:95::/64"}]]),
    );
    ipam["routes"] = json!([&[default], routes].concat());
    let mut bridge = json!({"type": "bridge", "bridge": "web0", "isGateway": true, "ipam": ipam});
    for (key, value) in more.as_object().into_iter().flatten() {
        bridge[key] = value.clone();
    }
    configure_plugins(sandbox, "web", &[bridge]);
}

/// The `ipam` section of a chain with these ranges, in the sandbox's folders.
pub fn ipam(sandbox: &Sandbox, ranges: &Value) -> Value {
    json!({
        "type": "ipam-delegated",
        "delegates": ["ipam-ds-ranges", "ipam-da-host-local"],
        "ranges": ranges,
        "dataDir": sandbox.data_dir(),
        "stateDir": sandbox.state_dir(),
    })
}

/// Configures a network with these plugins.
pub fn configure_plugins(sandbox: &Sandbox, name: &str, plugins: &[Value]) {
    let list = json!({"cniVersion": "1.0.0", "name": name, "plugins": plugins});
    fs::create_dir_all(sandbox.conf_dir()).unwrap();
    let file = sandbox.conf_dir().join(format!("{name}.conflist"));
    fs::write(file, list.to_string()).unwrap();
}

/// Names of the interfaces and network namespaces of endpoints on a node.
pub fn left(node: &Node) -> Vec<String> {
    let interfaces = node.sh("ip -o link | grep -oE ' (cni|veth)[0-9a-f]*' || true");
    let namespaces = node.sh("ls /run/netns 2>/dev/null | grep docker- || true");
    let all = format!("{interfaces}{namespaces}");
    all.split_whitespace().map(str::to_owned).collect()
}
