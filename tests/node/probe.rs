//! `ipam-dc-probe` between network namespaces: the node `eth1`, and other machines on its wire.

use std::thread;

use harness::{ALLOCATOR, Background, Call, Node, Output, Sandbox, answer_of, assert_has, needs};
use serde_json::{Value, json};

const PROBE: &str = "ipam-dc-probe";
const PYTHON: &str = "/usr/bin/python3";

/// Another machine on the wire, without an address of its own. It prints `ready`, and answers each
/// question (ARP, neighbour solicitation) as the body of `answer` says, which is written behind
/// this.
const MACHINE: &str = r#"
import socket, sys, time
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
wire.bind(("wire0", 0))
mac = wire.getsockname()[4]
other = bytes.fromhex("02000000aaaa")

def has(frame, mac):
    "The answer that this MAC address has the address."
    to = frame[6:12]
    if frame[12:14] == b"\x08\x06":
        return to + mac + frame[12:20] + b"\0\2" + mac + frame[38:42] + to + frame[28:32]
    message = b"\x88\0\0\0\x20\0\0\0" + frame[62:78] + b"\2\1" + mac
    packet = b"\x60\0\0\0\0\x20\x3a\xff" + frame[62:78] + bytes.fromhex("ff02" + "00" * 13 + "01")
    return bytes.fromhex("333300000001") + mac + b"\x86\xdd" + packet + message

def asks(frame):
    "The same question, by this machine."
    if frame[12:14] == b"\x08\x06":
        return frame[:6] + mac + frame[12:22] + mac + frame[28:]
    return frame[:6] + mac + frame[12:]

def is_question(frame):
    is_arp = frame[12:14] == b"\x08\x06" and frame[20:22] == b"\0\1" and frame[28:32] == bytes(4)
    is_ndp = frame[12:14] == b"\x86\xdd" and frame[20] == 58 and frame[54] == 135
    return frame[6:12] != mac and (is_arp or is_ndp and frame[22:38] == bytes(16))

"#;

/// The node, and a machine `foreign` on the wire of its `eth1`, whose kernel answers for the
/// addresses that it has.
struct Wire {
    node: Node,
    sandbox: Sandbox,
    config: Value,
}

impl Wire {
    /// A chain with this range of IPv4 addresses, in `10.9.0.0/24`, and these keys of `ipam.probe`.
    fn new(range: [&str; 2], probe: &Value) -> Self {
        let [start, end] = range;
        let range = json!({"subnet": "10.9.0.0/24", "rangeStart": start, "rangeEnd": end});
        Self::with_ranges(&json!([[range]]), probe)
    }

