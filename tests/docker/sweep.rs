//! The sweep: the daemon asks Docker about an earlier daemon's reservations. Docker may not have
//! received the answer, or may have released them since.

use std::fs;
use std::os::unix::net::UnixListener;

use harness::{DockerDaemon, FakeDocker, Sandbox, docker_pool};
use serde_json::{Value, json};

use crate::calls::{started, started_with};
use harness::waiting::{wait_for, wait_until_equal};

const ASKS_AT_ONCE: [&str; 1] = ["--unanswered-after=0s"];
const GATEWAY: &str = "10.9.0.1";

/// A sandbox with a killed daemon that has given two addresses and the gateway.
fn killed() -> Sandbox {
    let (sandbox, daemon) = started();
    let pool = docker_pool("10.9.0.0/24");
    assert_eq!(daemon.gateway(&pool, GATEWAY)["Address"], "10.9.0.1/24");
    for ip in ["10.9.0.2", "10.9.0.3"] {
        assert_eq!(daemon.address(&pool, ""), ip);
    }
    daemon.kill();
    sandbox
}

/// A fake Docker with a network that has this gateway, and a container with this address.
fn docker(sandbox: &Sandbox, subnet: &str, gateway: &str, ip: &str) -> FakeDocker {
    let config = json!([{"Subnet": subnet, "Gateway": gateway}]);
    let network = json!({
        "Name": "net",
        "IPAM": {"Driver": "ipam-delegated", "Config": config},
        "Containers": {"c": {"Name": "c", "EndpointID": "e", "IPv4Address": ip}},
    });
    FakeDocker::start(sandbox, [("a".to_owned(), network)].into())
}

fn log(sandbox: &Sandbox) -> String {
    fs::read_to_string(sandbox.root().join("docker-log")).unwrap()
}

#[test]
fn what_docker_has_is_kept_and_the_rest_is_released() {
    for (gateway, left) in [
        (GATEWAY, &[GATEWAY, "10.9.0.3"][..]),
        // Docker doesn't show every gateway.
        ("", &[GATEWAY, "10.9.0.3"]),
        ("10.9.0.254", &["10.9.0.3"]),
    ] {
        let sandbox = killed();
        // The subnet as it was requested: with host bits.
        let _docker = docker(&sandbox, "10.9.0.9/24", gateway, "10.9.0.3/24");
        let _daemon = DockerDaemon::start(&sandbox, &ASKS_AT_ONCE);
        wait_until_equal(|| sandbox.reserved("docker"), left);
    }
}

#[test]
fn a_network_that_was_removed_while_the_daemon_was_away_leaves_nothing() {
    let sandbox = killed();
    let _docker = docker(&sandbox, "10.8.0.0/24", "10.8.0.1", "10.8.0.3/24");
    let _daemon = DockerDaemon::start(&sandbox, &ASKS_AT_ONCE);
    wait_for(|| sandbox.docker_files("addresses").is_empty());
    wait_for(|| !sandbox.data_dir().join("docker").exists());
}

#[test]
fn what_is_younger_is_kept_by_its_record_though_the_daemon_starts_again() {
    let sandbox = killed();
    let _docker = docker(&sandbox, "10.8.0.0/24", "10.8.0.1", "");
    let daemon = DockerDaemon::start(&sandbox, &["--unanswered-after=10m"]);
    let pool = docker_pool("10.9.0.0/24");
    // The sweep after a release of another pool comes later, too.
    let other = docker_pool("10.8.0.0/24");
    daemon.release_pool(&other);
    assert_eq!(daemon.address(&pool, ""), "10.9.0.4");
    assert_eq!(sandbox.reserved("docker").len(), 4);
}

#[test]
fn all_is_kept_until_docker_can_be_asked() {
    let sandbox = killed();
    let before = sandbox.docker_files("addresses");
    let daemon = DockerDaemon::start(&sandbox, &ASKS_AT_ONCE);
    wait_for(|| log(&sandbox).contains("Docker can't be asked"));
    daemon.kill();
    // An error isn't an answer, either.
    let docker = FakeDocker::start(&sandbox, [("a".to_owned(), Value::Null)].into());
    let daemon = DockerDaemon::start(&sandbox, &ASKS_AT_ONCE);
    wait_for(|| log(&sandbox).contains("Docker can't be asked"));
    assert_eq!(sandbox.docker_files("addresses"), before);
    drop(docker);
    for ip in ["10.9.0.2", "10.9.0.3"] {
        daemon.release(&docker_pool("10.9.0.0/24"), ip);
    }
    assert_eq!(sandbox.reserved("docker"), [GATEWAY]);
}

#[test]
fn an_address_that_its_container_requests_again_is_given_if_docker_does_not_have_it() {
    for (ip, is_given) in [("10.9.0.7/24", false), ("10.9.0.8/24", true)] {
        let (sandbox, daemon, pool) = started_with("10.9.0.0/24");
        daemon.address(&pool, "10.9.0.7");
        let request = json!({"PoolID": pool, "Address": "10.9.0.7"});
        // Docker is asked only about what an earlier daemon has given.
        let refused = daemon.err("/IpamDriver.RequestAddress", &request);
        assert!(refused.contains("already in use"), "{refused}");
        daemon.kill();
        let _docker = docker(&sandbox, "10.9.0.0/24", GATEWAY, ip);
        let daemon = DockerDaemon::start(&sandbox, &[]);
        let answer = daemon.call("/IpamDriver.RequestAddress", &request).body;
        assert_eq!(answer["Address"] == "10.9.0.7/24", is_given, "{answer}");
    }
}

#[test]
fn an_address_that_is_requested_again_is_refused_if_docker_never_answers() {
    let sandbox = killed();
    // It accepts connections, and answers none.
    let _docker = UnixListener::bind(sandbox.docker_api()).unwrap();
    let daemon = DockerDaemon::start(&sandbox, &ASKS_AT_ONCE);
    let refused = daemon.no_address(&docker_pool("10.9.0.0/24"), "10.9.0.2");
    assert!(refused.contains("already in use"), "{refused}");
    assert_eq!(sandbox.reserved("docker").len(), 3);
}

#[test]
fn a_record_that_cannot_be_read_keeps_its_address() {
    let sandbox = killed();
    let records = sandbox.docker_files("addresses");
    let text = |file: &std::path::PathBuf| fs::read_to_string(file).unwrap();
    let record = records.iter().find(|file| text(file).contains("10.9.0.2"));
    let (record, whole) = (record.unwrap(), text(record.unwrap()));
    fs::write(record, "damaged\n").unwrap();
    let _docker = docker(&sandbox, "10.9.0.0/24", GATEWAY, "10.9.0.2/24");
    let daemon = DockerDaemon::start(&sandbox, &ASKS_AT_ONCE);
    let pool = docker_pool("10.9.0.0/24");
    wait_until_equal(|| sandbox.reserved("docker"), [GATEWAY, "10.9.0.2"]);
    daemon.no_address(&pool, "10.9.0.2");
    // Once it can be read, Docker can release it.
    fs::write(record, whole).unwrap();
    daemon.release(&pool, "10.9.0.2");
    assert_eq!(sandbox.reserved("docker"), [GATEWAY]);
}
