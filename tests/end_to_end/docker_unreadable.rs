//! Files of the daemon that can't be read at its start: their content is unknown, so it is kept,
//! and nothing that they may name is given.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;
use std::process::Command;

use harness::{DockerDaemon, FakeDocker, Sandbox, is_answered, needs};
use serde_json::json;

use crate::waiting::wait_for;

const RESERVATIONS: &str = "docker-10.9.0.0-24";
const ASKS_AT_ONCE: [&str; 1] = ["--unanswered-after=0s"];

/// A sandbox with a killed daemon, which has given 10.9.0.2 to a container, and 10.9.0.3 as the
/// gateway. Returns the pool's ID as well.
fn killed() -> (Sandbox, String) {
    let sandbox = Sandbox::default();
    let daemon = DockerDaemon::start(&sandbox, &[]);
    let pool = daemon.pool("10.9.0.0/24", &json!({}));
    let options = json!({"RequestAddressType": "com.docker.network.gateway"});
    let gateway = json!({"PoolID": pool, "Address": "10.9.0.3", "Options": options});
    daemon.ok("/IpamDriver.RequestAddress", &gateway);
    assert_eq!(daemon.address(&pool, ""), "10.9.0.1");
    assert_eq!(daemon.address(&pool, ""), "10.9.0.2");
    daemon.release(&pool, "10.9.0.1");
    wait_for(|| {
        files(&sandbox).len() == 2 && files(&sandbox).iter().all(|(_, file)| is_answered(file))
    });
    daemon.kill();
    (sandbox, pool)
}

/// The daemon's files of addresses: paths and texts.
fn files(sandbox: &Sandbox) -> Vec<(PathBuf, String)> {
    let files = sandbox.docker_files("addresses").into_iter();
    files
        .map(|file| {
            let text = fs::read_to_string(&file).unwrap_or_default();
            (file, text)
        })
        .collect()
}

/// The file with this address.
fn file_of(sandbox: &Sandbox, ip: &str) -> PathBuf {
    let mut files = files(sandbox).into_iter();
    // As the address of a result, or as a gateway.
    let is_of = |text: &str| match text.starts_with("{\"made\"") {
        true => text.contains(&format!("\"{ip}\"")),
        false => text.contains(&format!("\"{ip}/")),
    };
    files.find(|(_, text)| is_of(text)).unwrap().0
}

/// A fake Docker with the network and the container.
fn docker(sandbox: &Sandbox) -> FakeDocker {
    let container = json!({"Name": "c", "EndpointID": "e", "IPv4Address": "10.9.0.2/24"});
    let network = json!({
        "Name": "net",
        "IPAM": {"Config": [{"Subnet": "10.9.0.0/24", "Gateway": "10.9.0.3"}]},
        "Containers": {"c": container},
    });
    FakeDocker::start(sandbox, [("a".to_owned(), network)].into())
}

fn is_compared(sandbox: &Sandbox) -> bool {
    let log = fs::read_to_string(sandbox.root().join("docker-log")).unwrap();
    log.contains("compared with Docker")
}