    fn with_ranges(ranges: &Value, probe: &Value) -> Self {
        let node = Node::new();
        node.sh("ip netns add foreign
             ip link add eth1 type veth peer name wire0 netns foreign
             ip link set eth1 up; ip -n foreign link set wire0 up");
        let sandbox = Sandbox::default();
        let ipam = json!({"ranges": ranges, "probe": probe});
        let delegates = ["ipam-ds-ranges", ALLOCATOR, PROBE];
        let mut config = sandbox.config("1.1.0", &delegates, &ipam);
        config["type"] = json!("macvlan");
        config["master"] = json!("eth1");
        Self {
            node,
            sandbox,
            config,
        }
    }

    /// Gives the other machine an address.
    fn take(&self, address: &str) {
        let nodad = if address.contains(':') { "nodad" } else { "" };
        self.node.sh(&format!(
            "ip -n foreign addr add {address} dev wire0 {nodad}"
        ));
    }

    /// Starts another machine that answers each question by these statements of Python.
    fn machine(&self, answer: &str) -> Background {
        let script = format!(
            "{MACHINE}print('ready', flush=True)\nwhile True:\n    frame = wire.recv(2000)\n    if is_question(frame):\n        {answer}\n"
        );
        let mut command = self.node.command("ip");
        Background::until_ready(command.args(["netns", "exec", "foreign", PYTHON, "-c", &script]))
    }

    fn call(&self, command: &str, container: &str) -> Call {
        self.sandbox.chain_call(command, container, &self.config)
    }

    fn add(&self, container: &str) -> Output {
        self.call("ADD", container).run_on(&self.node)
    }

    fn mac(&self) -> String {
        let mac = self.node.sh("ip -n foreign -br link show wire0");
        mac.split_whitespace().nth(2).unwrap().to_owned()
    }

    /// Checks that ADD is refused since somebody has this address, and that nothing is left.
    #[track_caller]
    fn assert_in_use(&self, output: &Output, address: &str, mac: &str) {
        let error = output.error();
        assert_eq!(error["code"], 115, "{error}");
        let expected = format!(
            "{PROBE}: {address} is in use on the wire of eth1: {mac} has it, or asks for it, too"
        );
        assert_eq!(error["msg"], expected.as_str());
        let details = error["details"].as_str().unwrap();
        assert!(
            details.contains("put it into the pool's exclude"),
            "{error}"
        );
        assert!(!self.reserved().contains(&address.to_owned()));
    }

    fn reserved(&self) -> Vec<String> {
        self.sandbox.reserved("testnet")
    }
}

const OTHER_MAC: &str = "02:00:00:00:aa:aa";

#[test]
fn an_address_that_a_machine_has_is_refused_and_the_next_add_gets_another_one() {
    needs!("root");
    let ranges = json!([[{"subnet": "10.9.0.0/24"}], [{"subnet": "fd00:9::/64"}]]);
    let wire = Wire::with_ranges(&ranges, &json!({}));
    wire.take("10.9.0.2/24");
    wire.take("fd00:9::3/64");
    wire.assert_in_use(&wire.add("c1"), "10.9.0.2", &wire.mac());
    assert!(wire.reserved().is_empty() && wire.sandbox.records("testnet").is_empty());
    wire.assert_in_use(&wire.add("c1"), "fd00:9::3", &wire.mac());
    let added = wire.add("c1").result();
    assert_eq!(answer_of(&added), ["10.9.0.4", "fd00:9::4"]);
    assert_eq!(wire.reserved(), ["10.9.0.4", "fd00:9::4"]);
}

#[test]
fn the_result_is_the_allocators_and_only_add_asks() {
    needs!("root");
    let mut wire = Wire::new(["10.9.0.2", "10.9.0.9"], &json!({}));
    let with = wire.add("c1").result();
    wire.config["ipam"]["delegates"] = json!(["ipam-ds-ranges", ALLOCATOR]);
    let without = wire.add("c2").result();
    assert_eq!(answer_of(&with), ["10.9.0.2"]);
    let text = with.to_string().replace("10.9.0.2", "10.9.0.3");
    assert_eq!(text, without.to_string());

    wire.config["ipam"]["delegates"] = json!(["ipam-ds-ranges", ALLOCATOR, PROBE]);
    wire.take("10.9.0.2/24");
    wire.config["prevResult"] = with;
    wire.call("CHECK", "c1").run_on(&wire.node).nothing();
    wire.call("STATUS", "c1").run_on(&wire.node).nothing();
    // Not even the interface is needed.
    wire.node.sh("ip link del eth1");
    wire.call("DEL", "c1").run_on(&wire.node).nothing();
    wire.config["cni.dev/valid-attachments"] = json!([]);
    wire.call("GC", "c1").run_on(&wire.node).nothing();
    assert!(wire.reserved().is_empty());
}

#[test]
fn answers_that_come_late_or_twice_count() {
    needs!("root", PYTHON);
    let wire = Wire::new(["10.9.0.2", "10.9.0.9"], &json!({"count": 1, "wait": "5s"}));
    {
        let _late = wire.machine("time.sleep(1); wire.send(has(frame, mac))");
        wire.assert_in_use(&wire.add("c1"), "10.9.0.2", &wire.mac());
    }
    let _twice = wire.machine("wire.send(has(frame, other)); wire.send(has(frame, mac))");
    wire.assert_in_use(&wire.add("c1"), "10.9.0.3", OTHER_MAC);
}

#[test]
fn the_second_question_is_answered_by_a_machine_that_has_missed_the_first() {
    needs!("root", PYTHON);
    let wire = Wire::new(["10.9.0.2", "10.9.0.9"], &json!({"count": 2, "wait": "1s"}));
    let _deaf = wire.machine("wire.recv(2000); wire.send(has(frame, mac))");
    wire.assert_in_use(&wire.add("c1"), "10.9.0.2", &wire.mac());
}

#[test]
fn a_machine_that_asks_for_the_same_address_counts() {
    needs!("root", PYTHON);
    let ranges = json!([[{"subnet": "10.9.0.0/24"}]]);
    let six = json!([[{"subnet": "fd00:9::/64"}]]);
    for (ranges, address) in [(ranges, "10.9.0.2"), (six, "fd00:9::2")] {
        let wire = Wire::with_ranges(&ranges, &json!({"count": 1, "wait": "5s"}));
        let _machine = wire.machine("wire.send(asks(frame))");
        wire.assert_in_use(&wire.add("c1"), address, &wire.mac());
    }
}

/// Linux doesn't answer a probe by proxy ARP, but other routers do. With such a router, the probe
/// finds no free address, on IPv4 and on IPv6.
#[test]
fn a_router_that_answers_for_everything_leaves_no_address() {
    needs!("root", PYTHON);
    let ranges = json!([[{"subnet": "10.9.0.0/24"}], [{"subnet": "fd00:9::/64"}]]);
    let mut wire = Wire::with_ranges(&ranges, &json!({}));
    let router = wire.machine("wire.send(has(frame, mac))");
    for address in ["10.9.0.2", "10.9.0.3"] {
        wire.assert_in_use(&wire.add("c1"), address, &wire.mac());
    }
    // The documented way out: an interface that the router isn't on, or no probe.
    wire.node
        .sh("ip link add quiet type veth peer name end; ip link set quiet up; ip link set end up");
    wire.config["ipam"]["probe"] = json!({"interface": "quiet"});
    wire.add("c1").result();
    drop(router);
    wire.config["ipam"]["probe"] = json!({});
    wire.take("10.9.0.0/16");
    wire.node
        .sh("ip netns exec foreign sysctl -qw net.ipv4.conf.all.proxy_arp=1");
    wire.add("c2").result();
}

#[test]
fn a_flood_hides_no_answer() {
    needs!("root", PYTHON);
    let wire = Wire::new(["10.9.0.2", "10.9.0.9"], &json!({"count": 1, "wait": "5s"}));
    // Until the answer goes out, the wire is full of ARP packets about others and of UDP.
    let _flood = wire.machine(
        "udp = bytes.fromhex('ffffffffffff') + mac + bytes.fromhex('0800') + bytes(1000)
        arp = has(frame, mac)[:28] + bytes([10, 9, 9, 9]) + bytes(10)
        arp = bytes.fromhex('ffffffffffff') + arp[6:]
        for i in range(20000): wire.send(udp); wire.send(arp)
        wire.send(has(frame, mac))",
    );
    wire.assert_in_use(&wire.add("c1"), "10.9.0.2", &wire.mac());
}

#[test]
fn of_fifty_adds_at_once_none_gets_an_address_that_somebody_has() {
    needs!("root");
    let wire = Wire::new(["10.9.0.2", "10.9.0.200"], &json!({}));
    let taken: Vec<String> = (1..=10).map(|i| format!("10.9.0.{}", i * 5)).collect();
    for address in &taken {
        wire.take(&format!("{address}/24"));
    }
    let containers: Vec<String> = (0..50).map(|i| format!("c{i}")).collect();
    let outputs: Vec<Output> = thread::scope(|scope| {
        let wire = &wire;
        let add = |container: &'_ String| {
            let container = container.clone();
            scope.spawn(move || wire.add(&container))
        };
        let running: Vec<_> = containers.iter().map(add).collect();
        running.into_iter().map(|add| add.join().unwrap()).collect()
    });
    let mut given = Vec::new();
    for output in &outputs {
        if output.status.success() {
            given.extend(output.ips());
        } else {
            assert_eq!(output.code(), 115, "{output:?}");
        }
    }
    given.sort();
    assert_eq!(wire.reserved(), given);
    assert_eq!(given.len(), 40, "{given:?}");
    assert!(!taken.iter().any(|address| given.contains(address)));
}

