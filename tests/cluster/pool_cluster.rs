//! A cluster with pools in any engine: what the promises use.

use std::fs;

use harness::{Call, Output, Sandbox};
use serde_json::{Value, json};

/// A promise with its name.
pub(crate) type Promise = (&'static str, fn(&mut dyn PoolCluster));

/// A sandbox with an engine, and nodes that share its pools.
pub(crate) trait PoolCluster: Sync {
    /// The sandbox of all nodes.
    fn sandbox(&self) -> &Sandbox;

    /// The allocator, such as `ipam-da-etcd`.
    fn allocator(&self) -> &'static str;

    /// The keys of `ipam` by which a node reaches the engine within a time, such as `10s`.
    fn keys(&self, node: &str, timeout: &str) -> Value;

    /// Writes a definition.
    fn define(&self, pool: &str, definition: &Value);

    /// Deletes a definition.
    fn undefine(&self, pool: &str);

    /// All addresses, sorted, with their attachments: `10.0.0.5 NODE/NETWORK/CONTAINER:IFNAME`.
    fn addresses(&self) -> Vec<String>;

    /// Options of `ipamctl` that give it an administrator's rights.
    fn administrator(&self) -> Vec<String>;

    /// Deletes an address, as no rule does.
    fn lose(&self, ip: &str);

    /// Stops the engine: its clients can't connect.
    fn stop(&mut self);

    /// Starts the engine again, with its data.
    fn start(&mut self);

    /// A configuration of a chain on a node, with these pools of `ipam-ds-static`.
    fn config(&self, node: &str, pools: &Value) -> Value {
        self.config_within(node, pools, "60s")
    }

    /// As [`Self::config`], with this time limit of a call.
    fn config_within(&self, node: &str, pools: &Value, timeout: &str) -> Value {
        let mut ipam = self.keys(node, timeout);
        ipam["pools"] = pools.clone();
        ipam["node"] = json!(node);
        ipam["stateDir"] = json!(self.sandbox().root().join(node).join("state"));
        let delegates = ["ipam-ds-static", self.allocator()];
        self.sandbox().config("1.1.0", &delegates, &ipam)
    }

    /// A call of the chain for a container.
    fn call(&self, command: &str, container: &str, config: &Value) -> Call {
        let call = self.sandbox().call("ipam-delegated", command, config);
        call.container(container)
    }

    fn add(&self, container: &str, config: &Value) -> Output {
        self.call("ADD", container, config).run()
    }

    fn del(&self, container: &str, config: &Value) -> Output {
        self.call("DEL", container, config).run()
    }

    /// A call of `ipamctl` with the records of a node, and the sandbox's conflists.
    fn ipamctl(&self, node: &str, words: &[&str]) -> Call {
        let sandbox = self.sandbox();
        fs::create_dir_all(sandbox.conf_dir()).unwrap();
        let of_node = sandbox.root().join(node).join("state");
        let mut line = sandbox.ipamctl_line();
        for word in &mut line {
            if *word == sandbox.state_dir() {
                word.clone_from(&of_node);
            }
        }
        Call::new(line[0].clone()).args(&line[1..]).args(words)
    }

    /// Runs `ipamctl` on a node with an administrator's rights.
    fn as_administrator(&self, node: &str, words: &[&str]) -> Output {
        let call = self.ipamctl(node, words);
        call.args(self.administrator()).run()
    }

    /// A call of the allocator without the chain and its record, with the configuration's pools as
    /// the selector's choice.
    fn alone(&self, command: &str, container: &str, config: &Value) -> Call {
        let mut config = config.clone();
        if config["prevResult"].is_null() {
            let pools = &config["ipam"]["pools"];
            config["prevResult"] = json!({"cniVersion": "1.1.0", "ips": [], "pools": pools});
        }
        let call = self.sandbox().call(self.allocator(), command, &config);
        match command {
            "GC" | "STATUS" => call,
            _ => call.container(container),
        }
    }
}

/// The promises of a file, by the names of their functions.
macro_rules! promises {
    ($($promise:ident,)+) => {
        /// All promises of this file.
        pub(crate) const PROMISES: &[crate::pool_cluster::Promise] =
            &[$((stringify!($promise), $promise)),+];
    };
}

pub(crate) use promises;
