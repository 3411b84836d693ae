//! Pools of a cluster in etcd.

mod failover;
mod run_out;
mod tls;
mod traffic;

use std::fs;
use std::path::PathBuf;

use harness::{ETCD, ETCDCTL, EtcdMember, Flavour, Namespace, Node, Sandbox, needs};
use serde_json::{Value, json};

use crate::pool_cluster::{PoolCluster, Promise};

/// A member of etcd, and nodes that share its pools.
pub(crate) struct Cluster {
    sandbox: Sandbox,
    etcd: EtcdMember,
}

impl Default for Cluster {
    fn default() -> Self {
        Self::with(EtcdMember::default())
    }
}

impl Cluster {
    fn with(etcd: EtcdMember) -> Self {
        Self {
            sandbox: Sandbox::default().with_network_plugins(Flavour::Normal),
            etcd,
        }
    }

    /// Writes a settings file, and returns its path.
    fn settings(&self, name: &str, content: &Value) -> PathBuf {
        let file = self.sandbox.root().join(format!("etcd-{name}.json"));
        fs::write(&file, content.to_string()).unwrap();
        file
    }
}

impl PoolCluster for Cluster {
    fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    fn allocator(&self) -> &'static str {
        "ipam-da-etcd"
    }

    fn keys(&self, node: &str, timeout: &str) -> Value {
        let content = json!({"endpoints": [self.etcd.url()], "timeout": timeout});
        json!({"etcd": self.settings(node, &content), "machine": format!("machine-{node}")})
    }

    fn define(&self, pool: &str, definition: &Value) {
        let key = format!("/ipam/v1/pools/{pool}");
        self.etcd.put(&key, &definition.to_string());
    }

    fn undefine(&self, pool: &str) {
        self.etcd.ctl(&["del", &format!("/ipam/v1/pools/{pool}")]);
    }

    fn addresses(&self) -> Vec<String> {
        let addresses = self.etcd.values("/ipam/v1/addresses/");
        let mut of_holders = self.etcd.keys("/ipam/v1/nodes/");
        let of_owners = self.etcd.keys("/ipam/v1/owners/").into_iter();
        of_holders.extend(of_owners.map(|key| key.split_once('/').unwrap().1.to_owned()));
        of_holders.sort();
        let mut indexed = Vec::new();
        let mut lines = Vec::new();
        for (ip, value) in addresses {
            let holder: Value = serde_json::from_str(&value).unwrap();
            let text = |key: &str| holder[key].as_str().unwrap();
            if let Some(owner) = holder["owner"].as_str() {
                lines.push(format!("{} {owner}", harness::ip_of_key(&ip)));
                indexed.push(ip);
                continue;
            }
            indexed.push(format!("{}/{ip}", text("node")));
            lines.push(format!(
                "{} {}/{}/{}:{}",
                harness::ip_of_key(&ip),
                text("node"),
                text("network"),
                text("containerID"),
                text("ifname")
            ));
        }
        indexed.sort();
        assert_eq!(indexed, of_holders, "each address is found by its holder");
        lines.sort();
        lines
    }

    /// Each node has them.
    fn administrator(&self) -> Vec<String> {
        Vec::new()
    }

    fn lose(&self, ip: &str) {
        let octets = ip.split('.').map(|octet| format!("{octet:0>3}"));
        let name = octets.collect::<Vec<_>>().join(".");
        self.etcd
            .ctl(&["del", &format!("/ipam/v1/addresses/{name}")]);
        for index in ["/ipam/v1/nodes/", "/ipam/v1/owners/"] {
            for key in self.etcd.keys(index) {
                if key.ends_with(&name) {
                    self.etcd.ctl(&["del", &format!("{index}{key}")]);
                }
            }
        }
    }

    fn stop(&mut self) {
        self.etcd.kill();
    }

    fn start(&mut self) {
        self.etcd.restart();
    }
}

/// Verifies each promise on a new cluster.
fn keep(promises: &[Promise]) {
    for (name, promise) in promises {
        println!("{name}");
        promise(&mut Cluster::default());
    }
}

#[test]
fn promises() {
    needs!(ETCD, ETCDCTL);
    keep(crate::promises::PROMISES);
    keep(crate::selection::PROMISES);
    keep(crate::owners::PROMISES);
    keep(crate::tools::PROMISES);
}

#[test]
fn on_a_wire() {
    needs!("root", ETCD, ETCDCTL, "/usr/bin/python3");
    // The wire is in a network namespace of its own.
    let node = Node::new();
    Namespace::of(&node).enter();
    keep(crate::on_a_wire::PROMISES);
}

#[test]
fn killed() {
    needs!(ETCD, ETCDCTL, "trace");
    keep(crate::killed::PROMISES);
}

#[test]
fn another_machine_with_the_nodes_name_releases_nothing_and_says_so() {
    needs!(ETCD, ETCDCTL);
    let cluster = Cluster::default();
    let pools = json!([{"name": "blue", "subnet": "10.0.0.0/29"}]);
    let config = cluster.config("n1", &pools);
    cluster.add("c1", &config).result();
    let before = cluster.addresses();
    let mut other = config.clone();
    other["ipam"]["machine"] = json!("another");
    other["cni.dev/valid-attachments"] = json!([]);
    cluster.alone("GC", "", &other).run().nothing();
    let of_machine = "machine machine-n1, and this is node n1, machine another";
    let refused = cluster.alone("DEL", "c1", &other).run();
    refused.refused(112, of_machine);
    assert_eq!(cluster.addresses(), before);
    // Without the key, the machine is the one of /etc/machine-id.
    other["ipam"]["machine"] = Value::Null;
    cluster.alone("GC", "", &other).run().nothing();
    assert_eq!(cluster.addresses(), before);
}

