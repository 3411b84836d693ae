//! [`PoolCluster`] for one member of etcd.

use harness::Sandbox;
use serde_json::{Value, json};

use super::Cluster;
use super::pool_cluster::PoolCluster;

const POOLS: &str = "/ipam/v1/pools/";
const REGISTRATIONS: &str = "/ipam/v1/tokens/";

impl Cluster {
    fn json(&self, key: &str) -> Value {
        let value = self.etcd.value(key);
        serde_json::from_str(&value).unwrap_or_else(|error| panic!("{key}: {value}: {error}"))
    }
}

impl PoolCluster for Cluster {
    fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    fn engine(&self) -> &'static str {
        "etcd"
    }

    fn engine_keys(&self, _: &str) -> Value {
        json!({"endpoints": [self.etcd.url()]})
    }

    fn as_administrator(&self, config: &Value) -> Value {
        config.clone()
    }

    fn define(&self, pool: &str, definition: &Value) {
        let key = self.path_of_pool(pool);
        self.etcd.put(&key, &definition.to_string());
    }

    fn undefine(&self, pool: &str) {
        self.etcd.ctl(&["del", &self.path_of_pool(pool)]);
    }

    fn defined(&self) -> Vec<(String, Value)> {
        let names = self.etcd.keys(POOLS).into_iter();
        names
            .map(|pool| (pool.clone(), self.json(&self.path_of_pool(&pool))))
            .collect()
    }

    fn path_of_pool(&self, pool: &str) -> String {
        format!("{POOLS}{pool}")
    }

    fn reserved(&self, pool: &str) -> Vec<String> {
        Self::reserved(self, pool)
    }

    fn held(&self) -> Vec<String> {
        Self::held(self)
    }

    fn holder(&self, pool: &str, ip: &str) -> Value {
        self.json(&format!("/ipam/v1/addresses/{pool}/{ip}"))
    }

    fn blocks(&self, pool: &str) -> Vec<String> {
        self.etcd.keys(&format!("/ipam/v1/blocks/{pool}/"))
    }

    fn blocks_of(&self, pool: &str, node: &str) -> Vec<String> {
        let all = self.etcd.values(&format!("/ipam/v1/blocks/{pool}/"));
        let is_its = |owner: &str| {
            let owner: Value = serde_json::from_str(owner).unwrap();
            owner["node"] == node
        };
        let its = all.into_iter().filter(|(_, owner)| is_its(owner));
        its.map(|(block, _)| block).collect()
    }

    fn move_block(&self, pool: &str, block: &str, node: &str) {
        let owner = json!({"node": node, "since": "2026-01-01T00:00:00Z"});
        let key = format!("/ipam/v1/blocks/{pool}/{block}");
        self.etcd.put(&key, &owner.to_string());
    }

    fn lose_blocks(&self, pool: &str) {
        let prefix = format!("/ipam/v1/blocks/{pool}/");
        self.etcd.ctl(&["del", "--prefix", &prefix]);
    }

    fn registration(&self, node: &str) -> String {
        self.etcd.value(&format!("{REGISTRATIONS}{node}"))
    }

    fn set_registration(&self, node: &str, registration: &str) {
        let key = format!("{REGISTRATIONS}{node}");
        self.etcd.put(&key, registration);
    }

    fn lose_registrations(&self) {
        self.etcd.ctl(&["del", "--prefix", REGISTRATIONS]);
    }

    fn marks(&self) -> Vec<String> {
        self.etcd.keys("/ipam/v1/reconcile/")
    }

    fn sticky_keys(&self, pool: &str) -> usize {
        self.etcd
            .keys(&format!("/ipam/v1/sticky/{pool}/keys/"))
            .len()
    }

    fn stop(&mut self) {
        self.etcd.kill();
    }

    fn start(&mut self) {
        self.etcd.restart();
    }

    fn save(&mut self) {
        let file = self.sandbox.root().join("snapshot");
        let _ = std::fs::remove_file(&file);
        self.etcd.ctl(&["snapshot", "save", file.to_str().unwrap()]);
    }

    fn advance(&self) {
        // A restart doesn't change etcd's revision.
    }

    fn restore(&mut self) {
        self.etcd.restore(&self.sandbox.root().join("snapshot"));
    }
}
