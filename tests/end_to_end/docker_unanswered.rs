//! The daemon asks Docker about an earlier daemon's reservations: Docker may not have received the
//! answer, or may have released them since.

use std::fs;
use std::path::Path;
use std::process::Command;

use harness::{DockerDaemon, FakeDocker, Sandbox, is_answered};
use serde_json::{Value, json};

use crate::waiting::{wait_for, wait_until_equal};

const ASKS_AT_ONCE: [&str; 1] = ["--unanswered-after=0s"];
const RESERVATIONS: &str = "docker-10.9.0.0-24";

/// A sandbox with a killed daemon that has given two addresses and the gateway. `left` is the
/// number of remaining bytes in the last line of the pool's file, which says that Docker has the
/// answer.
fn killed(left: Option<usize>) -> Sandbox {
    let sandbox = Sandbox::default();
    let daemon = DockerDaemon::start(&sandbox, &[]);
    let pool = daemon.pool("10.9.0.0/24", &json!({}));
    for ip in ["10.9.0.2", "10.9.0.3"] {
        assert_eq!(daemon.address(&pool, ""), ip);
    }
    let options = json!({"RequestAddressType": "com.docker.network.gateway"});
    let gateway = json!({"PoolID": pool, "Address": "10.9.0.1", "Options": options});
    daemon.ok("/IpamDriver.RequestAddress", &gateway);
    let pools = || sandbox.docker_contents("pools");
    wait_for(|| pools().iter().all(|file| is_answered(file)));
    daemon.kill();
    for file in sandbox.docker_files("pools") {
        let text = fs::read_to_string(&file).unwrap();
        let last = text.trim_end().rfind('\n').unwrap() + 1;
        let length = left.unwrap_or(text.len() - last);
        fs::write(file, &text[..last + length]).unwrap();
    }
    sandbox
}

/// The daemon's files of addresses.
fn files(sandbox: &Sandbox) -> Vec<String> {
    sandbox.docker_contents("addresses")
}

/// A fake Docker with a network that has this gateway, and a container with this address.
fn docker(sandbox: &Sandbox, subnet: &str, gateway: &str, ip: &str) -> FakeDocker {
    let network = json!({
        "Name": "net",
        "IPAM": {"Config": [{"Subnet": subnet, "Gateway": gateway}]},
        "Containers": {"c": {"Name": "c", "EndpointID": "e", "IPv4Address": ip}},
    });
    FakeDocker::start(sandbox, [("a".to_owned(), network)].into())
}

fn log(sandbox: &Sandbox) -> String {
    fs::read_to_string(sandbox.root().join("docker-log")).unwrap()
}

#[test]
fn what_docker_has_is_kept_and_the_rest_is_released() {
    for left in [0, 5] {
        let sandbox = killed(Some(left));
        // The subnet as it was requested: with host bits.
        let _docker = docker(&sandbox, "10.9.0.9/24", "10.9.0.1", "10.9.0.3/24");
        let _daemon = DockerDaemon::start(&sandbox, &ASKS_AT_ONCE);
        wait_until_equal(|| sandbox.reserved(RESERVATIONS), ["10.9.0.3"]);
        // The gateway as well.
        wait_for(|| {
            let files = files(&sandbox);
            files.len() == 2 && files.iter().all(|file| is_answered(file))
        });
    }
}

#[test]
fn an_address_whose_release_was_lost_is_released() {
    let sandbox = killed(None);
    let _docker = docker(&sandbox, "10.9.0.0/24", "", "10.9.0.3/24");
    let daemon = DockerDaemon::start(&sandbox, &ASKS_AT_ONCE);
    wait_until_equal(|| sandbox.reserved(RESERVATIONS), ["10.9.0.3"]);
    // Docker doesn't show every gateway.
    wait_for(|| files(&sandbox).len() == 2);
    assert!(files(&sandbox).iter().any(|file| file.contains("10.9.0.1")));
    // The daemon doesn't ask Docker about its own reservations.
    let pool = "ipam-delegated-local//10.9.0.0/24";
    assert_eq!(daemon.address(pool, "10.9.0.2"), "10.9.0.2");
}

#[test]
fn a_network_that_was_removed_while_the_daemon_was_away_gives_its_subnet_back() {
    let sandbox = killed(None);
    let _docker = docker(&sandbox, "10.8.0.0/24", "10.8.0.1", "10.8.0.3/24");
    let daemon = DockerDaemon::start(&sandbox, &ASKS_AT_ONCE);
    wait_for(|| files(&sandbox).is_empty() && sandbox.docker_files("pools").is_empty());
    assert_eq!(sandbox.reserved(RESERVATIONS), [""; 0]);
    daemon.pool("10.9.0.0/16", &json!({}));
}

/// What `ipamctl gc --docker` prints with `--json`, and its errors.
fn collect(sandbox: &Sandbox, options: &[&str]) -> (Vec<Value>, String) {
    let line = sandbox.ipamctl_line();
    let of_path = |option: &str, path: &Path| format!("--{option}={}", path.display());
    let output = Command::new(&line[0])
        .args(&line[1..])
        .arg(of_path("docker-socket", &sandbox.docker_api()))
        .arg(of_path("docker-plugin", &sandbox.docker_socket()))
        .args(["gc", "--docker", "--json"])
        .args(options)
        .output()
        .unwrap();
    let rows = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (rows, String::from_utf8(output.stderr).unwrap())
}

