//! A cluster with pools in any engine: the operations that the promises use.
//!
//! A promise is a function of a cluster. For etcd, each is a test. Those for Kubernetes' API run
//! one after the other, because its server takes ten seconds to start.

use harness::{Call, Output, Sandbox};
use serde_json::{Value, json};

/// A promise with its name.
pub(crate) type Promise = (&'static str, fn(&mut dyn PoolCluster));

/// A sandbox with an engine, and nodes that share its pools.
pub(crate) trait PoolCluster: Sync {
    /// The sandbox of all nodes.
    fn sandbox(&self) -> &Sandbox;

    /// Name of the engine, as in the names of its plugins and its key of `ipam`.
    fn engine(&self) -> &'static str;

    /// The engine's object in the `ipam` section of a node, without its folders.
    fn engine_keys(&self, node: &str) -> Value;

    /// The same configuration with the rights of an administrator.
    fn as_administrator(&self, config: &Value) -> Value;

    /// Writes a definition, without comparing it with held addresses.
    fn define(&self, pool: &str, definition: &Value);

    /// Deletes a definition.
    fn undefine(&self, pool: &str);

    /// All definitions, by name.
    fn defined(&self) -> Vec<(String, Value)>;

    /// Name of a definition in messages.
    fn path_of_pool(&self, pool: &str) -> String;

    /// The reserved addresses of a pool, sorted.
    fn reserved(&self, pool: &str) -> Vec<String>;

    /// The addresses that nodes hold, as `NODE/NETWORK/CONTAINER:IFNAME/POOL/IP`, sorted.
    fn held(&self) -> Vec<String>;

    /// The holder of a reserved address.
    fn holder(&self, pool: &str, ip: &str) -> Value;

    /// The claimed blocks of a pool, sorted.
    fn blocks(&self, pool: &str) -> Vec<String>;

    /// The blocks of a pool that a node has claimed.
    fn blocks_of(&self, pool: &str, node: &str) -> Vec<String>;

    /// Changes the owner of a claimed block.
    fn move_block(&self, pool: &str, block: &str, node: &str);

    /// Deletes all blocks of a pool.
    fn lose_blocks(&self, pool: &str);

    /// The registration of a node.
    fn registration(&self, node: &str) -> String;

    /// Writes a registration over the node's.
    fn set_registration(&self, node: &str, registration: &str);

    /// Deletes the registrations of all nodes.
    fn lose_registrations(&self);

    /// The nodes that have not run `ipamctl reconcile`.
    fn marks(&self) -> Vec<String>;

    /// Number of the sticky keys of a pool.
    fn sticky_keys(&self, pool: &str) -> usize;

    /// Stops the engine: its clients can't connect.
    fn stop(&mut self);

    /// Starts the engine again, with its data.
    fn start(&mut self);

    /// Saves the engine's state, for [`Self::restore`].
    fn save(&mut self);

    /// Increases the engine's revision by more than a restart does.
    fn advance(&self);

    /// Sets the engine back to the state that was saved last.
    fn restore(&mut self);
}

impl dyn PoolCluster + '_ {
    /// The allocator of single addresses.
    pub(crate) fn allocator(&self) -> &'static str {
        match self.engine() {
            "etcd" => "ipam-da-etcd",
            _ => "ipam-da-kubernetes",
        }
    }

    /// The selector of blocks.
    pub(crate) fn selector(&self) -> &'static str {
        match self.engine() {
            "etcd" => "ipam-ds-etcd",
            _ => "ipam-ds-kubernetes",
        }
    }

    /// Delegates of a network whose addresses are reserved one by one.
    pub(crate) fn addresses(&self) -> Vec<&'static str> {
        vec![self.allocator()]
    }

    /// Delegates of a network with blocks.
    pub(crate) fn in_blocks(&self) -> Vec<&'static str> {
        vec![self.selector(), "ipam-da-host-local"]
    }

    /// A configuration of a chain on a node, with these pools of `ipam-ds-static`.
    pub(crate) fn config(&self, node: &str, allocators: &[&str], pools: &Value) -> Value {
        self.config_on(node, node, allocators, pools)
    }

    /// As [`Self::config`], on a machine whose folders have this name.
    pub(crate) fn config_on(
        &self,
        machine: &str,
        node: &str,
        allocators: &[&str],
        pools: &Value,
    ) -> Value {
        let folder = self.sandbox().root().join(machine);
        let mut keys = self.engine_keys(node);
        keys["timeout"] = json!("60s");
        keys["cacheDir"] = json!(folder.join("cache"));
        keys["stateDir"] = json!(folder.join("engine-state"));
        let mut delegates = vec!["ipam-ds-static"];
        delegates.extend(allocators);
        let mut ipam = json!({
            "pools": pools,
            "node": node,
            "dataDir": folder.join("networks"),
            "stateDir": folder.join("state"),
        });
        ipam[self.engine()] = keys;
        self.sandbox().config("1.1.0", &delegates, &ipam)
    }

    /// The same configuration with another `timeout`.
    pub(crate) fn within(&self, timeout: &str, config: &Value) -> Value {
        let mut other = config.clone();
        other["ipam"][self.engine()]["timeout"] = json!(timeout);
        other
    }

    /// The same configuration on another disk, as of another machine with the same name.
    pub(crate) fn on_another_disk(&self, config: &Value) -> Value {
        let mut other = config.clone();
        other["ipam"][self.engine()]["stateDir"] = json!(self.sandbox().root().join("other-disk"));
        other
    }

    /// A call of the chain for a container.
    pub(crate) fn call(&self, command: &str, container: &str, config: &Value) -> Call {
        let call = self.sandbox().call("ipam-delegated", command, config);
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

    /// Runs `ipamctl` with only this configuration.
    pub(crate) fn ipamctl(&self, config: &Value, words: &[&str]) -> Output {
        self.sandbox().write_conflist("10-pools.conflist", config);
        self.sandbox().ipamctl(words).run()
    }

    /// A call of a single plugin, with the configuration's pools as the selector's choice. (The
    /// chain would release by its records.) For GC, no attachment is valid.
    pub(crate) fn alone(
        &self,
        plugin: &str,
        command: &str,
        container: &str,
        config: &Value,
    ) -> Output {
        let mut config = config.clone();
        config["prevResult"] = json!({"cniVersion": "1.1.0", "ips": [],
            "pools": config["ipam"]["pools"]});
        config["cni.dev/valid-attachments"] = json!([]);
        let call = self.sandbox().call(plugin, command, &config);
        match command {
            "GC" => call.run(),
            _ => call.container(container).run(),
        }
    }
}

/// Makes a test of each promise for etcd, and a list of the promises for other engines.
macro_rules! promises {
    ($($name:ident),* $(,)?) => {
        mod etcd {
            use harness::{ETCD, ETCDCTL, needs};

            $(
                #[test]
                fn $name() {
                    needs!(ETCD, ETCDCTL);
                    super::$name(&mut crate::cluster::Cluster::default());
                }
            )*
        }

        /// The promises of this subject.
        pub(crate) const PROMISES: &[crate::cluster::pool_cluster::Promise] =
            &[$((stringify!($name), $name)),*];
    };
}
pub(crate) use promises;
