//! Several IPv4 subnets on one network: the conflists and commands of
//! `docs/bridges-and-subnets.md`, with the reference main plugins.

use std::fs;

use harness::{Node, Sandbox, answer_of, needs};
use serde_json::{Value, json};

use harness::{blocks, document};

const PAGE: &str = "docs/bridges-and-subnets.md";

/// The conflist with this name on the page.
fn conflist(name: &str) -> Value {
    let conflists = blocks(&document(PAGE), "json");
    conflists
        .iter()
        .map(|block| serde_json::from_str::<Value>(block).unwrap())
        .find(|conflist| conflist["name"] == name)
        .unwrap_or_else(|| panic!("{PAGE} has no conflist {name}"))
}

/// The shell commands on the page that contain `part`.
fn commands(part: &str) -> String {
    let all = blocks(&document(PAGE), "sh");
    let mut found = all.into_iter().filter(|block| block.contains(part));
    found.next().unwrap_or_else(|| panic!("{PAGE}: {part}"))
}

/// A network of a conflist, on a separate node.
struct Network {
    node: Node,
    sandbox: Sandbox,
    config: Value,
}

impl Network {
    fn of(conflist: &Value) -> Self {
        let node = Node::new();
        node.sh("ip netns add c1; ip netns add c2; sysctl -qw net.ipv4.ip_forward=1");
        let sandbox = Sandbox::default();
        let mut config = conflist["plugins"][0].clone();
        config["cniVersion"] = conflist["cniVersion"].clone();
        config["name"] = conflist["name"].clone();
        config["ipam"]["dataDir"] = json!(sandbox.data_dir());
        config["ipam"]["stateDir"] = json!(sandbox.state_dir());
        Self {
            node,
            sandbox,
            config,
        }
    }

    /// A call of the main plugin.
    fn call(&self, command: &str, container: &str) -> harness::Output {
        self.sandbox
            .call_main_plugin(command, container, &self.config)
            .run_on(&self.node)
    }

    /// Sets the last given address, after which the rotation continues.
    fn continue_after(&self, last: &str) {
        let folder = self.sandbox.data_dir().join(self.name());
        fs::write(folder.join("last_reserved_ip.0"), last).unwrap();
    }

    /// Removes the interface that a failed ADD has left in the container.
    fn disconnect(&self, container: &str) {
        self.node
            .sh(&format!("ip netns exec {container} ip link del eth0"));
    }

    fn name(&self) -> &str {
        self.config["name"].as_str().unwrap()
    }

    fn pings(&self, from: &str, to: &str) -> bool {
        let ping = format!("ip netns exec {from} ping -c 1 -W 2 {to}");
        self.node.succeeds(&ping)
    }
}

#[track_caller]
fn assert_message(output: &harness::Output, part: &str) {
    let error = output.error();
    assert!(error["msg"].as_str().unwrap().contains(part), "{error}");
}

#[test]
fn slices_of_one_subnet_work_on_a_bridge_that_is_the_gateway() {
    needs!("root", "bridge", "/bin/ping");
    let network = Network::of(&conflist("slices"));
    let c1 = network.call("ADD", "c1").result();
    assert_eq!(answer_of(&c1), ["10.73.1.0"]);
    network.continue_after("10.73.1.255");
    let c2 = network.call("ADD", "c2").result();
    assert_eq!(answer_of(&c2), ["10.73.8.0"]);
    for (from, to) in [
        ("c1", "10.73.8.0"),
        ("c2", "10.73.1.0"),
        ("c2", "10.73.0.1"),
    ] {
        assert!(network.pings(from, to), "{from} to {to}");
    }
}