/// Each subnet with its outcome.
fn subnets(rows: &[Value]) -> Vec<(String, String)> {
    let text = |row: &Value, key: &str| row[key].as_str().map(str::to_owned);
    let subnet = |row| Some((text(row, "subnet")?, text(row, "outcome")?));
    rows.iter().filter_map(subnet).collect()
}

#[test]
fn gc_gives_the_subnets_back_that_docker_lacks_and_no_others() {
    let sandbox = Sandbox::default();
    let daemon = DockerDaemon::start(&sandbox, &["--unanswered-after=1h"]);
    let lost = daemon.pool("10.9.0.0/24", &json!({}));
    daemon.address(&lost, "10.9.0.2");
    // Two networks with one pool.
    assert_eq!(daemon.pool("10.9.0.0/24", &json!({})), lost);
    let kept = daemon.pool("10.8.0.0/24", &json!({}));
    daemon.address(&kept, "10.8.0.3");
    wait_until_equal(|| sandbox.docker_files("pools").len(), 3);
    let row = |outcome: &str| ("10.9.0.0/24".to_owned(), outcome.to_owned());

    let now = ["--older-than=0s"];
    let (rows, said) = collect(&sandbox, &now);
    assert_eq!(subnets(&rows), [], "Docker can't be asked: {said}");
    let _docker = docker(&sandbox, "10.8.0.0/24", "10.8.0.1", "10.8.0.3/24");
    assert_eq!(subnets(&collect(&sandbox, &[]).0), vec![row("kept"); 2]);
    let (rows, _) = collect(&sandbox, &["--older-than=0s", "--dry-run"]);
    assert_eq!(subnets(&rows), vec![row("would-release"); 2]);
    assert_eq!(sandbox.docker_files("pools").len(), 3);

    let (rows, said) = collect(&sandbox, &now);
    assert_eq!(subnets(&rows), vec![row("released"); 2], "{said}");
    assert_eq!(sandbox.docker_files("pools").len(), 1);
    assert_eq!(sandbox.reserved(RESERVATIONS), [""; 0]);
    assert_eq!(sandbox.reserved("docker-10.8.0.0-24"), ["10.8.0.3"]);
    daemon.pool("10.9.0.0/16", &json!({}));
}

#[test]
fn gc_gives_no_subnet_back_whose_network_is_being_created_again() {
    let sandbox = Sandbox::default();
    let daemon = DockerDaemon::start(&sandbox, &["--unanswered-after=1h"]);
    let pool = daemon.pool("10.9.0.0/24", &json!({}));
    let old = sandbox.docker_files("pools");
    daemon.pool("10.9.0.0/24", &json!({}));
    let reference = old[0].file_name().unwrap().to_str();
    let release = json!({"PoolID": pool, "Reference": reference});
    for _ in 0..2 {
        assert_eq!(daemon.ok("/IpamDriver.ReleasePool", &release), json!({}));
    }
    let left = sandbox.docker_files("pools");
    assert!(left.len() == 1 && left != old, "{left:?}");
    assert_eq!(daemon.address(&pool, ""), "10.9.0.2");
}

#[test]
fn a_network_that_docker_has_keeps_its_subnet_without_a_container() {
    let sandbox = killed(None);
    let _docker = docker(&sandbox, "10.9.0.0/24", "", "");
    let daemon = DockerDaemon::start(&sandbox, &ASKS_AT_ONCE);
    wait_for(|| files(&sandbox).len() == 1);
    let overlapping = json!({"AddressSpace": "ipam-delegated-local", "Pool": "10.9.0.0/16"});
    let refused = daemon.err("/IpamDriver.RequestPool", &overlapping);
    assert!(refused.contains("overlaps"), "{refused}");
}

#[test]
fn all_is_kept_until_docker_can_be_asked() {
    let sandbox = killed(Some(0));
    let before = files(&sandbox);
    let daemon = DockerDaemon::start(&sandbox, &ASKS_AT_ONCE);
    wait_for(|| log(&sandbox).contains("Docker can't be asked"));
    assert_eq!(files(&sandbox), before);
    daemon.kill();
    // An error isn't an answer, either.
    let docker = FakeDocker::start(&sandbox, [("a".to_owned(), Value::Null)].into());
    let daemon = DockerDaemon::start(&sandbox, &ASKS_AT_ONCE);
    wait_for(|| log(&sandbox).contains("Docker can't be asked"));
    assert_eq!(files(&sandbox), before);
    daemon.kill();
    drop(docker);
    // Addresses that Docker has released meanwhile aren't compared.
    let daemon = DockerDaemon::start(&sandbox, &["--unanswered-after=1s"]);
    for ip in ["10.9.0.1", "10.9.0.2", "10.9.0.3"] {
        daemon.release("ipam-delegated-local//10.9.0.0/24", ip);
    }
    assert_eq!(sandbox.reserved(RESERVATIONS), [""; 0]);
    assert_eq!(files(&sandbox), [""; 0]);
}

#[test]
fn a_release_is_done_though_a_killed_one_had_the_same_text() {
    let sandbox = Sandbox::default();
    let daemon = DockerDaemon::start(&sandbox, &[]);
    let pool = daemon.pool("10.9.0.0/24", &json!({}));
    assert_eq!(daemon.address(&pool, ""), "10.9.0.2");
    daemon.release(&pool, "10.9.0.2");
    daemon.kill();
    let daemon = DockerDaemon::start(&sandbox, &[]);
    assert_eq!(daemon.address(&pool, "10.9.0.2"), "10.9.0.2");
    daemon.release(&pool, "10.9.0.2");
    assert_eq!(sandbox.reserved(RESERVATIONS), [""; 0]);
    assert!(sandbox.docker_files("addresses").is_empty());
}
