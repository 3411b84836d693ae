//! Calls an allocator in this process, on several nodes. Each call makes a separate connection,
//! like a plugin's process.

use anyhow::{Result, anyhow, ensure};
use cni::Environment;
use harness::answer_of;
use serde_json::{Value, json};

use super::target::Target;

/// The allocator, with the configuration of a cluster.
pub(crate) struct Allocator<'a> {
    target: &'a dyn Target,
    /// One for each node, without a pool.
    configs: Vec<Value>,
}

impl<'a> Allocator<'a> {
    pub(crate) fn new(target: &'a dyn Target) -> Result<Self> {
        let config = |node: usize| -> Result<Value> {
            let mut ipam = target.ipam(&format!("bench-node-{}", node + 1))?;
            ipam["type"] = target.words().allocator.into();
            Ok(json!({"cniVersion": "1.0.0", "name": "bench", "type": "bridge", "ipam": ipam}))
        };
        let configs = (0..target.nodes()).map(config).collect::<Result<_>>()?;
        Ok(Self { target, configs })
    }

    /// The configuration of a node for an address of this pool, with the selector's result. `node`
    /// counts on through all nodes.
    pub(crate) fn config(&self, pool: &str, node: usize) -> Value {
        let mut config = self.configs[node % self.configs.len()].clone();
        config["prevResult"] = json!({ "cniVersion": "1.0.0", "pools": [{ "name": pool }] });
        config
    }

    /// ADD on a node; returns the address.
    pub(crate) fn add(&self, pool: &str, node: usize, container: &str) -> Result<String> {
        let answer = self.call("ADD", pool, node, container)?;
        let ips = answer_of(&serde_json::from_slice(&answer)?);
        ips.into_iter()
            .next()
            .ok_or_else(|| anyhow!("ADD gave no address"))
    }

    /// DEL on a node.
    pub(crate) fn del(&self, pool: &str, node: usize, container: &str) -> Result<()> {
        self.call("DEL", pool, node, container).map(|_| ())
    }

    fn call(&self, command: &str, pool: &str, node: usize, container: &str) -> Result<Vec<u8>> {
        let environment = Environment::default()
            .with("CNI_COMMAND", command)
            .with("CNI_CONTAINERID", container)
            .with("CNI_NETNS", "/run/netns/none")
            .with("CNI_IFNAME", "eth0")
            .with("CNI_PATH", "/nowhere");
        let stdin = serde_json::to_vec(&self.config(pool, node))?;
        let mut stdin = || Ok(stdin.clone());
        let output = plugin::respond(self.target.allocator(), &environment, &mut stdin, None);
        let said = String::from_utf8_lossy(&output.stdout);
        ensure!(output.success, "{command} of {container}: {said}");
        Ok(output.stdout)
    }
}
