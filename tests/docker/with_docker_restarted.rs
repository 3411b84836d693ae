//! dockerd and the daemon are killed and restarted in each order while containers run.

use std::fs;

use harness::{Dockerd, is_answered};
use serde_json::json;

use crate::with_docker::{addresses, reserved};

/// A dockerd with a network and two containers.
fn start(options: &[&str]) -> Option<Dockerd> {
    let docker = Dockerd::start(options)?;
    docker.ok(&[
        "network",
        "create",
        "--ipam-driver=ipam-delegated",
        "--subnet=10.88.0.0/24",
        "net",
    ]);
    docker.run("net", "c-a", &["--restart=always"]);
    docker.run("net", "c-b", &[]);
    Some(docker)
}

/// Checks that exactly these containers have addresses, and that all of them are released with the
/// containers.
#[track_caller]
fn assert_whole(docker: &mut Dockerd, names: &[&str]) {
    assert_eq!(reserved(docker), addresses(docker, names));
    for other in addresses(docker, names) {
        docker.ok(&["exec", names[0], "/bin/ping", "-c1", "-W5", &other]);
    }
    docker.ok(&[&["rm", "--force"][..], names].concat());
    docker.ok(&["network", "rm", "net"]);
    docker.sweep();
    docker.wait(|docker| reserved(docker).is_empty());
    docker.wait(|docker| docker.sandbox.docker_files("addresses").is_empty());
}

#[test]
fn the_daemon_is_killed_under_running_containers() {
    let Some(mut docker) = start(&[]) else {
        return;
    };
    let before = addresses(&docker, &["c-a", "c-b"]);
    docker.kill_daemon();
    // Docker retries a call while the daemon isn't running.
    let waiting = [
        "run",
        "--detach",
        "--network=net",
        "--name=c-c",
        "test",
        "/bin/sleep",
        "1000",
    ];
    let mut waiting = docker.command(&waiting).spawn().unwrap();
    docker.start_daemon();
    assert!(waiting.wait().unwrap().success());
    docker.run("net", "c-d", &[]);
    assert_eq!(addresses(&docker, &["c-a", "c-b"]), before);
    assert_whole(&mut docker, &["c-a", "c-b", "c-c", "c-d"]);
}

#[test]
fn dockerd_is_killed_without_live_restore() {
    let Some(mut docker) = start(&[]) else {
        return;
    };
    docker.kill_dockerd();
    docker.start_dockerd();
    // Docker restarts one container, but not the other.
    docker.wait(|docker| !docker.address("net", "c-a").is_empty());
    docker.ok(&["start", "c-b"]);
    docker.run("net", "c-c", &[]);
    assert_whole(&mut docker, &["c-a", "c-b", "c-c"]);
}

#[test]
fn dockerd_is_killed_with_live_restore() {
    let Some(mut docker) = start(&["--live-restore"]) else {
        return;
    };
    let before = addresses(&docker, &["c-a", "c-b"]);
    docker.kill_dockerd();
    docker.start_dockerd();
    assert_eq!(addresses(&docker, &["c-a", "c-b"]), before);
    docker.run("net", "c-c", &[]);
    assert_whole(&mut docker, &["c-a", "c-b", "c-c"]);
}

#[test]
fn both_are_killed() {
    let Some(mut docker) = start(&["--live-restore"]) else {
        return;
    };
    let before = addresses(&docker, &["c-a", "c-b"]);
    docker.kill_dockerd();
    docker.kill_daemon();
    docker.start_daemon();
    docker.start_dockerd();
    assert_eq!(addresses(&docker, &["c-a", "c-b"]), before);
    docker.run("net", "c-c", &[]);
    assert_whole(&mut docker, &["c-a", "c-b", "c-c"]);
}

