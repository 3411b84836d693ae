//! Each call of Docker's IPAM protocol: single calls, and those of a recorded dockerd.

use std::collections::BTreeSet;
use std::fs;

use harness::{DockerDaemon, FakeDocker, Sandbox, assert_has, repository};
use serde_json::{Value, json};

use harness::waiting::wait_for;

pub(crate) const LOCAL: &str = "ipam-delegated-local";

/// Default pools that no route of the machine is likely to overlap with.
const POOLS: &[&str] = &[
    "--default-pool=10.201.0.0/16,24",
    "--default-pool=fdc7:1bd2:201::/48,64",
];

pub(crate) fn start(sandbox: &Sandbox) -> DockerDaemon {
    DockerDaemon::start(sandbox, POOLS)
}

/// A daemon in a new sandbox.
pub(crate) fn started() -> (Sandbox, DockerDaemon) {
    let sandbox = Sandbox::default();
    let daemon = start(&sandbox);
    (sandbox, daemon)
}

/// As [`started`], with a pool of this subnet.
pub(crate) fn started_with(subnet: &str) -> (Sandbox, DockerDaemon, String) {
    let (sandbox, daemon) = started();
    let pool = daemon.pool(subnet, &json!({}));
    (sandbox, daemon, pool)
}

/// The ID of the pool of a subnet and a part of it.
pub(crate) fn pool_of(daemon: &DockerDaemon, pool: &str, part: &str) -> String {
    let pool = request_pool(daemon, pool, part, false);
    pool["PoolID"].as_str().unwrap().to_owned()
}

/// The answer to a request for a pool.
pub(crate) fn request_pool(daemon: &DockerDaemon, pool: &str, sub_pool: &str, v6: bool) -> Value {
    let body =
        json!({"AddressSpace": LOCAL, "Pool": pool, "SubPool": sub_pool, "Options": {}, "V6": v6});
    daemon.call("/IpamDriver.RequestPool", &body).body
}

/// Checks that all is released once Docker is asked, which has no network.
pub(crate) fn assert_swept(sandbox: &Sandbox, daemon: DockerDaemon) {
    daemon.kill();
    let _docker = FakeDocker::start(sandbox, [].into());
    let _daemon = DockerDaemon::start(sandbox, &["--unanswered-after=0s"]);
    wait_for(|| !sandbox.data_dir().join("docker").exists());
    assert_empty(sandbox);
}

/// Checks that all pools and addresses are released.
pub(crate) fn assert_empty(sandbox: &Sandbox) {
    wait_for(|| sandbox.docker_files("addresses").is_empty());
    // Not even a directory.
    let left = fs::read_dir(sandbox.data_dir()).into_iter().flatten();
    assert_eq!(left.count(), 0);
}

#[test]
fn the_calls_of_a_real_dockerd_get_the_answers_that_it_worked_with() {
    let (sandbox, daemon) = started();
    let recorded = repository().join("testdata/docker/ipam-driver-20.10.24.jsonl");
    let mut paths = BTreeSet::new();
    // The recorded IDs of pools, and those of this daemon.
    let mut ids: Vec<[String; 2]> = Vec::new();
    for (i, line) in fs::read_to_string(recorded).unwrap().lines().enumerate() {
        let mut call: Value = serde_json::from_str(line).unwrap();
        let mut body = call["body"].as_str().unwrap().to_owned();
        for [recorded, given] in &ids {
            body = body.replace(recorded, given);
        }
        let path = call["path"].as_str().unwrap().to_owned();
        let answer = daemon.try_call(&path, &body).unwrap();
        if let Some(given) = answer.body.get("PoolID") {
            let recorded = std::mem::replace(&mut call["answer"]["PoolID"], given.clone());
            ids.push([recorded, given.clone()].map(|id| json!(id).to_string()));
        }
        assert_eq!(
            (answer.status, &answer.body),
            (200, &call["answer"]),
            "{i}: {path} {body}"
        );
        paths.insert(path);
    }
    let expected = [
        "/IpamDriver.GetCapabilities",
        "/IpamDriver.GetDefaultAddressSpaces",
        "/IpamDriver.ReleaseAddress",
        "/IpamDriver.ReleasePool",
        "/IpamDriver.RequestAddress",
        "/IpamDriver.RequestPool",
        "/Plugin.Activate",
    ];
    assert_eq!(paths, expected.map(str::to_owned).into());
    assert_swept(&sandbox, daemon);
}