#[test]
fn who_can_not_be_asked_is_refused_by_name_and_nothing_is_left() {
    needs!("root", "/usr/bin/setpriv");
    let wire = Wire::new(["10.9.0.2", "10.9.0.9"], &json!({}));
    let refused = |by: &str, code: u64, why: &str| {
        wire.node.sh(by);
        let add = wire.add("c1");
        add.refused(
            code,
            &format!("{PROBE}: master: the host's interface \"eth1\" {why}"),
        );
        assert!(wire.reserved().is_empty(), "{why}");
        let status = wire.call("STATUS", "c1");
        status.run_on(&wire.node).refused(50, why);
    };
    let unprivileged = |command: &str| {
        let call = wire.call(command, "c1");
        let call = call.through(&["/usr/bin/setpriv", "--bounding-set=-net_raw"]);
        call.run_on(&wire.node)
    };
    unprivileged("ADD").refused(5, "CAP_NET_RAW");
    unprivileged("STATUS").refused(50, "CAP_NET_RAW");
    assert!(wire.reserved().is_empty());
    let no_carrier = "has no carrier";
    refused("ip -n foreign link set wire0 down", 11, no_carrier);
    let down = "is down";
    refused("ip link set eth1 down", 5, down);
    refused("ip link del eth1", 5, "is missing");
}

