//! Calls of `ipam-da-etcd` in this process, and bare puts. Each makes a connection of its
//! own, as a plugin's process does.

use anyhow::{Result, anyhow, ensure};
use cni::Environment;
use harness::answer_of;
use ipam_da_etcd::IpamDaEtcd;
use serde_json::{Value, json};

use super::target::Target;

/// The plugin with a cluster's configuration.
pub(crate) struct Allocator<'a> {
    target: &'a Target,
    /// Without a pool.
    config: Value,
}

impl<'a> Allocator<'a> {
    pub(crate) fn new(target: &'a Target) -> Result<Self> {
        let config = json!({
            "cniVersion": "1.0.0", "name": "bench", "type": "bridge",
            "ipam": { "type": "ipam-da-etcd", "etcd": target.etcd(), "node": "bench-node" },
        });
        Ok(Self { target, config })
    }

    /// The configuration for an address of this pool, with the selector's result.
    pub(crate) fn config(&self, pool: &str) -> Value {
        let mut config = self.config.clone();
        config["prevResult"] = json!({ "cniVersion": "1.0.0", "pools": [{ "name": pool }] });
        config
    }

    /// ADD; returns the address.
    pub(crate) fn add(&self, pool: &str, container: &str) -> Result<String> {
        let answer = self.call("ADD", pool, container)?;
        let ips = answer_of(&serde_json::from_slice(&answer)?);
        ips.into_iter()
            .next()
            .ok_or_else(|| anyhow!("ADD gave no address"))
    }

    /// DEL.
    pub(crate) fn del(&self, pool: &str, container: &str) -> Result<()> {
        self.call("DEL", pool, container).map(|_| ())
    }

    fn call(&self, command: &str, pool: &str, container: &str) -> Result<Vec<u8>> {
        let environment = Environment::default()
            .with("CNI_COMMAND", command)
            .with("CNI_CONTAINERID", container)
            .with("CNI_NETNS", "/run/netns/none")
            .with("CNI_IFNAME", "eth0")
            .with("CNI_PATH", "/nowhere");
        let stdin = serde_json::to_vec(&self.config(pool))?;
        let mut stdin = || Ok(stdin.clone());
        let output = plugin::respond(&IpamDaEtcd, &environment, &mut stdin, None);
        let said = String::from_utf8_lossy(&output.stdout);
        ensure!(output.success, "{command} of {container}: {said}");
        Ok(output.stdout)
    }

    /// A bare put of a value as long as that of an address.
    pub(crate) fn put(&self, name: &str) -> Result<()> {
        let key = format!("{}/puts/{name}", self.target.prefix());
        let mut client = self.target.client();
        let put = client.put(key, VALUE);
        put.map_err(|error| anyhow!("{error}"))
    }
}

/// About as long as the value of an address.
const VALUE: &str = "{\"node\":\"bench-node\",\"network\":\"bench\",\"containerID\":\
                     \"c000000000000000\",\"ifname\":\"eth0\",\"since\":\"2020-01-01T00:00:00Z\"}";
