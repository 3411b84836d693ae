//! Networks `red` and `green` share the pool `blue`. Each uses only its own reservations, by the
//! third line of their files.

use std::fs;
use std::path::PathBuf;

use harness::{ALLOCATOR, Call, Output, Sandbox, needs};
use serde_json::{Value, json};

struct Shared(Sandbox);

impl Shared {
    fn new() -> Self {
        Self(Sandbox::default().with_reference("host-local"))
    }

    fn pools() -> Value {
        json!([{"name": "blue", "subnet": "10.1.0.0/24"}])
    }

    /// A call for `eth0` of the container. `pools` may be null, as after a selector that prints no
    /// pools.
    fn call_with(&self, command: &str, network: &str, container: &str, pools: &Value) -> Call {
        let mut config = self.0.config("1.1.0", &[], &json!({}));
        config["name"] = json!(network);
        config["prevResult"] = json!({"ips": [], "pools": pools});
        config["cni.dev/valid-attachments"] = json!([{"containerID": container, "ifname": "eth0"}]);
        self.0
            .call(ALLOCATOR, command, &config)
            .container(container)
    }

    fn call(&self, command: &str, network: &str, container: &str) -> Output {
        self.call_with(command, network, container, &Self::pools())
            .run()
    }

    fn without_pools(&self, command: &str, network: &str, container: &str) -> Output {
        self.call_with(command, network, container, &json!(null))
            .run()
    }

    fn add(&self, network: &str, container: &str) -> String {
        self.call("ADD", network, container).ips().remove(0)
    }

    fn blue(&self) -> PathBuf {
        self.0.data_dir().join("blue")
    }

    fn files(&self) -> Vec<(String, String)> {
        self.0.reservations("blue")
    }

