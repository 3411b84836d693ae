//! The allocator's index agrees with the files after any failure and any change by others, and a
//! call reads only the parts that it needs.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use harness::{Call, Sandbox, needs};
use serde_json::{Value, json};

use crate::opened_files::opened_in;

struct Network {
    sandbox: Sandbox,
    pools: Value,
}

impl Network {
    fn new(pools: Value) -> Self {
        Self {
            sandbox: Sandbox::default(),
            pools,
        }
    }

    fn call(&self, command: &str, container: &str) -> Call {
        self.call_with(command, container, &json!([]))
    }

    /// A call with the container's addresses in `prevResult`.
    fn call_with(&self, command: &str, container: &str, ips: &Value) -> Call {
        let mut config = self.sandbox.allocator_config(&self.pools);
        config["prevResult"]["ips"] = ips.clone();
        self.sandbox
            .call("ipam-da-host-local", command, &config)
            .container(container)
    }

    fn add(&self, container: &str) -> Vec<String> {
        self.call("ADD", container).run().ips()
    }

    fn directory(&self) -> PathBuf {
        self.sandbox.data_dir().join("testnet")
    }

    fn reserved(&self) -> Vec<String> {
        self.sandbox.reserved("testnet")
    }

    /// Runs a shell script in the directory of reservations.
    fn sh(&self, script: &str) {
        let mut command = Command::new("sh");
        let command = command.args(["-ec", script]).current_dir(self.directory());
        assert!(command.status().unwrap().success(), "{script}");
    }
}

fn strace(inject: &str) -> [&str; 6] {
    ["strace", "-f", "-o", "/dev/null", "-e", inject]
}

#[test]
fn a_change_that_fails_halfway_drops_the_index() {
    needs!("/usr/bin/strace");
    // Five addresses; two of them are c's.
    let pools = json!([
        {"subnet": "10.1.0.0/28", "rangeStart": "10.1.0.2", "rangeEnd": "10.1.0.4"},
        {"subnet": "10.1.0.0/28", "rangeStart": "10.1.0.5", "rangeEnd": "10.1.0.6"}
    ]);
    for command in ["DEL", "ADD"] {
        for (call, error) in [
            ("unlinkat", "EIO"),
            ("linkat", "EIO"),
            ("utimensat", "EIO"),
            ("pwrite64", "ENOSPC"),
            ("write", "ENOSPC"),
        ] {
            for number in 1..=3 {
                let network = Network::new(pools.clone());
                network.add("a");
                if command == "DEL" {
                    network.add("c");
                }
                let inject = format!("inject={call}:error={error}:when={number}");
                let failing = network.call(command, "c").through(&strace(&inject));
                failing.run();
                // All addresses can be released and given again.
                network.call("DEL", "c").run().nothing();
                let name = format!("{command} {call} {number}");
                assert_eq!(network.reserved(), ["10.1.0.2", "10.1.0.5"], "{name}");
                network.add("d");
                let one = json!([network.pools[0]]);
                let rest = Network {
                    sandbox: network.sandbox,
                    pools: one,
                };
                rest.add("e");
                assert_eq!(rest.call("ADD", "f").run().code(), 11, "{name}");
                assert_eq!(rest.reserved().len(), 5, "{name}");
            }
        }
    }
}

#[test]
fn del_releases_the_addresses_of_the_result_though_a_file_was_written_over_in_place() {
    let network = Network::new(json!([{"subnet": "10.1.0.0/24"}]));
    network.add("a");
    network.add("b");
    // The directory itself doesn't change.
    network.sh(r"printf 'c\r\neth0' > 10.1.0.3");
    let ips = json!([{"address": "10.1.0.3/24"}]);
    network.call_with("DEL", "b", &ips).run().nothing();
    assert_eq!(network.reserved(), ["10.1.0.2", "10.1.0.3"]);
    network.call_with("DEL", "c", &ips).run().nothing();
    assert_eq!(network.reserved(), ["10.1.0.2"]);
}

