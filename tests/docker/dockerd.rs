//! A real dockerd whose networks get their addresses from a chain.

mod and_podman;
mod as_own;
mod killed;
mod killed_in_flight;
mod networks;
mod plumbing;
mod swarm;

use std::collections::BTreeSet;
use std::fs;

use harness::cni_network::{configure_plugins, ipam};
use harness::{Dockerd, assert_has};
use serde_json::{Value, json};

const CREATE: [&str; 3] = ["network", "create", "--ipam-driver=ipam-delegated"];

/// Creates a network by CNI plugins, with these options.
#[track_caller]
pub(crate) fn create_cni(docker: &Dockerd, name: &str, options: &[&str]) {
    let line = ["network", "create", "--driver=ipam-delegated"];
    docker.ok(&[&line, options, &[name]].concat());
}

/// Creates a network whose addresses are the daemon's, with these options.
#[track_caller]
pub(crate) fn create(docker: &Dockerd, name: &str, options: &[&str]) {
    docker.ok(&[&CREATE, options, &[name]].concat());
}

/// The subnets and gateways of a network, as Docker shows them.
fn subnets(docker: &Dockerd, network: &str) -> Value {
    let format = "{{json .IPAM.Config}}";
    let json = docker.ok(&["network", "inspect", "--format", format, network]);
    serde_json::from_str(&json).unwrap()
}

/// The addresses of these running containers in the network `net`.
#[track_caller]
pub(crate) fn addresses(docker: &Dockerd, names: &[&str]) -> BTreeSet<String> {
    let given: BTreeSet<String> = names
        .iter()
        .map(|name| docker.address("net", name))
        .collect();
    assert!(
        given.len() == names.len() && !given.contains(""),
        "{given:?}"
    );
    given
}

/// All reserved addresses of all networks and pools, except gateways: the first address of each
/// subnet.
pub(crate) fn reserved(docker: &Dockerd) -> BTreeSet<String> {
    let networks = fs::read_dir(docker.sandbox.data_dir())
        .into_iter()
        .flatten();
    let names = networks.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names
        .flat_map(|name| docker.sandbox.reserved(&name))
        .filter(|ip| !ip.ends_with(".1") && !ip.ends_with("::1"))
        .collect()
}

/// Waits until no other IPv4 address is reserved; these must be.
#[track_caller]
pub(crate) fn wait_for_only(docker: &Dockerd, given: &BTreeSet<String>) {
    let v4 = |ip: &String| ip.contains('.');
    let held = || -> BTreeSet<String> { reserved(docker).into_iter().filter(v4).collect() };
    docker.wait(|_| held().len() <= given.len());
    assert_eq!(held(), *given);
}

#[test]
fn networks_have_what_they_ask_for() {
    let Some(mut docker) = Dockerd::start(&[]) else {
        return;
    };
    create(&docker, "plain", &[]);
    assert_eq!(
        subnets(&docker, "plain"),
        json!([{"Subnet": "10.201.0.0/24", "Gateway": "10.201.0.1"}])
    );
    let options = [
        "--subnet=10.88.0.0/16",
        "--ip-range=10.88.5.0/24",
        "--gateway=10.88.0.254",
        "--aux-address=router=10.88.5.1",
        "--aux-address=printer=10.88.77.7",
    ];
    create(&docker, "full", &options);
    docker.run("full", "c1", &[]);
    docker.run("full", "c2", &["--ip=10.88.200.9"]);
    let first = docker.address("full", "c1");
    assert_eq!(first, "10.88.5.0");
    assert_eq!(docker.address("full", "c2"), "10.88.200.9");
    for (ip, why) in [
        ("10.88.5.1", "10.88.5.1"),
        ("10.88.77.7", "10.88.77.7"),
        (&first, &first),
        ("10.88.0.254", "10.88.0.254"),
        ("10.88.0.0", "the network's own address"),
        ("10.88.255.255", "the broadcast address"),
    ] {
        let run = format!("run --rm --network=full --ip {ip} test /bin/true");
        let said = docker.refuses(&run);
        assert!(said.contains(why), "{said}");
    }
    docker.ping("c1", "10.88.200.9");
    docker.ping("c1", "10.88.0.254");
    // IPv6 with a subnet, and from the default pools.
    create(&docker, "six", &["--ipv6", "--subnet=fd00:88::/64"]);
    docker.run("six", "c6", &[]);
    let inside = docker.says("exec c6 /bin/ip addr");
    assert_has(&inside, ["inet 10.201.1.2/24", "inet6 fd00:88::2/64"]);
    create(&docker, "inner", &["--internal", "--subnet=10.90.0.0/24"]);
    docker.run("inner", "i1", &[]);
    docker.run("inner", "i2", &[]);
    docker.ping("i1", &docker.address("inner", "i2"));
    // As in a network with Docker's own IPAM.
    docker.says("network create --internal --subnet=10.91.0.0/24 dockers");
    docker.run("dockers", "d1", &[]);
    let routes = |name| docker.ok(&["exec", name, "/bin/ip", "route"]);
    let expected = routes("d1").replace("10.91.0.", "10.90.0.");
    assert_eq!(routes("i1"), expected);
    // Docker's bridge driver refuses two networks with one subnet; nothing is left.
    let same = [&CREATE[..], &["--subnet=10.88.0.0/17", "again"]].concat();
    let said = docker.err(&same);
    assert!(said.contains("overlap"), "{said}");
    // A pool of a network configuration, also if it overlaps with a route of the host: without the
    // check, Docker would retry endlessly.
    let ipam = ipam(&docker.sandbox, &json!([[{"subnet": "10.92.0.0/24"}]]));
    let bridge = json!({"type": "bridge", "ipam": ipam});
    configure_plugins(&docker.sandbox, "shared", &[bridge]);
    create(&docker, "shared", &["--ipam-opt=conflist=shared"]);
    let expected = json!([{"Subnet": "10.92.0.0/24", "Gateway": "10.92.0.1"}]);
    assert_eq!(subnets(&docker, "shared"), expected);
    for (name, why) in [
        ("shared", "overlaps with the route 10.92.0.0/24 of br-"),
        ("nobody", "has the name \"nobody\""),
    ] {
        let option = format!("--ipam-opt=conflist={name}");
        let said = docker.err(&[&CREATE[..], &[&option, "again"]].concat());
        assert!(said.contains(why), "{said}");
    }
    docker.says("rm --force c1 c2 c6 d1 i1 i2");
    docker.says("network rm plain full six inner dockers shared");
    docker.sweep();
    docker.wait(|docker| reserved(docker).is_empty());
    docker.wait(|docker| docker.sandbox.docker_files("addresses").is_empty());
    // The misspelt RleaseAddress is only in Docker's documentation.
    let all = [
        "/IpamDriver.GetCapabilities",
        "/IpamDriver.GetDefaultAddressSpaces",
        "/IpamDriver.ReleaseAddress",
        "/IpamDriver.ReleasePool",
        "/IpamDriver.RequestAddress",
        "/IpamDriver.RequestPool",
    ];
    let mut called = docker.called();
    called.retain(|path| path.starts_with("/IpamDriver."));
    assert_eq!(called, all.map(str::to_owned).into());
}
