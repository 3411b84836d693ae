//! The allocator of docs/writing-an-allocator.md, after ipam-ds-ranges.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use harness::{Output, Sandbox};
use serde_json::{Value, json};

struct Chain {
    sandbox: Sandbox,
}

impl Chain {
    fn new() -> Self {
        let sandbox = Sandbox::default();
        let allocator = sandbox.plugins().join("ipam-da-table");
        symlink(harness::example("ipam-da-table"), allocator).unwrap();
        Self { sandbox }
    }

    fn table_dir(&self) -> PathBuf {
        self.sandbox.root().join("table")
    }

    fn config(&self, ranges: &Value) -> Value {
        let ipam = json!({"ranges": ranges, "tableDir": self.table_dir(),
            "routes": [{"dst": "0.0.0.0/0"}]});
        self.sandbox
            .config("1.1.0", &["ipam-ds-ranges", "ipam-da-table"], &ipam)
    }

    fn run(&self, command: &str, container: &str, config: &Value) -> Output {
        self.sandbox.run_for(command, container, config)
    }

    /// The reserved addresses with their holders.
    fn reserved(&self) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let table = fs::read(self.table_dir().join("table.json")).unwrap();
        let table: Value = serde_json::from_slice(&table).unwrap();
        let entries = table.as_array().unwrap().iter();
        entries
            .map(|entry| (text(&entry["ip"]), text(&entry["containerID"])))
            .collect()
    }

    /// The same configuration for a chain that has no record of the attachments.
    fn without_record(&self, config: &Value) -> Value {
        let mut config = config.clone();
        config["ipam"]["stateDir"] = json!(self.sandbox.root().join("other-state"));
        config
    }
}

/// A pool of two addresses, 10.1.0.2 and 10.1.0.3.
fn two_addresses() -> Value {
    json!([[{"subnet": "10.1.0.0/24", "rangeStart": "10.1.0.2", "rangeEnd": "10.1.0.3"}]])
}

#[test]
fn a_second_add_is_refused_with_110_and_the_first_ones_address_stays() {
    let chain = Chain::new();
    let config = chain.config(&two_addresses());
    assert_eq!(chain.run("ADD", "a", &config).ips(), ["10.1.0.2"]);
    let allocator = |config: &Value| chain.run("ADD", "a", config);
    assert_eq!(allocator(&config).code(), 110);
    // The chain refuses by its record. Without a record, the allocator refuses.
    allocator(&chain.without_record(&config))
        .error_is(110, "ipam-da-table: a eth0 has 10.1.0.2 already");
    assert_eq!(chain.reserved(), [("10.1.0.2".into(), "a".into())]);
}

#[test]
fn a_full_pool_is_code_11_on_add_and_ready_on_status_and_nothing_of_the_others_is_kept() {
    let chain = Chain::new();
    let config = chain.config(&two_addresses());
    chain.run("STATUS", "", &config).nothing();
    for container in ["a", "b"] {
        chain.run("ADD", container, &config).result();
    }
    let full = "ipam-da-table: pool testnet: 2 addresses of 10.1.0.2-10.1.0.3 are reserved";
    chain.run("STATUS", "", &config).nothing();

    let mut both = vec![json!([{"subnet": "10.9.0.0/24"}])];
    both.extend(two_addresses().as_array().unwrap().clone());
    chain
        .run("ADD", "c", &chain.config(&json!(both)))
        .error_is(11, full);
    assert_eq!(chain.reserved().len(), 2);

    // A released address is given again.
    chain.run("DEL", "a", &config).nothing();
    assert_eq!(chain.run("ADD", "c", &config).ips(), ["10.1.0.2"]);
}

#[test]
fn each_pool_yields_an_address_and_a_requested_one_or_111() {
    let chain = Chain::new();
    let mut config = chain.config(&json!([[{"subnet": "10.1.0.0/24"}], [{"subnet": "fd00::/64"}]]));
    config["runtimeConfig"] = json!({"ips": ["10.1.0.77"]});
    let result = chain.run("ADD", "a", &config).result();
    assert_eq!(harness::answer_of(&result), ["10.1.0.77", "fd00::2"]);
    assert_eq!(result["ips"][0]["gateway"], "10.1.0.1");
    assert_eq!(result["routes"], json!([{"dst": "0.0.0.0/0"}]));
    assert!(result.get("pools").is_none());
    assert_eq!(chain.run("ADD", "b", &config).code(), 111);
    config["runtimeConfig"] = Value::Null;
    assert_eq!(chain.run("ADD", "c", &config).ips()[0], "10.1.0.78");
}

#[test]
fn check_fails_with_112_once_the_address_is_gone() {
    let chain = Chain::new();
    let mut config = chain.config(&two_addresses());
    config["prevResult"] = chain.run("ADD", "a", &config).result();
    chain.run("CHECK", "a", &config).nothing();
    fs::write(chain.table_dir().join("table.json"), "[]").unwrap();
    chain
        .run("CHECK", "a", &config)
        .error_is(112, "ipam-da-table: 10.1.0.2 is not reserved to a eth0");
}

#[test]
fn del_and_gc_release_this_networks_reservations_alone() {
    let chain = Chain::new();
    let config = chain.config(&two_addresses());
    let mut other = config.clone();
    other["name"] = json!("othernet");
    for config in [&config, &other] {
        for container in ["a", "b"] {
            chain.run("ADD", container, config).result();
        }
    }
    let mut unpooled = config.clone();
    unpooled["ipam"]["delegates"] = json!(["ipam-da-table"]);
    let unpooled = chain.without_record(&unpooled);
    for _ in 0..2 {
        chain.run("DEL", "a", &unpooled).nothing();
        assert_eq!(chain.reserved().len(), 3);
    }
    let mut gc = chain.without_record(&other);
    gc["cni.dev/valid-attachments"] = json!([{"containerID": "a", "ifname": "eth0"}]);
    chain.run("GC", "", &gc).nothing();
    let ip = |ip: &str, container: &str| (ip.to_owned(), container.to_owned());
    assert_eq!(chain.reserved(), [ip("10.1.0.3", "b"), ip("10.1.0.2", "a")]);
    gc["cni.dev/valid-attachments"] = Value::Null;
    chain.run("GC", "", &gc).nothing();
    assert_eq!(chain.reserved(), [ip("10.1.0.3", "b")]);
}
