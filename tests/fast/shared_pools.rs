//! Networks `red` and `green` share the pool `blue`, in the directory of named pools. Each uses only
//! its own reservations, by the third line of their files.

use std::fs;

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

#[test]
fn del_without_a_selector_finds_the_named_pool_beside_the_networks_own() {
    let shared = Shared::new();
    let pools = json!([{"subnet": "10.9.0.0/24"}, {"name": "blue", "subnet": "10.1.0.0/24"}]);
    shared.call_with("ADD", "red", "c1", &pools).run().result();
    shared.without_pools("DEL", "red", "c1").nothing();
    for directory in ["red", "pools"] {
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
    needs!("trace");
    for call_number in 1..=1 {
        let shared = Shared::new();
        let inject = format!("inject=linkat:signal=KILL:when={call_number}");
        let add = shared.call_with("ADD", "red", "c1", &Shared::pools());
        add.injected(&inject).run();
        shared.call("DEL", "red", "c1").nothing();
        let ip = shared.add("green", "c1");
        shared.call("GC", "red", "nobody").nothing();
        assert_eq!(shared.files(), [file(&ip, "c1\r\neth0\r\ngreen")]);
        assert_ne!(shared.add("red", "c2"), ip);
    }
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
            let error = shared.call(command, network, "c1").error();
            assert_eq!(error["code"], code, "{error}");
            assert!(error["msg"].as_str().unwrap().contains(network), "{error}");
        }
        shared.call("DEL", network, "c1").nothing();
        shared.call("GC", network, "c1").nothing();
    }
    assert!(shared.files().is_empty());
}

/// A border between two pools is moved while containers have addresses on both sides, and while
/// an ADD is between its selector and its allocator.
#[test]
fn no_change_of_borders_gives_an_address_twice() {
    let shared = Shared::new();
    let border = |low: bool| {
        let (a, b) = if low { (3, 4) } else { (11, 12) };
        let range = |start: u8, end: u8| {
            json!({"subnet": "10.1.0.0/28", "gateway": "10.9.9.9",
                "rangeStart": format!("10.1.0.{start}"), "rangeEnd": format!("10.1.0.{end}")})
        };
        let pool = |name: &str, mut range: Value| {
            range["name"] = json!(name);
            json!([range])
        };
        [pool("a", range(1, a)), pool("b", range(b, 14))]
    };
    let mut given = Vec::new();
    for (i, low) in [true, false, true, false].into_iter().enumerate() {
        for (j, pools) in border(low).iter().enumerate() {
            let container = format!("c{i}{j}");
            // The pools that a selector chose before the border was moved again.
            let stopped = &border(!low)[j];
            for (network, pools) in [("red", pools), ("green", stopped)] {
                let output = shared.call_with("ADD", network, &container, pools).run();
                if output.status.success() {
                    given.extend(output.ips());
                } else {
                    assert_eq!(output.code(), 11, "{output:?}");
                }
            }
        }
    }
    given.sort();
    assert!(given.len() > 10, "{given:?}");
    let mut reserved = shared.0.reserved("pools");
    reserved.sort();
    assert_eq!(given, reserved);
    // Each is released, on whichever side of the border it is now.
    let [a, _] = border(true);
    for (ip, holder) in shared.files() {
        let mut lines = holder.split("\r\n");
        let (container, network) = (lines.next().unwrap(), lines.nth(1).unwrap());
        shared
            .call_with("DEL", network, container, &a)
            .run()
            .nothing();
        assert!(!shared.0.reserved("pools").contains(&ip));
    }
}
