//! A real dockerd whose networks are CNI networks: their plugins create the containers'
//! interfaces.

use std::collections::BTreeSet;
use std::fs;

use harness::{Dockerd, assert_has, needs};
use serde_json::{Value, json};

use crate::dockerd::{create_cni, reserved};
use harness::cni_network::{CALLS, configure, configure_plugins, left};

/// dockerd with the network configuration `web`: a bridge with two families, routes, and Docker's
/// MAC address.
pub(crate) fn start(options: &[&str]) -> Option<Dockerd> {
    let docker = Dockerd::start(options)?;
    let routes = [
        json!({"dst": "10.123.0.0/16", "gw": "10.95.0.9"}),
        json!({"dst": "::/0"}),
        json!({"dst": "fd00:123::/48", "gw": "fd00:95::9"}),
    ];
    let more = json!({"mtu": 1400, "capabilities": {"mac": true}});
    configure(&docker.sandbox, &more, &routes);
    Some(docker)
}

pub(crate) fn create(docker: &Dockerd, name: &str, options: &[&str]) {
    create_cni(docker, name, &[options, &["--opt=conflist=web"]].concat());
}

/// Checks that nothing of a network's containers is left.
#[track_caller]
pub(crate) fn assert_nothing_left(docker: &Dockerd) {
    assert_eq!(reserved(docker), BTreeSet::new());
    assert_eq!(left(&docker.node), [""; 0]);
    docker.wait(|docker| docker.sandbox.docker_files("endpoints").is_empty());
    docker.wait(|docker| docker.sandbox.docker_files("addresses").is_empty());
}

#[test]
fn a_network_without_addresses_of_dockers_has_the_configurations() {
    needs!("bridge", "static", "/sbin/ip");
    let Some(docker) = start(&[]) else {
        return;
    };
    let docker = &docker;
    create(docker, "net", &["--ipam-driver=null"]);
    docker.run("net", "c1", &[]);
    let mac = "02:42:00:0a:5f:03";
    docker.run("net", "c2", &["--mac-address", mac]);
    let link = docker.says("exec c2 /bin/ip link show eth0");
    assert!(link.contains(mac), "{link}");
    assert_eq!(
        [docker.address("net", "c1"), docker.address("net", "c2")],
        ["10.95.0.2", "10.95.0.3"]
    );
    let inside = docker.says("exec c1 /bin/ip addr");
    assert_has(
        &inside,
        [
            "eth0",
            "mtu 1400",
            "inet 10.95.0.2/24",
            "inet6 fd00:95::2/64",
        ],
    );
    // No other interface: Docker adds none for outgoing traffic.
    assert!(!inside.contains("eth1"), "{inside}");
    let routes = docker.says("exec c1 /bin/ip route");
    assert_has(
        &routes,
        [
            "default via 10.95.0.1 dev eth0",
            "10.123.0.0/16 via 10.95.0.9 dev eth0",
        ],
    );
    let routes = docker.says("exec c1 /bin/ip -6 route");
    assert_has(
        &routes,
        [
            "default via fd00:95::1 dev eth0",
            "fd00:123::/48 via fd00:95::9 dev eth0",
        ],
    );
    docker.ping("c1", "10.95.0.3");
    docker.ping("c1", "10.95.0.1");
    let format = "{{json .NetworkSettings.Networks.net}}";
    let json = docker.ok(&["inspect", "--format", format, "c1"]);
    let shown: Value = serde_json::from_str(&json).unwrap();
    assert!(
        inside.contains(shown["MacAddress"].as_str().unwrap()),
        "{shown}: {inside}"
    );
    // After a restart, it has exactly one interface, the same or a new one.
    docker.says("restart --time=0 c1");
    docker.ping("c1", "10.95.0.3");
    docker.says("network disconnect net c2");
    assert_eq!(docker.sandbox.reserved("web").len(), 2);
    docker.says("network connect net c2");
    docker.ping("c2", &docker.address("net", "c1"));
    // A route without a gateway.
    let ipam = json!({"type": "static", "addresses": [{"address": "10.98.0.5/24"}], "routes": [{"dst": "10.97.0.0/16"}]});
    let bridge = json!({"type": "bridge", "bridge": "direct0", "ipam": ipam});
    configure_plugins(&docker.sandbox, "direct", &[bridge]);
    let direct = ["--ipam-driver=null", "--opt=conflist=direct"];
    create_cni(docker, "direct", &direct);
    let routes = docker.says("run --rm --network=direct test /bin/ip route");
    assert!(
        routes.contains("10.97.0.0/16 dev eth0") && !routes.contains("default"),
        "{routes}"
    );
    docker.says("network rm direct");
    create(docker, "inner", &["--ipam-driver=null", "--internal"]);
    docker.run("inner", "i1", &[]);
    let routes = docker.says("exec i1 /bin/ip route");
    assert!(
        !routes.contains("default") && routes.contains("10.123.0.0/16"),
        "{routes}"
    );
    docker.says("rm --force c1 c2 i1");
    docker.says("network rm net inner");
    assert_nothing_left(docker);
    assert!(docker.sandbox.docker_files("networks").is_empty());
    let called: BTreeSet<String> = docker
        .called()
        .iter()
        .filter_map(|path| Some(path.strip_prefix("/NetworkDriver.")?.to_owned()))
        .collect();
    assert_eq!(called, CALLS.map(str::to_owned).into());
}

