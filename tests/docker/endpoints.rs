//! Each call of Docker's network protocol, as recorded from a real dockerd.

use std::collections::BTreeSet;
use std::fs;

use harness::{DockerDaemon, FakeDocker, Node, Sandbox, needs, repository};
use serde_json::{Value, json};

use harness::cni_network::{CALLS, configure, left};
use harness::waiting::wait_for;

/// The first endpoint of the recorded calls, and the name of its interface on the host.
const ENDPOINT: &str = "5760cf34a9e386f9d1f989b17bb20bccbf30aab6ee9adaf58a7217d3c6ad734c";
const OUTSIDE: &str = "cni5760cf34a9e3";

/// A node, and a sandbox with the network configuration `web`; nothing is running.
pub(crate) fn node() -> (Node, Sandbox) {
    let sandbox = Sandbox::default();
    configure(&sandbox, &json!({}), &[]);
    (Node::new(), sandbox)
}

/// A recorded call.
struct Recorded {
    path: String,
    body: String,
    answer: Value,
}

/// The recorded calls of a real dockerd, in order, for three networks: with the `null` IPAM
/// driver, with our IPAM driver and two families, and with Docker's own driver and `--internal`.
fn recorded() -> Vec<Recorded> {
    let file = repository().join("testdata/docker/network-driver-20.10.24.jsonl");
    let text = fs::read_to_string(file).unwrap();
    let call = |line: &str| {
        let mut call: Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| call[key].as_str().unwrap().to_owned();
        Recorded {
            path: text("path"),
            body: text("body"),
            answer: call["answer"].take(),
        }
    };
    text.lines().map(call).collect()
}

/// The first recorded call of this name.
pub(crate) fn call_of(name: &str) -> (String, String) {
    let path = format!("/NetworkDriver.{name}");
    let call = recorded().into_iter().find(|call| call.path == path);
    call.map(|call| (call.path, call.body)).unwrap()
}

/// An answer without the values that the kernel chooses.
fn without_chance(mut answer: Value) -> Value {
    if let Some(mac) = answer.pointer_mut("/Interface/MacAddress") {
        *mac = json!("random");
    }
    if let Some(result) = answer.pointer_mut("/Value/result") {
        *result = json!({"ips": result["ips"]});
    }
    answer
}

/// Makes the first recorded call of this name, which succeeds; returns the answer.
#[track_caller]
pub(crate) fn call(daemon: &DockerDaemon, name: &str) -> Value {
    let (path, body) = call_of(name);
    let answer = daemon.try_call(&path, &body).unwrap();
    let failed = answer.body.get("Err").is_some();
    assert!(answer.status == 200 && !failed, "{path}: {answer:?}");
    answer.body
}

/// Makes the first recorded call of this name, which fails; returns the message.
#[track_caller]
pub(crate) fn refused(daemon: &DockerDaemon, name: &str) -> String {
    let (path, body) = call_of(name);
    let body = serde_json::from_str(&body).unwrap();
    daemon.err(&path, &body)
}

#[track_caller]
pub(crate) fn assert_nothing_left(node: &Node, sandbox: &Sandbox, what: &str) {
    assert_eq!(sandbox.reserved("web"), [""; 0], "{what}");
    assert_eq!(sandbox.records("web"), [""; 0], "{what}");
    assert_eq!(left(node), [""; 0], "{what}");
    wait_for(|| sandbox.docker_files("endpoints").is_empty());
}

#[test]
fn the_calls_of_a_real_dockerd_are_answered_as_their_descriptions_say() {
    needs!("root", "bridge", "/sbin/ip");
    let (node, sandbox) = node();
    let daemon = DockerDaemon::start_on(&node, &sandbox, &[]);
    let mut paths = BTreeSet::new();
    for Recorded { path, body, answer } in recorded() {
        let whole = daemon.try_call(&path, &body).unwrap();
        assert_eq!(whole.status, 200, "{path} {body}: {whole:?}");
        let whole = whole.body;
        assert_eq!(without_chance(whole.clone()), answer, "{path} {body}");
        let named: Value = serde_json::from_str(&body).unwrap_or_default();
        let id = named["EndpointID"].as_str().unwrap_or_default();
        match path.strip_prefix("/NetworkDriver.").unwrap() {
            "CreateEndpoint" => {
                let inside = node.sh(&format!("ip -netns docker-{id} addr show dev eth0"));
                let mac = whole["Interface"]["MacAddress"].as_str();
                assert!(inside.contains(mac.unwrap_or_default()), "{inside}");
                assert!(inside.contains("inet 10.95.0."), "{inside}");
            }
            "Join" => {
                node.sh(&format!("ip link show dev cni{}", &id[..12]));
                // Repeated, as after a restart of the daemon.
                assert_eq!(daemon.try_call(&path, &body).unwrap().body, whole);
            }
            "Leave" if id == ENDPOINT => give_back(&node),
            _ => {}
        }
        paths.insert(path);
    }
    assert_eq!(
        paths,
        CALLS.map(|name| format!("/NetworkDriver.{name}")).into()
    );
    assert_nothing_left(&node, &sandbox, "");
    // Deleting again succeeds.
    for name in ["DeleteEndpoint", "Leave", "DeleteNetwork"] {
        assert_eq!(call(&daemon, name), json!({}));
    }
    for name in ["CreateEndpoint", "Join", "EndpointOperInfo"] {
        let said = refused(&daemon, name);
        assert!(said.starts_with("NetworkID: "), "{said}");
    }
}