/// A limitation of upstream: `bridge` with `isGateway` accepts one IPv4 subnet.
#[test]
fn a_bridge_that_is_the_gateway_refuses_a_second_subnet_and_nothing_stays() {
    needs!("root", "bridge");
    let mut conflist = conflist("routed");
    conflist["plugins"][0]["isGateway"] = json!(true);
    let network = Network::of(&conflist);
    network.call("ADD", "c1").result();
    network.continue_after("10.71.0.254");
    let refused = network.call("ADD", "c2");
    assert_message(
        &refused,
        "already has an IP address different from 10.72.0.1/24",
    );
    assert_eq!(network.sandbox.reserved("routed"), ["10.71.0.2"]);
    assert_eq!(network.sandbox.records("routed"), ["c1:eth0.json"]);
}

/// A defect of `bridge`: with `forceAddress`, its containers lose the gateway.
#[test]
fn force_address_cuts_the_containers_of_the_first_subnet_off() {
    needs!("root", "bridge", "/bin/ping");
    let mut conflist = conflist("routed");
    conflist["plugins"][0]["isGateway"] = json!(true);
    conflist["plugins"][0]["forceAddress"] = json!(true);
    let network = Network::of(&conflist);
    network.call("ADD", "c1").result();
    assert!(network.pings("c1", "10.71.0.1"));
    network.continue_after("10.71.0.254");
    network.call("ADD", "c2").result();
    assert!(network.pings("c2", "10.72.0.1"));
    assert!(!network.pings("c1", "10.71.0.1"));
}

#[test]
fn a_bridge_without_gateway_takes_several_subnets_that_the_node_routes() {
    needs!("root", "bridge", "/bin/ping");
    let network = Network::of(&conflist("routed"));
    network.node.sh(&commands("type bridge"));
    network.call("ADD", "c1").result();
    network.continue_after("10.71.0.254");
    let c2 = network.call("ADD", "c2").result();
    assert_eq!(answer_of(&c2), ["10.72.0.2"]);
    for (from, to) in [
        ("c1", "10.72.0.2"),
        ("c2", "10.71.0.2"),
        ("c1", "10.71.0.1"),
    ] {
        assert!(network.pings(from, to), "{from} to {to}");
    }
    // The commands are idempotent: they may run at each boot.
    network.node.sh(&commands("type bridge"));
    let link = network.node.sh("ip link show routed0");
    assert!(link.contains("02:00:0a:47:00:01"), "{link}");
}

#[test]
fn ptp_takes_several_subnets() {
    needs!("root", "ptp", "/bin/ping");
    let network = Network::of(&conflist("links"));
    network.call("ADD", "c1").result();
    network.continue_after("10.81.0.254");
    let c2 = network.call("ADD", "c2").result();
    assert_eq!(answer_of(&c2), ["10.82.0.2"]);
    assert!(network.pings("c1", "10.82.0.2") && network.pings("c2", "10.81.0.2"));
}

/// A defect of upstream: after a failed first ADD, `bridge` leaves a bridge without a fixed MAC
/// address.
#[test]
fn a_half_made_bridge_is_mended_by_removing_it_or_by_an_address() {
    needs!("root", "bridge");
    let mut network = Network::of(&conflist("slices"));
    let ranges = network.config["ipam"]["ranges"].take();
    let half_make = |network: &mut Network| {
        network.config["ipam"]["ranges"] = json!([[{"subnet": "10.73.0.1/16"}]]);
        assert_message(&network.call("ADD", "c1"), "has host bits set");
        network.disconnect("c1");
        network.config["ipam"]["ranges"] = ranges.clone();
    };
    let commands = |part: &str| commands(part).replace("mynet0", "slices0");

    half_make(&mut network);
    assert_message(&network.call("ADD", "c1"), "could not set bridge's mac");
    network.disconnect("c1");
    assert!(network.sandbox.reserved("slices").is_empty());
    let connected = network.node.sh(&commands("ip link del"));
    assert_eq!(connected, "");
    network.call("ADD", "c1").result();
    network.call("DEL", "c1").nothing();

    network.node.sh("ip link del slices0");
    half_make(&mut network);
    network.node.sh(&commands("ip link set dev"));
    network.call("ADD", "c1").result();
    let link = network.node.sh("ip link show slices0");
    assert!(link.contains("02:00:0a:4d:00:01"), "{link}");
}
