//! Docker's calls for pools: refusals, repeated requests, default pools.

use std::collections::BTreeSet;
use std::fs;

use harness::{DockerDaemon, Node, Sandbox, needs};
use serde_json::{Value, json};

use crate::docker_calls::{LOCAL, assert_empty, request_pool, start};

#[test]
fn each_refusal_of_a_pool_names_what_is_wrong() {
    let sandbox = Sandbox::default();
    let daemon = start(&sandbox);
    daemon.pool("10.9.0.0/16", &json!({}));
    let refused = |space: &str, pool: &str, sub_pool: &str, options: Value| {
        let body =
            json!({"AddressSpace": space, "Pool": pool, "SubPool": sub_pool, "Options": options});
        daemon.err("/IpamDriver.RequestPool", &body)
    };
    let none = || json!({});
    assert_eq!(
        refused("", "10.1.0.0/16", "", none()),
        "AddressSpace is missing"
    );
    assert_eq!(
        refused(LOCAL, "", "10.1.0.0/24", none()),
        "SubPool: 10.1.0.0/24 without a Pool that it is a part of"
    );
    assert_eq!(
        refused(LOCAL, "10.1.0.0/24", "10.1.1.0/25", none()),
        "SubPool: 10.1.1.0/25 is no part of the Pool 10.1.0.0/24"
    );
    assert_eq!(
        refused(LOCAL, "10.9.4.0/24", "", none()),
        "Pool overlaps with other one on this address space: 10.9.4.0/24 with ipam-delegated-local//10.9.0.0/16"
    );
    assert_eq!(
        refused(LOCAL, "10.0.0.0/8", "", none()),
        "Pool overlaps with other one on this address space: 10.0.0.0/8 with ipam-delegated-local//10.9.0.0/16"
    );
    assert!(refused(LOCAL, "10.1.0.0/31", "", none()).contains("10.1.0.0/31"));
    assert_eq!(
        refused(LOCAL, "10.1.0.0/24", "10.1.0.255/32", none()),
        "SubPool: 10.1.0.255/32 has no address that can be given: the Pool 10.1.0.0/24 gives 10.1.0.1-10.1.0.254"
    );
    assert!(refused(LOCAL, "x", "", none()).starts_with("Pool: \"x\""));
    assert!(refused(LOCAL, "", "", json!({"conflist": "web"})).contains("has the name \"web\""));
    assert!(refused(LOCAL, "", "", json!({"IP": "10.1.0.5"})).contains("IP=10.1.0.5"));
    assert_eq!(
        refused(LOCAL, "10.9.0.0/16", "", json!({"team": "shop"})),
        "ipam-delegated-local//10.9.0.0/16: another network has this pool with other options: {}, not {\"team\": \"shop\"}"
    );
    // Another address space may have the same pool.
    let body = json!({"AddressSpace": "tenant", "Pool": "10.9.4.0/24"});
    assert_eq!(
        daemon.ok("/IpamDriver.RequestPool", &body)["PoolID"],
        "tenant//10.9.4.0/24"
    );
}

#[test]
fn identical_requests_for_a_pool_are_one_pool_until_the_last_is_released() {
    let sandbox = Sandbox::default();
    let daemon = start(&sandbox);
    let first = request_pool(&daemon, "10.9.0.0/16", "10.9.5.0/24", false);
    assert_eq!(
        request_pool(&daemon, "10.9.0.0/16", "10.9.5.0/24", false),
        first
    );
    let pool = first["PoolID"].as_str().unwrap();
    // Another sub-pool is another pool with the same addresses.
    let other = request_pool(&daemon, "10.9.0.0/16", "10.9.5.0/28", false);
    let other = other["PoolID"].as_str().unwrap();
    assert_ne!(other, pool);
    let given: BTreeSet<String> = (0..8)
        .map(|i| daemon.address(if i % 2 == 0 { pool } else { other }, ""))
        .collect();
    assert_eq!(given.len(), 8);
    let release = |pool: &str| daemon.ok("/IpamDriver.ReleasePool", &json!({"PoolID": pool}));
    assert_eq!(release(pool), json!({}));
    daemon.address(pool, "10.9.200.1");
    assert_eq!(release(pool), json!({}));
    assert!(
        daemon
            .err("/IpamDriver.RequestAddress", &json!({"PoolID": pool}))
            .contains("no pool")
    );
    assert_eq!(sandbox.reserved("docker-10.9.0.0-16").len(), 4);
    release(other);
    // A released pool stays released.
    release(other);
    assert_empty(&sandbox);
}

#[test]
fn a_network_that_asks_for_nothing_gets_a_default_pool_of_its_own() {
    let sandbox = Sandbox::default();
    let daemon = start(&sandbox);
    let subnet = |v6| {
        request_pool(&daemon, "", "", v6)["Pool"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(subnet(false), "10.201.0.0/24");
    daemon.pool("10.201.1.128/25", &json!({}));
    assert_eq!(subnet(false), "10.201.2.0/24");
    assert_eq!(subnet(true), "fdc7:1bd2:201::/64");
    assert_eq!(subnet(true), "fdc7:1bd2:201:1::/64");
    let sandbox = Sandbox::default();
    let none = DockerDaemon::start(&sandbox, &["--default-pool=10.201.0.0/30,30"]);
    request_pool(&none, "", "", false);
    let refused = request_pool(&none, "", "", false);
    assert!(
        refused["Err"]
            .as_str()
            .unwrap()
            .starts_with("no default IPv4 pool is free")
    );
    assert!(
        request_pool(&none, "", "", true)["Err"]
            .as_str()
            .unwrap()
            .contains("IPv6")
    );
}

#[test]
fn a_default_pool_that_was_released_is_given_again_as_late_as_possible() {
    let sandbox = Sandbox::default();
    let daemon = DockerDaemon::start(&sandbox, &["--default-pool=10.201.0.0/23,24"]);
    let mut given = Vec::new();
    for _ in 0..3 {
        let pool = request_pool(&daemon, "", "", false);
        given.push(pool["Pool"].as_str().unwrap().to_owned());
        let id = &pool["PoolID"];
        daemon.ok("/IpamDriver.ReleasePool", &json!({"PoolID": id}));
    }
    assert_eq!(given, ["10.201.0.0/24", "10.201.1.0/24", "10.201.0.0/24"]);
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