#[test]
fn a_bridge_is_asked_once_somebody_is_connected() {
    needs!("root");
    let mut wire = Wire::new(["10.9.0.2", "10.9.0.9"], &json!({}));
    wire.take("10.9.0.3/24");
    wire.config["type"] = json!("bridge");
    wire.config["bridge"] = json!("br7");
    // The first ADD will make it.
    let status = wire.call("STATUS", "c1");
    status.run_on(&wire.node).nothing();
    wire.add("c1")
        .refused(5, "bridge: the host's interface \"br7\" is missing");
    wire.node
        .sh("ip link add br7 type bridge; ip link set br7 up");
    assert_eq!(wire.add("c1").ips(), ["10.9.0.3"]);
    wire.call("DEL", "c1").run_on(&wire.node).nothing();
    wire.node.sh("ip link set eth1 master br7");
    assert_eq!(wire.add("c1").ips(), ["10.9.0.4"]);
    for _ in 0..5 {
        wire.add("c2").result();
        wire.call("DEL", "c2").run_on(&wire.node).nothing();
    }
    wire.add("c2").result();
    wire.add("c3")
        .refused(115, "10.9.0.3 is in use on the wire of br7");
}

#[test]
fn a_requested_address_that_somebody_has_is_refused_each_time_and_so_is_the_hosts() {
    needs!("root");
    let wire = Wire::new(["10.9.0.2", "10.9.0.9"], &json!({}));
    wire.take("10.9.0.7/24");
    wire.node.sh("ip addr add 10.9.0.8/24 dev eth1");
    let own_mac = wire.node.sh("ip -br link show eth1");
    let own_mac = own_mac.split_whitespace().nth(2).unwrap().to_owned();
    let request = |ip: &str| {
        let call = wire.call("ADD", "c1").env("CNI_ARGS", format!("IP={ip}"));
        call.run_on(&wire.node)
    };
    for _ in 0..2 {
        let output = request("10.9.0.7");
        wire.assert_in_use(&output, "10.9.0.7", &wire.mac());
        let details = output.error()["details"].to_string();
        assert_has(&details, ["pinned or sticky: then every ADD is refused"]);
    }
    wire.assert_in_use(&request("10.9.0.8"), "10.9.0.8", &own_mac);
    assert_eq!(request("10.9.0.6").ips(), ["10.9.0.6"]);
}

#[test]
fn an_owners_address_is_not_asked_for() {
    needs!("root");
    let mut wire = Wire::new(["10.9.0.2", "10.9.0.9"], &json!({}));
    wire.take("10.9.0.7/24");
    let result = |owned: &str| {
        format!(
            "[ $CNI_COMMAND = ADD ] && echo '{{\"ips\":[{{\"address\":\"10.9.0.7/24\"}}]{owned}}}'"
        )
    };
    wire.sandbox.write_executable(
        "owns",
        &format!("#!/bin/sh\n{}\n", result(",\"owned\":[\"10.9.0.7\"]")),
    );
    wire.sandbox
        .write_executable("holds", &format!("#!/bin/sh\n{}\n", result("")));
    wire.config["ipam"]["delegates"] = json!(["owns", PROBE]);
    let added = wire.add("c1").result();
    assert_eq!(added["owned"], json!(["10.9.0.7"]));
    wire.config["ipam"]["delegates"] = json!(["holds", PROBE]);
    wire.assert_in_use(&wire.add("c2"), "10.9.0.7", &wire.mac());
}

#[test]
fn macvlan_gives_a_container_the_first_address_that_nobody_has() {
    needs!("root", "macvlan", "/bin/ping");
    let mut wire = Wire::new(["10.9.0.2", "10.9.0.9"], &json!({}));
    wire.config["cniVersion"] = json!("1.0.0");
    wire.take("10.9.0.2/24");
    wire.node.sh("ip netns add c1; ip netns add c2");
    let add = |container: &str| {
        let call = wire
            .sandbox
            .call_main_plugin("ADD", container, &wire.config);
        call.run_on(&wire.node)
    };
    wire.assert_in_use(&add("c1"), "10.9.0.2", &wire.mac());
    // macvlan leaves its interface behind; a runtime begins anew with another namespace.
    assert_eq!(add("c2").ips(), ["10.9.0.3"]);
    wire.node.sh("ip netns exec c2 ping -c 1 -W 5 10.9.0.2");
}
