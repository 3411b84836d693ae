//! Pools of a cluster with one member of etcd. Promises that hold for other engines as well are
//! functions of a [`pool_cluster::PoolCluster`].

pub(crate) mod allocator;
mod attacked;
mod bad_days;
pub(crate) mod blocks;
mod clock;
pub(crate) mod conflicts;
mod etcd_cluster;
pub(crate) mod faults;
pub(crate) mod files;
pub(crate) mod identity;
pub(crate) mod import;
mod injected;
mod ipamctl;
pub(crate) mod killed;
mod many_pools;
mod moved;
mod not_etcd;
pub(crate) mod pool_cluster;
pub(crate) mod reconcile;
mod redefined;
mod restored_meanwhile;
mod rights;
mod secrets;
mod status;
mod sticky;
mod tls;

use harness::{Call, EtcdMember, Flavour, Form, Output, Sandbox};
use serde_json::{Value, json};

/// Delegates after the selector, for addresses that are reserved one by one.
pub(crate) const ADDRESSES: [&str; 1] = ["ipam-da-etcd"];

/// Delegates after the selector, for blocks.
pub(crate) const BLOCKS: [&str; 2] = ["ipam-ds-etcd", "ipam-da-host-local"];

/// A sandbox with a member, and nodes that share its pools.
pub(crate) struct Cluster {
    pub(crate) sandbox: Sandbox,
    pub(crate) etcd: EtcdMember,
}

impl Default for Cluster {
    fn default() -> Self {
        Self::with(EtcdMember::default())
    }
}

impl Cluster {
    pub(crate) fn with(etcd: EtcdMember) -> Self {
        Self::in_form(Flavour::Normal, Form::of_this_run(), etcd)
    }

    pub(crate) fn in_form(flavour: Flavour, form: Form, etcd: EtcdMember) -> Self {
        let sandbox = Sandbox::in_form(flavour, form).with_network_plugins(flavour);
        Self { sandbox, etcd }
    }

    /// `ipam.etcd` of a node, with separate folders.
    pub(crate) fn etcd_keys(&self, node: &str) -> Value {
        let folder = self.sandbox.root().join(node);
        json!({
            "endpoints": [self.etcd.url()],
            "timeout": "10s",
            "cacheDir": folder.join("cache"),
            "stateDir": folder.join("engine-state"),
        })
    }

    /// A configuration of a chain on a node, with these pools of `ipam-ds-static` and further
    /// keys of `ipam`.
    pub(crate) fn config(&self, node: &str, allocators: &[&str], pools: &Value) -> Value {
        let folder = self.sandbox.root().join(node);
        let mut delegates = vec!["ipam-ds-static"];
        delegates.extend(allocators);
        self.sandbox.config(
            "1.1.0",
            &delegates,
            &json!({
                "pools": pools,
                "etcd": self.etcd_keys(node),
                "node": node,
                "dataDir": folder.join("networks"),
                "stateDir": folder.join("state"),
            }),
        )
    }

    /// The same configuration on another disk, as of another machine with the same name.
    pub(crate) fn on_another_disk(&self, config: &Value) -> Value {
        let mut other = config.clone();
        other["ipam"]["etcd"]["stateDir"] = json!(self.sandbox.root().join("other-disk"));
        other
    }

    /// A call of the chain for a container.
    pub(crate) fn call(&self, command: &str, container: &str, config: &Value) -> Call {
        let call = self.sandbox.call("ipam-delegated", command, config);
        call.container(container)
    }

    pub(crate) fn add(&self, container: &str, config: &Value) -> Output {
        self.call("ADD", container, config).run()
    }

    pub(crate) fn del(&self, container: &str, config: &Value) -> Output {
        self.call("DEL", container, config).run()
    }

    /// GC with these containers' interfaces as the valid ones.
    pub(crate) fn gc(&self, valid: &[&str], config: &Value) -> Output {
        let valid = valid
            .iter()
            .map(|id| json!({"containerID": id, "ifname": "eth0"}));
        let mut config = config.clone();
        config["cni.dev/valid-attachments"] = valid.collect();
        self.call("GC", "", &config).run()
    }

    /// The reserved addresses of a pool.
    pub(crate) fn reserved(&self, pool: &str) -> Vec<String> {
        self.etcd.keys(&format!("/ipam/v1/addresses/{pool}/"))
    }

    /// The keys below `held`: addresses by node and attachment.
    pub(crate) fn held(&self) -> Vec<String> {
        self.etcd.keys("/ipam/v1/nodes/")
    }
}
