//! Docker's calls for pools: refusals, repeated requests, default pools.

use std::fs;

use harness::{DockerDaemon, Node, Sandbox, assert_has, needs};
use serde_json::{Value, json};

use crate::calls::{LOCAL, assert_swept, request_pool, started};

#[test]
fn each_refusal_of_a_pool_names_what_is_wrong() {
    let (_sandbox, daemon) = started();
    let refused = |space: &str, pool: &str, sub_pool: &str, options: Value| {
        let body =
            json!({"AddressSpace": space, "Pool": pool, "SubPool": sub_pool, "Options": options});
        daemon.err("/IpamDriver.RequestPool", &body)
    };
    let none = || json!({});
    let no_pool = "SubPool: 10.1.0.0/24 without a Pool that it is a part of";
    let no_part = "SubPool: 10.1.1.0/25 is no part of the Pool 10.1.0.0/24";
    let not_given = "SubPool: 10.1.0.255/32 has no address that can be given: the Pool 10.1.0.0/24 gives 10.1.0.1-10.1.0.254";
    let swarm = "networks of a swarm get no addresses from this node: use Docker's own IPAM driver";
    let other = "AddressSpace: \"other\" is no address space of this daemon, which has \"ipam-delegated-local\"";
    for (space, pool, part, why) in [
        ("", "10.1.0.0/16", "", "AddressSpace is missing"),
        (LOCAL, "", "10.1.0.0/24", no_pool),
        (LOCAL, "10.1.0.0/24", "10.1.1.0/25", no_part),
        ("ipam-delegated-global", "10.1.0.0/24", "", swarm),
        ("other", "10.1.0.0/24", "", other),
        (LOCAL, "10.1.0.0/24", "10.1.0.255/32", not_given),
    ] {
        assert_eq!(refused(space, pool, part, none()), why);
    }
    for small in ["10.1.0.0/31", "10.1.0.7/32"] {
        let said = refused(LOCAL, small, "", none());
        assert!(said.contains(small), "{said}");
    }
    for wrong in ["x", "10.1.0.0", "10.1.0.0/33"] {
        let said = refused(LOCAL, wrong, "", none());
        assert!(said.starts_with(&format!("Pool: {wrong:?}")), "{said}");
    }
    assert!(refused(LOCAL, "", "", json!({"conflist": "web"})).contains("has the name \"web\""));
    assert!(refused(LOCAL, "", "", json!({"IP": "10.1.0.5"})).contains("IP=10.1.0.5"));
}

#[test]
fn a_network_that_asks_for_nothing_gets_a_default_pool_of_its_own() {
    let (_sandbox, daemon) = started();
    let subnet = |v6| request_pool(&daemon, "", "", v6)["Pool"].clone();
    assert_eq!(subnet(false), "10.201.0.0/24");
    let other = daemon.pool("10.201.1.128/25", &json!({}));
    daemon.address(&other, "");
    assert_eq!(subnet(false), "10.201.2.0/24");
    assert_eq!(subnet(true), "fdc7:1bd2:201::/64");
    assert_eq!(subnet(true), "fdc7:1bd2:201:1::/64");
    let sandbox = Sandbox::default();
    let none = DockerDaemon::start(&sandbox, &["--default-pool=10.201.0.0/30,30"]);
    request_pool(&none, "", "", false);
    for (v6, why) in [(false, "no default IPv4 pool is free"), (true, "IPv6")] {
        let refused = request_pool(&none, "", "", v6);
        assert_has(refused["Err"].as_str().unwrap(), [why]);
    }
}

#[test]
fn a_default_pool_that_was_released_is_given_again_when_no_other_is_left() {
    let sandbox = Sandbox::default();
    let pools = ["--default-pool=10.201.0.0/23,24"];
    let daemon = DockerDaemon::start(&sandbox, &pools);
    let choose = || request_pool(&daemon, "", "", false);
    let mut given = Vec::new();
    for _ in 0..5 {
        let pool = choose();
        given.push(pool["Pool"].as_str().unwrap().to_owned());
        let id = pool["PoolID"].as_str().unwrap();
        assert!(daemon.gateway(id, "")["Err"].is_null());
        if given.len() == 2 {
            // A container has an address: this one isn't given again.
            daemon.address(id, "");
        }
        daemon.release_pool(id);
    }
    let (first, second) = ("10.201.0.0/24", "10.201.1.0/24");
    assert_eq!(given, [first, second, first, first, first]);
    // One that is in use isn't, either.
    assert_eq!(choose()["Pool"], first);
    let refused = choose();
    let said = refused["Err"].as_str().unwrap();
    assert!(said.starts_with("no default IPv4 pool is free"), "{said}");
    // The claims outlive the daemon.
    daemon.kill();
    let daemon = DockerDaemon::start(&sandbox, &pools);
    assert!(request_pool(&daemon, "", "", false)["Err"].is_string());
    assert_swept(&sandbox, daemon);
}

#[test]
fn a_default_pool_overlaps_neither_a_route_nor_a_name_server_of_the_host() {
    needs!("root", "/sbin/ip");
    let sandbox = Sandbox::default();
    let node = Node::new();
    let resolv_conf = sandbox.root().join("resolv.conf");
    fs::write(&resolv_conf, "nameserver 10.201.1.53\n").unwrap();
    node.sh(&format!(
        "ip route add 10.201.0.0/24 dev lo; mount --bind {} /etc/resolv.conf",
        resolv_conf.display()
    ));
    let daemon = DockerDaemon::start_on(&node, &sandbox, &[]);
    let pool = request_pool(&daemon, "", "", false);
    assert_eq!(pool["Pool"], "10.201.2.0/24");
}