/// Moves the interface back to the host, as Docker does after `Leave`.
fn give_back(node: &Node) {
    node.sh(&format!(
        "ip -netns docker-{ENDPOINT} link set eth0 name back
         ip -netns docker-{ENDPOINT} link set back name {OUTSIDE}
         ip -netns docker-{ENDPOINT} link set {OUTSIDE} netns $$"
    ));
}

#[test]
fn a_network_that_is_deleted_takes_its_endpoints_with_it() {
    needs!("root", "bridge", "/sbin/ip");
    let (node, sandbox) = node();
    let daemon = DockerDaemon::start_on(&node, &sandbox, &[]);
    for name in ["CreateNetwork", "CreateEndpoint", "Join"] {
        call(&daemon, name);
    }
    daemon.kill();
    let daemon = DockerDaemon::start_on(&node, &sandbox, &[]);
    assert_eq!(left(&node).len(), 3);
    call(&daemon, "DeleteNetwork");
    assert_nothing_left(&node, &sandbox, "");
}

/// A fake Docker with the network of the recorded calls, with or without the first endpoint.
pub(crate) fn docker(sandbox: &Sandbox, has_endpoint: bool) -> FakeDocker {
    let (_, body) = call_of("CreateEndpoint");
    let body: Value = serde_json::from_str(&body).unwrap();
    // As Docker shows an endpoint that hasn't joined a container.
    let containers = if has_endpoint {
        json!({"ep-1": {"Name": "c", "EndpointID": body["EndpointID"]}})
    } else {
        json!({})
    };
    let ipam = json!({"Driver": "null", "Config": []});
    let network = json!({"Name": "net", "IPAM": ipam, "Containers": containers});
    let id = body["NetworkID"].as_str().unwrap().to_owned();
    FakeDocker::start(sandbox, [(id, network)].into())
}

#[test]
fn an_endpoint_that_docker_has_is_kept_and_another_one_is_undone() {
    needs!("root", "bridge", "/sbin/ip");
    for has_endpoint in [true, false] {
        for joins in [false, true] {
            let (node, sandbox) = node();
            let daemon = DockerDaemon::start_on(&node, &sandbox, &[]);
            call(&daemon, "CreateNetwork");
            call(&daemon, "CreateEndpoint");
            if joins {
                call(&daemon, "Join");
            }
            let made = left(&node).len();
            assert_eq!(made, 2 + usize::from(joins));
            daemon.kill();
            let _docker = docker(&sandbox, has_endpoint);
            let arguments = ["--unanswered-after=0s", "--log=debug"];
            let daemon = DockerDaemon::start_on(&node, &sandbox, &arguments);
            wait_for(|| comparisons(&sandbox) > 1);
            if has_endpoint {
                assert_eq!(left(&node).len(), made);
                call(&daemon, "DeleteEndpoint");
            }
            // Another thread of the daemon may have begun the undo before the comparisons.
            wait_for(|| sandbox.docker_files("endpoints").is_empty());
            assert_nothing_left(&node, &sandbox, &format!("joins: {joins}"));
        }
    }
}

/// Number of comparisons with Docker that the daemon has completed.
fn comparisons(sandbox: &Sandbox) -> usize {
    let log = fs::read_to_string(sandbox.root().join("docker-log")).unwrap();
    log.matches("compared with Docker").count()
}

#[test]
fn an_endpoint_of_an_id_that_was_used_before_is_undone_with_its_rules() {
    needs!("root", "bridge", "/sbin/ip", "/usr/sbin/iptables");
    let (node, sandbox) = node();
    configure(&sandbox, &json!({"ipMasq": true}), &[]);
    let daemon = DockerDaemon::start_on(&node, &sandbox, &[]);
    call(&daemon, "CreateNetwork");
    let rules = || node.sh("iptables-save -t nat; ip6tables-save -t nat");
    for ends_with_its_container in [false, true, false] {
        call(&daemon, "CreateEndpoint");
        assert!(rules().contains("CNI-"));
        call(&daemon, "Join");
        // Docker moves it into the container, where it loses its addresses.
        node.sh(&format!("ip netns add c && ip link set {OUTSIDE} netns c"));
        if !ends_with_its_container {
            node.sh(&format!("ip -n c link set {OUTSIDE} netns $$"));
        }
        node.sh("ip netns delete c");
        call(&daemon, "Leave");
        call(&daemon, "DeleteEndpoint");
        assert!(!rules().contains("CNI-"), "{}", rules());
        assert_nothing_left(&node, &sandbox, "its ID is used again");
    }
    call(&daemon, "CreateEndpoint");
    call(&daemon, "DeleteNetwork");
    assert!(!rules().contains("CNI-"), "{}", rules());
    assert_nothing_left(&node, &sandbox, "undone with its network");
}