    fn write(&self, name: &str, content: &str) {
        let path = self.blue().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}

fn file(ip: &str, content: &str) -> (String, String) {
    (ip.to_owned(), content.to_owned())
}

#[test]
fn each_network_gets_other_addresses_under_its_name() {
    let shared = Shared::new();
    assert_eq!(shared.add("red", "r"), "10.1.0.2");
    assert_eq!(shared.add("green", "g"), "10.1.0.3");
    // The network with the pool's name: these files are exactly host-local's.
    assert_eq!(shared.add("blue", "b"), "10.1.0.4");
    assert_eq!(
        shared.files(),
        [
            file("10.1.0.2", "r\r\neth0\r\nred"),
            file("10.1.0.3", "g\r\neth0\r\ngreen"),
            file("10.1.0.4", "b\r\neth0"),
        ]
    );
}

#[test]
fn one_attachment_may_be_on_both_networks() {
    let shared = Shared::new();
    assert_eq!(shared.add("red", "c1"), "10.1.0.2");
    assert_eq!(shared.add("green", "c1"), "10.1.0.3");
    assert_eq!(shared.call("ADD", "red", "c1").code(), 110);
    shared.call("DEL", "red", "c1").nothing();
    assert_eq!(shared.files(), [file("10.1.0.3", "c1\r\neth0\r\ngreen")]);
    assert_eq!(shared.call("CHECK", "red", "c1").code(), 112);
    shared.call("CHECK", "green", "c1").nothing();
}

#[test]
fn gc_of_one_network_keeps_the_others_reservations_with_and_without_pools() {
    let shared = Shared::new();
    for (network, container) in [("red", "r1"), ("red", "r2"), ("green", "g"), ("blue", "b")] {
        shared.add(network, container);
    }
    shared.call("GC", "red", "r2").nothing();
    assert_eq!(
        shared.0.reserved("blue"),
        ["10.1.0.3", "10.1.0.4", "10.1.0.5"]
    );
    shared.call("GC", "blue", "nobody").nothing();
    assert_eq!(shared.0.reserved("blue"), ["10.1.0.3", "10.1.0.4"]);
    // Without a selector's pools, with and without an index.
    shared.without_pools("GC", "green", "nobody").nothing();
    assert_eq!(shared.0.reserved("blue"), ["10.1.0.3"]);
    fs::remove_dir_all(shared.0.cache_dir()).unwrap();
    shared.without_pools("GC", "green", "nobody").nothing();
    assert_eq!(shared.0.reserved("blue"), ["10.1.0.3"]);
    fs::remove_dir_all(shared.0.cache_dir()).unwrap();
    shared.without_pools("GC", "red", "nobody").nothing();
    assert!(shared.files().is_empty());
}

#[test]
fn del_and_check_find_the_pool_without_a_selectors_pools() {
    let shared = Shared::new();
    shared.add("red", "c");
    shared.add("green", "c2");
    for _ in 0..2 {
        shared.without_pools("CHECK", "red", "c").nothing();
        assert_eq!(shared.without_pools("CHECK", "green", "c").code(), 112);
        shared.without_pools("DEL", "green", "c").nothing();
        assert_eq!(shared.0.reserved("blue"), ["10.1.0.2", "10.1.0.3"]);
        fs::remove_dir_all(shared.0.cache_dir()).unwrap();
    }
    shared.without_pools("DEL", "red", "c").nothing();
    assert_eq!(shared.files(), [file("10.1.0.3", "c2\r\neth0\r\ngreen")]);
    shared.without_pools("DEL", "green", "c2").nothing();
    assert!(shared.files().is_empty());
}

#[test]
fn del_without_a_selector_finds_the_named_pool_beside_the_networks_own() {
    let shared = Shared::new();
    let pools = json!([{"subnet": "10.9.0.0/24"}, {"name": "blue", "subnet": "10.1.0.0/24"}]);
    shared.call_with("ADD", "red", "c1", &pools).run().result();
    shared.without_pools("DEL", "red", "c1").nothing();
    for directory in ["red", "blue"] {
        assert!(shared.0.reserved(directory).is_empty(), "{directory}");
    }
}

#[test]
fn looking_for_the_pool_makes_nothing_in_directories_of_others() {
    let shared = Shared::new();
    let other = shared.0.data_dir().join("other");
    fs::create_dir_all(&other).unwrap();
    fs::write(other.join("10.9.0.2"), "c\r\neth0").unwrap();
    let before = fs::metadata(&other).unwrap().modified().unwrap();
    shared.without_pools("DEL", "red", "c").nothing();
    shared.without_pools("GC", "red", "nobody").nothing();
    assert_eq!(fs::read_dir(&other).unwrap().count(), 1);
    assert_eq!(fs::metadata(&other).unwrap().modified().unwrap(), before);
}

#[test]
fn an_add_that_was_killed_on_one_network_costs_no_address_of_another() {
    needs!("/usr/bin/strace");
    for call_number in 1..=2 {
        let shared = Shared::new();
        let inject = format!("inject=linkat:signal=KILL:when={call_number}");
        let strace = ["strace", "-f", "-o", "/dev/null", "-e", &inject];
        let add = shared.call_with("ADD", "red", "c1", &Shared::pools());
        add.through(&strace).run();
        shared.call("DEL", "red", "c1").nothing();
        let ip = shared.add("green", "c1");
        shared.call("GC", "red", "nobody").nothing();
        assert_eq!(shared.files(), [file(&ip, "c1\r\neth0\r\ngreen")]);
        assert_ne!(shared.add("red", "c2"), ip);
    }
}

#[test]
fn a_file_without_a_network_belongs_to_the_network_of_the_directorys_name() {
    let shared = Shared::new();
    shared.write("10.1.0.2", "c1\r\neth0");
    shared.call("DEL", "red", "c1").nothing();
    shared.call("GC", "red", "nobody").nothing();
    assert_eq!(shared.add("red", "c1"), "10.1.0.3");
    assert_eq!(shared.0.reserved("blue"), ["10.1.0.2", "10.1.0.3"]);
    shared.call("DEL", "blue", "c1").nothing();
    assert_eq!(shared.0.reserved("blue"), ["10.1.0.3"]);
}

#[test]
fn host_local_neither_finds_nor_releases_what_another_network_holds() {
    needs!("host-local");
    let shared = Shared::new();
    shared.add("red", "c1");
    let ipam = json!({"ranges": [[{"subnet": "10.1.0.0/24"}]]});
    let mut config = shared.0.config("1.0.0", &[], &ipam);
    config["name"] = json!("blue");
    let host_local = |command: &str| shared.0.call("host-local", command, &config).run();
    assert_eq!(host_local("ADD").ips(), ["10.1.0.3"]);
    host_local("DEL").nothing();
    host_local("DEL").nothing();
    assert_eq!(shared.files(), [file("10.1.0.2", "c1\r\neth0\r\nred")]);
}