#[test]
fn a_gateway_is_reserved_and_nobody_elses() {
    let (sandbox, daemon, pool) = started_with("10.9.0.0/29");
    for asked in ["", "10.9.0.1"] {
        let answer = daemon.gateway(&pool, asked);
        assert_eq!(answer["Address"], "10.9.0.1/29");
    }
    let refused = daemon.no_address(&pool, "10.9.0.1");
    assert!(refused.ends_with("10.9.0.1 is a gateway"), "{refused}");
    // Two networks of one subnet, such as macvlan's on two parents.
    let part = &pool_of(&daemon, "10.9.0.0/29", "10.9.0.0/30");
    assert_eq!(daemon.gateway(part, "10.9.0.6")["Address"], "10.9.0.6/29");
    let given = [part, part, &pool, &pool].map(|pool| daemon.address(pool, ""));
    assert_eq!(given, ["10.9.0.2", "10.9.0.3", "10.9.0.4", "10.9.0.5"]);
    let refused = daemon.no_address(&pool, "");
    assert_has(
        &refused,
        ["pool 10.9.0.0/29: no address left: all 6 are reserved"],
    );
    assert!(daemon.gateway(part, "10.9.0.4")["Err"].is_string());
    // Another network may have it, so Docker is asked.
    daemon.release(part, "10.9.0.6");
    assert!(sandbox.reserved("docker").contains(&"10.9.0.6".to_owned()));
}

#[test]
fn a_gateway_is_held_for_its_subnet_whatever_the_pools_also_by_the_next_daemon() {
    let (sandbox, daemon, pool) = started_with("10.9.0.0/24");
    let part = &pool_of(&daemon, "10.9.0.0/24", "10.9.0.128/25");
    let other = daemon.pool("10.9.0.0/24", &json!({"team": "shop"}));
    assert!(*part != pool && other != pool);
    let both = |daemon: &DockerDaemon, pool: &str| {
        let given = daemon.gateway(pool, "10.9.0.1");
        assert_eq!(given["Address"], "10.9.0.1/24");
        assert_eq!(sandbox.reserved("docker"), ["10.9.0.1"]);
    };
    both(&daemon, &pool);
    both(&daemon, part);
    daemon.release(&pool, "10.9.0.1");
    daemon.release_pool(&pool);
    both(&daemon, &other);
    daemon.kill();
    let daemon = start(&sandbox);
    both(&daemon, &pool);
    // The networks with a part have another address by default, as with Docker's own driver.
    assert_eq!(daemon.gateway(part, "")["Address"], "10.9.0.128/24");
    // Docker has a network of the subnet with the first gateway.
    daemon.kill();
    let config = json!([{"Subnet": "10.9.0.0/24", "Gateway": "10.9.0.1"}]);
    let ipam = json!({"Driver": "ipam-delegated", "Config": config});
    let network = json!({"IPAM": ipam, "Containers": {}});
    let docker = FakeDocker::start(&sandbox, [("a".to_owned(), network)].into());
    let daemon = DockerDaemon::start(&sandbox, &["--unanswered-after=0s"]);
    wait_for(|| sandbox.reserved("docker") == ["10.9.0.1"]);
    drop(docker);
    assert_swept(&sandbox, daemon);
}

#[test]
fn a_gateway_that_is_requested_twice_at_once_is_given_twice() {
    let (sandbox, daemon, pool) = started_with("10.9.0.0/24");
    std::thread::scope(|scope| {
        let request = || daemon.gateway(&pool, "")["Address"].clone();
        let running: Vec<_> = (0..20).map(|_| scope.spawn(request)).collect();
        for thread in running {
            assert_eq!(thread.join().unwrap(), "10.9.0.1/24");
        }
    });
    assert_eq!(sandbox.docker_files("addresses").len(), 1);
}

#[test]
fn the_claim_of_a_chosen_subnet_outlives_a_network_that_requests_the_subnet() {
    let (sandbox, daemon) = started();
    let chosen = &pool_of(&daemon, "", "");
    let other = daemon.pool("10.201.0.0/24", &json!({}));
    let given = [chosen, &other].map(|pool| daemon.address(pool, ""));
    assert_eq!(given, ["10.201.0.1", "10.201.0.2"]);
    daemon.release(&other, "10.201.0.2");
    daemon.release_pool(&other);
    assert_eq!(sandbox.reserved("docker"), ["10.201.0.0", "10.201.0.1"]);
    daemon.release(chosen, "10.201.0.1");
    daemon.release_pool(chosen);
    assert_swept(&sandbox, daemon);
}

#[test]
fn a_failed_creation_of_a_network_leaves_only_what_docker_is_asked_about() {
    let (sandbox, daemon) = started();
    let _docker = FakeDocker::start(&sandbox, [].into());
    for _ in 0..2 {
        let pool = daemon.pool("10.9.0.0/24", &json!({}));
        daemon.gateway(&pool, "10.9.0.254");
        // An auxiliary address. Docker fails at another one, and only gives the pool back.
        assert_eq!(daemon.address(&pool, "10.9.0.7"), "10.9.0.7");
        daemon.release_pool(&pool);
        assert_eq!(sandbox.reserved("docker"), ["10.9.0.254", "10.9.0.7"]);
    }
}