#[test]
fn a_network_with_addresses_of_dockers_has_these() {
    needs!("bridge", "static", "/sbin/ip");
    let Some(mut docker) = start(&[]) else {
        return;
    };
    let docker = &mut docker;
    let ours = ["--ipam-driver=ipam-delegated", "--ipam-opt=conflist=web"];
    create(
        docker,
        "ours",
        &[&ours[..], &["--subnet=10.95.0.0/24"]].concat(),
    );
    // A configuration without a subnet.
    let bridge = json!({"type": "bridge", "bridge": "plain0", "isGateway": true, "ipam": {"type": "host-local"}});
    configure_plugins(&docker.sandbox, "plain", &[bridge]);
    let plain = ["--subnet=10.96.0.0/24", "--opt=conflist=plain"];
    create_cni(docker, "dockers", &plain);
    docker.run("ours", "c1", &["--ip=10.95.0.77"]);
    docker.run("ours", "c2", &[]);
    docker.run("dockers", "d1", &[]);
    docker.run("dockers", "d2", &[]);
    assert_eq!(docker.address("ours", "c1"), "10.95.0.77");
    for (from, to, network) in [("c2", "c1", "ours"), ("d2", "d1", "dockers")] {
        docker.ping(from, &docker.address(network, to));
        let inside = docker.ok(&["exec", from, "/bin/ip", "addr"]);
        assert!(inside.contains(&docker.address(network, from)), "{inside}");
    }
    let by_docker = [docker.address("ours", "c1"), docker.address("ours", "c2")];
    assert_eq!(reserved(docker), by_docker.into());
    docker.says("rm --force c1 c2 d1 d2");
    docker.says("network rm ours dockers");
    docker.sweep();
    assert_nothing_left(docker);
}

#[test]
fn what_cannot_be_plumbed_is_refused_and_leaves_nothing() {
    needs!("bridge", "static", "/sbin/ip");
    let Some(docker) = start(&[]) else {
        return;
    };
    let docker = &docker;
    let without = "network create --driver=ipam-delegated --ipam-driver=null x";
    assert!(docker.refuses(without).contains("give -o conflist=NAME"));
    let unknown = format!("{without} --opt=conflist=nobody");
    assert!(docker.refuses(&unknown).contains("has the name \"nobody\""));
    create(docker, "net", &["--ipam-driver=null"]);
    let file = docker.sandbox.conf_dir().join("web.conflist");
    let list = fs::read_to_string(&file).unwrap();
    let mut broken: Value = serde_json::from_str(&list).unwrap();
    // The second plugin fails after the first one has created its interface.
    let plugins = broken["plugins"].as_array_mut().unwrap();
    plugins.push(json!({"type": "fails"}));
    docker.sandbox.write_executable("fails", "#!/bin/sh\n[ $CNI_COMMAND = ADD ] || exit 0\necho '{\"code\": 120, \"msg\": \"not today\"}'; exit 1");
    fs::write(&file, broken.to_string()).unwrap();
    let said = docker.refuses("run --rm --network=net test /bin/true");
    assert!(said.contains("network web: fails: not today"), "{said}");
    assert_nothing_left(docker);
    fs::remove_file(docker.sandbox.plugins().join("fails")).unwrap();
    let said = docker.refuses("run --rm --network=net test /bin/true");
    assert_has(&said, ["network web: fails: no such plugin in"]);
    assert_nothing_left(docker);
    fs::write(&file, list).unwrap();
    docker.says("run --rm --network=net test /bin/ping -c1 10.95.0.1");
    assert_nothing_left(docker);
}