#[test]
fn foreign_content_keeps_its_address() {
    needs!(ETCD, ETCDCTL);
    let cluster = Cluster::default();
    let key = "/ipam/v1/addresses/010.000.000.002";
    cluster.etcd.put(key, "somebody's note");
    cluster.etcd.put("/ipam/v1/nodes/n1/010.000.000.002", "");
    cluster.etcd.put("/ipam/v1/nodes/n1/a note", "x");
    let pools = json!([{"name": "blue", "subnet": "10.0.0.0/30"}]);
    let mut config = cluster.config("n1", &pools);
    let full = "pool blue (10.0.0.1-10.0.0.2) has no address left";
    cluster.add("c1", &config).refused(11, full);
    config["cni.dev/valid-attachments"] = json!([]);
    cluster.alone("GC", "", &config).run().nothing();
    assert_eq!(cluster.etcd.value(key), "somebody's note");
}

/// Otherwise new containers would get the addresses of running ones.
#[test]
fn the_space_of_a_pool_with_addresses_never_changes() {
    needs!(ETCD, ETCDCTL);
    let cluster = Cluster::default();
    let config = cluster.config("n1", &json!([{"name": "lan"}]));
    cluster.sandbox.write_conflist("10-lan.conflist", &config);
    let file = cluster.sandbox.root().join("pools.json");
    let import = |definition: Value| {
        fs::write(&file, json!({"pools": {"lan": definition}}).to_string()).unwrap();
        cluster
            .ipamctl("n1", &["import", file.to_str().unwrap()])
            .run()
    };
    let [plain, red] = [json!({}), json!({"space": "red"})].map(|mut definition| {
        definition["subnet"] = json!("10.0.0.0/29");
        definition
    });
    assert!(import(red.clone()).status.success());
    assert!(import(plain.clone()).status.success());
    let ip = &cluster.add("c1", &config).ips()[0];
    // Also if the definition was deleted meanwhile.
    for _ in 0..2 {
        let refused = import(red.clone());
        let text = format!("pool lan: {ip} is reserved. The space of a pool never changes");
        refused.failed(2, [&text]);
        cluster.undefine("lan");
    }
    let larger = json!({"subnet": "10.0.0.0/24"});
    assert!(import(larger).status.success());
    cluster.del("c1", &config).nothing();
    assert!(import(red).status.success());
}

#[test]
fn a_pool_is_listed_with_its_networks_also_beside_a_foreign_key() {
    needs!(ETCD, ETCDCTL);
    let cluster = Cluster::default();
    for (network, pool, subnet) in [
        ("storage", "lan", "10.0.0.0/29"),
        ("voice", "phones", "10.0.1.0/29"),
    ] {
        cluster.define(pool, &json!({"subnet": subnet}));
        let mut config = cluster.config("n1", &json!([{"name": pool}]));
        config["name"] = json!(network);
        let file = format!("10-{network}.conflist");
        cluster.sandbox.write_conflist(&file, &config);
    }
    cluster.etcd.put("/ipam/v1/pools/note", "somebody's");
    let output = cluster.ipamctl("n1", &["pools", "--json"]).run();
    output.failed(2, ["pools/note: it is no JSON object"]);
    let show = cluster.ipamctl("n1", &["show", "10.0.0.2"]).run();
    show.failed(2, ["not everything: 1 could not be read, named above; of"]);
    let pools: Value = serde_json::from_str(&output.stdout).unwrap();
    let users = |pool: &Value| (pool["pool"].clone(), pool["networks"].clone());
    let users: Vec<(Value, Value)> = pools.as_array().unwrap().iter().map(users).collect();
    let expected = [("lan", "storage"), ("phones", "voice")];
    assert_eq!(users, expected.map(|(pool, of)| (json!(pool), json!([of]))));
}

#[test]
fn a_wrong_setting_or_definition_is_named_by_its_place() {
    needs!(ETCD, ETCDCTL);
    let cluster = Cluster::default();
    let mut config = cluster.config("n1", &json!([{"name": "blue"}]));
    let mut refused = |key: &str, value: Value, text: &str| {
        config["ipam"][key] = value;
        cluster.alone("ADD", "c1", &config).run().refused(7, text);
    };
    refused("etcd", Value::Null, "ipam.etcd is missing");
    let missing = json!("/nowhere/ipam-etcd.json");
    refused("etcd", missing, "/nowhere/ipam-etcd.json: No such file");
    let file = cluster.settings("wrong", &json!({"endpoint": []}));
    let text = format!("{}.endpoint: there is no such key", file.display());
    refused("etcd", json!(file), &text);
    let file = cluster.settings("n1", &json!({"endpoints": [cluster.etcd.url()]}));
    let text = "etcd has no pool \"blue\": etcd:/ipam/v1/pools/blue is missing";
    refused("etcd", json!(file), text);
    cluster.define("blue", &json!({"subnet": "10.0.0.0"}));
    let text = "etcd:/ipam/v1/pools/blue.subnet: \"10.0.0.0\" is no subnet";
    refused("node", json!("n1"), text);
    cluster.etcd.put("/ipam/v1/pools/blue", "{");
    let text = "etcd:/ipam/v1/pools/blue: it is no JSON object";
    refused("node", json!("n1"), text);
    refused("node", json!("a/b"), "ipam.node: \"a/b\" can't name a node");
}