#[test]
fn a_directory_that_is_restored_with_its_old_times_is_read_anew() {
    for copy in [
        // Restores the state from before the change.
        "tar --format=posix -cf ../copy.tar . ; rm 10.1.0.3 ; printf 'c\\r\\neth0' > 10.1.0.9 ; tar -xpf ../copy.tar",
        "cp -a . ../copy ; rm 10.1.0.3 ; printf 'c\\r\\neth0' > 10.1.0.9 ; cp -a ../copy/. .",
    ] {
        let network = Network::new(json!([{"subnet": "10.1.0.0/24"}]));
        network.add("a");
        network.add("b");
        let before = fs::metadata(network.directory())
            .unwrap()
            .modified()
            .unwrap();
        sleep(Duration::from_millis(20));
        network.sh(copy);
        let now = fs::metadata(network.directory())
            .unwrap()
            .modified()
            .unwrap();
        assert_eq!(now, before, "{copy}");
        assert_eq!(network.call("ADD", "c").run().code(), 110);
        network.call("DEL", "c").run().nothing();
        assert_eq!(network.reserved(), ["10.1.0.2", "10.1.0.3"]);
        network.call("DEL", "b").run().nothing();
        assert_eq!(network.reserved(), ["10.1.0.2"]);
    }
}

#[test]
fn the_index_serves_however_many_files_have_one_content() {
    let network = Network::new(json!([{"subnet": "10.1.0.0/16"}]));
    fs::create_dir_all(network.directory()).unwrap();
    for n in 0..600 {
        let file = network
            .directory()
            .join(format!("10.1.{}.{}", 10 + n / 200, n % 200));
        fs::write(file, "reserved").unwrap();
    }
    network.add("first");
    let mut ip = String::new();
    let names = opened_in(&network.directory(), || {
        ip = network.add("c1").remove(0);
        network.call("STATUS", "-").run().nothing();
        network.call("DEL", "c1").run().nothing();
    });
    let expected = [ip, "last_reserved_ip.0".to_owned(), "lock".to_owned()];
    assert_eq!(names, BTreeSet::from(expected));
}

#[test]
fn the_index_is_small_though_the_addresses_are_far_apart() {
    let network = Network::new(json!([{"subnet": "fd00::/16"}]));
    fs::create_dir_all(network.directory()).unwrap();
    for n in 1..2000_u128 {
        let bits = (0xfd00 << 112) | (n << 90) | (n * n * 7919);
        let file = network
            .directory()
            .join(std::net::Ipv6Addr::from(bits).to_string());
        fs::write(file, format!("c{n}\r\neth0")).unwrap();
    }
    network.add("first");
    let names = opened_in(&network.directory(), || {
        network.add("c1000000");
    });
    let expected = ["last_reserved_ip.0", "lock"].map(str::to_owned);
    assert_eq!(names, BTreeSet::from(expected));
    let entries = fs::read_dir(network.sandbox.cache_dir()).unwrap();
    let size: u64 = entries
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    assert!(size < 100 * 2000 + 16 * 1024, "{size} bytes");
    assert_eq!(network.call("ADD", "c1999").run().code(), 110);
    network.call("DEL", "c1999").run().nothing();
    assert_eq!(network.reserved().len(), 2000);
}

#[test]
fn many_changes_fit_into_the_index() {
    let network = Network::new(json!([{"subnet": "10.1.0.0/24"}]));
    network.add("stays");
    for round in 0..250 {
        let container = format!("c{round}");
        let ip = network.add(&container);
        assert_eq!(network.reserved().len(), 2);
        assert!(network.reserved().contains(&ip[0]));
        network.call("DEL", &container).run().nothing();
    }
    assert_eq!(network.reserved(), ["10.1.0.2"]);
}

#[test]
fn an_add_from_many_pools_opens_a_few_files_for_each() {
    needs!("/usr/bin/strace");
    let subnets = (0..400).map(|n| json!({"subnet": format!("10.{}.{}.0/24", n / 256, n % 256)}));
    let network = Network::new(subnets.collect());
    let trace = network.sandbox.root().join("trace");
    let strace = [
        "strace",
        "-f",
        "-e",
        "trace=openat",
        "-o",
        trace.to_str().unwrap(),
    ];
    let given = network.call("ADD", "c1").through(&strace).run().ips();
    assert_eq!(given.len(), 400);
    let opened = fs::read_to_string(&trace).unwrap().lines().count();
    assert!(opened < 5 * 400, "{opened}");
    network.call("DEL", "c1").run().nothing();
    assert!(network.reserved().is_empty());
}