#[test]
fn the_node_crashes_and_boots() {
    let Some(mut docker) = start(&[]) else {
        return;
    };
    docker.crash();
    docker.start_containerd();
    docker.start_daemon();
    docker.start_dockerd();
    docker.wait(|docker| !docker.address("net", "c-a").is_empty());
    docker.ok(&["start", "c-b"]);
    docker.run("net", "c-c", &[]);
    assert_whole(&mut docker, &["c-a", "c-b", "c-c"]);
}

/// A delegate after the allocator. It waits in ADD while a file is in the sandbox.
const LAST: &str = "#!/bin/sh\n\
    root=${0%/*}/..\n\
    [ $CNI_COMMAND = ADD ] || exit 0\n\
    while [ -e $root/wait ]; do touch $root/waits; sleep 0.05; done\n\
    sed 's/.*\"prevResult\"://; s/}$//'";

/// The daemon's files of addresses.
fn files(docker: &Dockerd) -> Vec<String> {
    docker.sandbox.docker_contents("addresses")
}

fn all_are_answered(docker: &Dockerd) -> bool {
    files(docker).iter().all(|file| is_answered(file))
}

#[test]
fn the_daemon_is_killed_while_it_requests_an_address() {
    let Some(mut docker) = Dockerd::start(&[]) else {
        return;
    };
    let sandbox = &docker.sandbox;
    sandbox.write_executable("last", LAST);
    let ipam = json!({
        "type": "ipam-delegated",
        "delegates": ["ipam-ds-ranges", "ipam-da-host-local", "last"],
        "ranges": [[{"subnet": "10.88.0.0/24"}]],
        "dataDir": sandbox.data_dir(),
        "stateDir": sandbox.state_dir(),
    });
    let plugin = json!({"type": "bridge", "ipam": ipam});
    let list = json!({"cniVersion": "1.0.0", "name": "web", "plugins": [plugin]});
    fs::write(sandbox.conf_dir().join("web.conflist"), list.to_string()).unwrap();
    docker.ok(&[
        "network",
        "create",
        "--ipam-driver=ipam-delegated",
        "--ipam-opt=conflist=web",
        "net",
    ]);
    docker.run("net", "c-a", &[]);
    let before = addresses(&docker, &["c-a"]);
    docker.wait(all_are_answered);
    let file = |name: &str| docker.sandbox.root().join(name);
    let (wait, waits) = (file("wait"), file("waits"));
    fs::write(&wait, "").unwrap();
    let run = ["run", "--network=net", "--name=c-b", "test", "/bin/true"];
    let mut starting = docker.command(&run).spawn().unwrap();
    docker.wait(|_| waits.exists());
    docker.kill_daemon();
    fs::remove_file(&wait).unwrap();
    docker.start_daemon_with(&["--unanswered-after=1s"]);
    // Docker has repeated the call without its body.
    assert!(!starting.wait().unwrap().success());
    docker.wait(|docker| files(docker).len() == 1 && all_are_answered(docker));
    assert_eq!(reserved(&docker), before);
    docker.ok(&["rm", "--force", "c-b"]);
    docker.run("net", "c-b", &[]);
    assert_whole(&mut docker, &["c-a", "c-b"]);
}

#[test]
fn what_docker_has_lost_is_released() {
    let Some(mut docker) = start(&[]) else {
        return;
    };
    docker.wait(all_are_answered);
    docker.kill_dockerd();
    docker.lose_networks();
    docker.kill_daemon();
    docker.start_daemon_with(&["--unanswered-after=0s"]);
    let log = docker.sandbox.root().join("docker-log");
    docker.wait(|_| {
        fs::read_to_string(&log).is_ok_and(|text| text.contains("Docker can't be asked"))
    });
    assert_eq!(reserved(&docker).len(), 2);
    docker.start_dockerd();
    docker.kill_daemon();
    docker.start_daemon_with(&["--unanswered-after=0s"]);
    docker.wait(|docker| files(docker).is_empty() && reserved(docker).is_empty());
}
