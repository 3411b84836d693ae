//! Networks `red` and `green` share the pool `blue`, in the directory of named pools. Each uses only
//! its own reservations, by the third line of their files.

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

    fn files(&self) -> Vec<(String, String)> {
        self.0.reservations("pools")
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
    // Also a network with the pool's name.
    assert_eq!(shared.add("blue", "b"), "10.1.0.4");
    assert_eq!(
        shared.files(),
        [
            file("10.1.0.2", "r\r\neth0\r\nred"),
            file("10.1.0.3", "g\r\neth0\r\ngreen"),
            file("10.1.0.4", "b\r\neth0\r\nblue"),
        ]
    );
}

#[test]
fn one_attachment_may_be_on_both_networks() {
    let shared = Shared::new();
    assert_eq!(shared.add("red", "c1"), "10.1.0.2");
    assert_eq!(shared.add("green", "c1"), "10.1.0.3");
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
        shared.0.reserved("pools"),
        ["10.1.0.3", "10.1.0.4", "10.1.0.5"]
    );
    shared.call("GC", "blue", "nobody").nothing();
    assert_eq!(shared.0.reserved("pools"), ["10.1.0.3", "10.1.0.4"]);
    // Without a selector's pools.
    shared.without_pools("GC", "green", "nobody").nothing();
    assert_eq!(shared.0.reserved("pools"), ["10.1.0.3"]);
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
        assert_eq!(shared.0.reserved("pools"), ["10.1.0.2", "10.1.0.3"]);
    }
    shared.without_pools("DEL", "red", "c").nothing();
    assert_eq!(shared.files(), [file("10.1.0.3", "c2\r\neth0\r\ngreen")]);
    shared.without_pools("DEL", "green", "c2").nothing();
    assert!(shared.files().is_empty());
}

/// A space with the name of network `red`, which had its pool without a name before.
#[test]
fn in_a_space_two_lines_are_of_the_network_of_this_name() {
    needs!("host-local");
    let shared = Shared::new();
    let pools = json!([{"name": "blue", "space": "red", "subnet": "10.1.0.0/24"}]);
    let run = |command: &str, network: &str| {
        let call = shared.call_with(command, network, "c1", &pools);
        call.env("CNI_IFNAME", "eth0").run()
    };
    let ipam = json!({"ranges": [[{"subnet": "10.1.0.0/24"}]]});
    let mut config = shared.0.config("1.0.0", &[], &ipam);
    config["name"] = json!("red");
    let host_local = |command: &str, container: &str| {
        let call = shared.0.call("host-local", command, &config);
        call.container(container).run()
    };
    assert_eq!(host_local("ADD", "c0").ips(), ["10.1.0.2"]);
    // The pool has its own rotation, and passes over what host-local has given.
    assert_eq!(run("ADD", "green").ips(), ["10.1.0.3"]);
    assert_eq!(run("ADD", "red").ips(), ["10.1.0.4"]);
    assert_eq!(
        shared.0.reservations("red"),
        [
            file("10.1.0.2", "c0\r\neth0"),
            file("10.1.0.3", "c1\r\neth0\r\ngreen"),
            file("10.1.0.4", "c1\r\neth0"),
        ]
    );
    run("DEL", "red").nothing();
    assert_eq!(shared.0.reserved("red"), ["10.1.0.2", "10.1.0.3"]);
    // host-local neither finds nor releases what another network holds.
    host_local("DEL", "c1").nothing();
    assert_eq!(shared.0.reserved("red"), ["10.1.0.2", "10.1.0.3"]);
    host_local("DEL", "c0").nothing();
    run("DEL", "green").nothing();
    assert!(shared.0.reserved("red").is_empty());
}

#[test]
fn a_network_cannot_have_the_name_of_a_shared_directory() {
    let shared = Shared::new();
    for network in ["pools", "docker"] {
        for (command, code) in [("ADD", 7), ("STATUS", 7)] {
            shared.call(command, network, "c1").refused(code, network);
        }
        shared.call("DEL", network, "c1").nothing();
        shared.call("GC", network, "c1").nothing();
    }
    assert!(shared.files().is_empty());
}