#[test]
fn a_gateway_that_no_container_could_use_or_that_takes_all_is_refused() {
    let (_sandbox, daemon, pool) = started_with("10.9.0.0/24");
    for (ip, why) in [
        ("10.9.0.0", "network's own address of 10.9.0.0/24"),
        ("10.9.0.255", "broadcast address of 10.9.0.0/24"),
    ] {
        let refused = daemon.gateway(&pool, ip);
        let said = refused["Err"].as_str().unwrap();
        assert!(said.contains(ip) && said.contains(why), "{said}");
    }
    let alone = &pool_of(&daemon, "10.9.1.0/24", "10.9.1.1/32");
    for ip in ["", "10.9.1.1"] {
        let refused = daemon.gateway(alone, ip);
        let said = refused["Err"].as_str().unwrap();
        assert_has(said, ["only address of the SubPool 10.9.1.1/32"]);
    }
    // With another gateway, one address is free.
    let given = daemon.gateway(alone, "10.9.1.254");
    assert_eq!(given["Address"], "10.9.1.254/24");
    assert_eq!(daemon.address(alone, ""), "10.9.1.1");
}

#[test]
fn an_address_is_any_of_the_sub_pool_or_the_requested_one_of_the_pool() {
    let (_sandbox, daemon) = started();
    let pool = &pool_of(&daemon, "10.9.0.0/16", "10.9.5.8/29");
    assert_eq!(daemon.address(pool, ""), "10.9.5.8");
    assert_eq!(daemon.address(pool, "10.9.5.10"), "10.9.5.10");
    assert_eq!(daemon.address(pool, "10.9.77.7"), "10.9.77.7");
    let request = |ip: &str| daemon.no_address(pool, ip);
    assert!(request("10.9.77.7").contains("10.9.77.7"));
    // A pool that overlaps shares the addresses.
    let part = daemon.pool("10.9.5.0/24", &json!({}));
    daemon.no_address(&part, "10.9.5.8");
    assert_eq!(
        request("10.8.0.1"),
        "Address: 10.8.0.1 is not in the pool 10.9.0.0/16"
    );
    assert_eq!(request("x"), "Address: \"x\" is no IP address");
    assert_eq!(daemon.address(pool, ""), "10.9.5.9");
    assert_eq!(daemon.address(pool, ""), "10.9.5.11");
    let v6 = daemon.pool("fd00:9::/64", &json!({}));
    assert_eq!(daemon.address(&v6, ""), "fd00:9::1");
    assert_eq!(daemon.address(&v6, "fd00:9::abcd"), "fd00:9::abcd");
}

#[test]
fn an_address_is_released_by_both_paths_and_twice() {
    let (sandbox, daemon, pool) = started_with("10.9.0.0/16");
    for path in ["/IpamDriver.ReleaseAddress", "/IpamDriver.RleaseAddress"] {
        let ip = daemon.address(&pool, "");
        let body = json!({"PoolID": pool, "Address": ip});
        for _ in 0..2 {
            assert_eq!(daemon.ok(path, &body), json!({}));
        }
        assert_empty(&sandbox);
    }
    let body = json!({"PoolID": "nobody's", "Address": "10.9.0.2"});
    assert_eq!(daemon.ok("/IpamDriver.ReleaseAddress", &body), json!({}));
    let refused = daemon.err("/IpamDriver.ReleaseAddress", &json!({"PoolID": pool}));
    assert_eq!(
        refused,
        "Address is missing: it names what is to be released"
    );
}

#[test]
fn addresses_are_remembered_over_sigkill() {
    let (sandbox, daemon) = started();
    let pool = daemon.pool("10.9.0.0/29", &json!({"team": "shop"}));
    daemon.gateway(&pool, "10.9.0.6");
    assert_eq!(daemon.address(&pool, ""), "10.9.0.1");
    daemon.kill();
    let daemon = start(&sandbox);
    assert_eq!(daemon.address(&pool, ""), "10.9.0.2");
    assert_has(&sandbox.docker_contents("addresses").concat(), ["web"]);
    for ip in ["10.9.0.1", "10.9.0.2", "10.9.0.6"] {
        daemon.release(&pool, ip);
    }
    daemon.release_pool(&pool);
    assert_eq!(sandbox.reserved("docker"), ["10.9.0.6"]);
    assert_swept(&sandbox, daemon);
}
