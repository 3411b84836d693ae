//! A node of a cluster with any engine: a name and separate folders.

use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use harness::{Call, Flavour, Output, Sandbox};
use serde_json::{Value, json};

/// The network of all nodes.
pub(crate) const NETWORK: &str = "testnet";

/// The pools of all nodes.
pub(crate) const POOLS: [&str; 2] = ["blue", "green"];

/// A node. Its chain chooses pools by `ipam-ds-static`.
pub(crate) struct ClusterNode {
    pub(crate) name: String,
    pub(crate) sandbox: Sandbox,
    /// The keys of `ipam` except for the delegates and the pools.
    ipam: Value,
    allocator: &'static str,
    /// Each caller holds it for reading.
    calls: RwLock<()>,
}

impl ClusterNode {
    /// This number of nodes with this allocator behind `ipam-ds-static`. `keys` returns the keys of
    /// `ipam` by which a node reaches the engine within a time.
    pub(crate) fn several(
        count: usize,
        allocator: &'static str,
        keys: impl Fn(&str, &str) -> Value,
    ) -> Vec<Self> {
        let node = |number| {
            let name = format!("node-{number}");
            // Callers try again soon. A call must not last longer than the fault that it meets.
            let mut ipam = keys(&name, "2s");
            ipam["node"] = json!(name);
            Self {
                ipam,
                name,
                sandbox: Sandbox::default().with_network_plugins(Flavour::Normal),
                allocator,
                calls: RwLock::default(),
            }
        };
        (0..count).map(node).collect()
    }

    /// The configuration for an address of each of these pools.
    pub(crate) fn config(&self, pools: &[&str]) -> Value {
        let mut ipam = self.ipam.clone();
        ipam["pools"] = pools.iter().map(|name| json!({"name": name})).collect();
        let delegates = ["ipam-ds-static", self.allocator];
        let mut config = self.sandbox.config("1.1.0", &delegates, &ipam);
        config["name"] = json!(NETWORK);
        config
    }

    pub(crate) fn call(&self, command: &str, container: &str, pools: &[&str]) -> Call {
        let config = self.config(pools);
        let call = self.sandbox.call("ipam-delegated", command, &config);
        call.container(container)
    }

    /// A caller holds this from before its call until the outcome is in the history.
    pub(crate) fn calling(&self) -> RwLockReadGuard<'_, ()> {
        self.calls.read().unwrap()
    }

    /// Waits until no call runs on the node, and prevents calls until this is dropped.
    pub(crate) fn between_calls(&self) -> RwLockWriteGuard<'_, ()> {
        self.calls.write().unwrap()
    }

    /// The attachment's name in the whole cluster.
    pub(crate) fn attachment(&self, container: &str) -> String {
        format!("{}/{NETWORK}/{container}:eth0", self.name)
    }

    /// The containers of this node among these attachments.
    pub(crate) fn containers_of(&self, attachments: &[String]) -> Vec<String> {
        let below = format!("{}/{NETWORK}/", self.name);
        let of_node = attachments
            .iter()
            .filter_map(|attachment| attachment.strip_prefix(&below));
        of_node
            .map(|container| container.replace(":eth0", ""))
            .collect()
    }

    /// GC with these containers as the valid ones.
    pub(crate) fn collect(&self, valid: &[String]) -> Output {
        let mut config = self.config(&POOLS);
        let valid = valid.iter();
        let valid = valid.map(|container| json!({"containerID": container, "ifname": "eth0"}));
        config["cni.dev/valid-attachments"] = valid.collect();
        self.sandbox.call("ipam-delegated", "GC", &config).run()
    }
}