fn mode(file: &PathBuf, mode: u32) {
    fs::set_permissions(file, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn an_address_whose_file_cant_be_read_stays_its_containers() {
    needs!("root");
    for what in ["damaged", "another owner's", "written to by all"] {
        let (sandbox, pool) = killed();
        let file = file_of(&sandbox, "10.9.0.2");
        let content = fs::read(&file).unwrap();
        match what {
            "damaged" => fs::write(&file, "no JSON\n").unwrap(),
            "another owner's" => chown(&file, Some(65534), None).unwrap(),
            _ => mode(&file, 0o666),
        }
        let asked = docker(&sandbox);
        let daemon = DockerDaemon::start(&sandbox, &ASKS_AT_ONCE);
        wait_for(|| is_compared(&sandbox));
        let request = json!({"PoolID": pool, "Address": "10.9.0.2"});
        let answer = daemon.call("/IpamDriver.RequestAddress", &request).body;
        assert!(answer["Err"].is_string(), "{what}: {answer}");
        assert_eq!(sandbox.reserved(RESERVATIONS), ["10.9.0.2"], "{what}");
        // Other containers get addresses: the allocator knows the reservation.
        assert_eq!(daemon.address(&pool, ""), "10.9.0.4", "{what}");
        daemon.release(&pool, "10.9.0.4");
        // Once the file can be read, Docker can release the address.
        fs::write(&file, content).unwrap();
        chown(&file, Some(0), None).unwrap();
        mode(&file, 0o600);
        daemon.kill();
        drop(asked);
        let daemon = DockerDaemon::start(&sandbox, &[]);
        daemon.release(&pool, "10.9.0.2");
        assert_eq!(sandbox.reserved(RESERVATIONS), [""; 0], "{what}");
    }
}

#[test]
fn an_address_whose_file_cant_be_read_is_released_once_docker_does_not_have_it() {
    let (sandbox, _) = killed();
    let file = file_of(&sandbox, "10.9.0.2");
    fs::write(&file, "no JSON\n").unwrap();
    let _docker = FakeDocker::start(&sandbox, [].into());
    let _daemon = DockerDaemon::start(&sandbox, &ASKS_AT_ONCE);
    wait_for(|| sandbox.reserved(RESERVATIONS).is_empty() && !file.exists());
}

/// Runs `ipamctl gc` with these options; returns stdout.
fn gc(sandbox: &Sandbox, options: &[&str]) -> String {
    let line = sandbox.ipamctl_line();
    let mut command = Command::new(&line[0]);
    command.args(&line[1..]);
    command.arg("--docker-socket").arg(sandbox.docker_api());
    command.args(["gc", "--older-than=0s"]);
    let output = command.args(options).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn ipamctl_releases_an_address_that_the_memory_lacks_only_if_docker_does_not_have_it() {
    let (sandbox, _) = killed();
    fs::remove_file(file_of(&sandbox, "10.9.0.2")).unwrap();
    // Docker is unreachable.
    gc(&sandbox, &["--docker"]);
    assert_eq!(sandbox.reserved(RESERVATIONS), ["10.9.0.2"]);
    let asked = docker(&sandbox);
    gc(&sandbox, &["--docker"]);
    assert_eq!(sandbox.reserved(RESERVATIONS), ["10.9.0.2"]);
    drop(asked);
    let _docker = FakeDocker::start(&sandbox, [].into());
    let said = gc(&sandbox, &["--docker"]);
    assert!(said.contains("10.9.0.2): released"), "{said}");
    assert_eq!(sandbox.reserved(RESERVATIONS), [""; 0]);
}

#[test]
fn ipamctl_takes_no_address_for_a_cni_runtimes_because_the_memory_cant_be_read() {
    let (sandbox, _) = killed();
    mode(&file_of(&sandbox, "10.9.0.2"), 0o666);
    let none = ["--valid=/dev/null", "--none-valid", "--even-in-use"];
    let said = gc(&sandbox, &none);
    assert_eq!(sandbox.reserved(RESERVATIONS), ["10.9.0.2"], "{said}");
}

#[test]
fn a_gateway_whose_file_cant_be_read_is_given_to_nobody() {
    let (sandbox, pool) = killed();
    let file = file_of(&sandbox, "10.9.0.3");
    mode(&file, 0o666);
    let _docker = docker(&sandbox);
    let daemon = DockerDaemon::start(&sandbox, &ASKS_AT_ONCE);
    wait_for(|| is_compared(&sandbox));
    let request = json!({"PoolID": pool, "Address": "10.9.0.3"});
    let refused = daemon.err("/IpamDriver.RequestAddress", &request);
    assert!(refused.contains(file.to_str().unwrap()), "{refused}");
    // The file is read again later.
    mode(&file, 0o600);
    let refused = daemon.err("/IpamDriver.RequestAddress", &request);
    assert!(!refused.contains(file.to_str().unwrap()), "{refused}");
    assert_eq!(daemon.address(&pool, ""), "10.9.0.4");
}

#[test]
fn a_pool_whose_file_cant_be_read_overlaps_no_other() {
    let (sandbox, pool) = killed();
    let file = sandbox.docker_files("pools").remove(0);
    mode(&file, 0o666);
    let _docker = docker(&sandbox);
    let daemon = DockerDaemon::start(&sandbox, &ASKS_AT_ONCE);
    wait_for(|| is_compared(&sandbox));
    let overlapping = json!({"AddressSpace": "ipam-delegated-local", "Pool": "10.9.0.0/16"});
    let refused = daemon.err("/IpamDriver.RequestPool", &overlapping);
    assert!(refused.contains(file.to_str().unwrap()), "{refused}");
    mode(&file, 0o600);
    let refused = daemon.err("/IpamDriver.RequestPool", &overlapping);
    assert!(refused.contains("overlaps"), "{refused}");
    // Its addresses are known again as well.
    daemon.release(&pool, "10.9.0.2");
    assert_eq!(sandbox.reserved(RESERVATIONS), [""; 0]);
}
