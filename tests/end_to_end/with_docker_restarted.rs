//! dockerd and the daemon, killed and started again in each order, under running
//! containers.

use std::collections::BTreeSet;

use harness::{BUSYBOX, DOCKERD, Dockerd, needs};

use crate::with_docker::reserved;

/// A dockerd with a network and two containers.
fn start(options: &[&str]) -> Option<Dockerd> {
    let docker = Dockerd::start("with_docker_restarted", options)?;
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

/// The addresses of these containers, which run.
#[track_caller]
fn addresses(docker: &Dockerd, names: &[&str]) -> BTreeSet<String> {
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

/// These containers have addresses, nothing else has, and all of it goes with them.
#[track_caller]
fn assert_whole(docker: &Dockerd, names: &[&str]) {
    assert_eq!(reserved(docker), addresses(docker, names));
    for other in addresses(docker, names) {
        docker.ok(&["exec", names[0], "/bin/ping", "-c1", "-W5", &other]);
    }
    docker.ok(&[&["rm", "--force"][..], names].concat());
    docker.ok(&["network", "rm", "net"]);
    assert_eq!(reserved(docker), BTreeSet::new());
    docker.wait(|it| it.sandbox.docker_memory("addresses").is_empty());
    docker.wait(|it| it.sandbox.docker_memory("pools").is_empty());
}

#[test]
fn the_daemon_is_killed_under_running_containers() {
    needs!("root", BUSYBOX, DOCKERD);
    let Some(mut docker) = start(&[]) else {
        return;
    };
    let before = addresses(&docker, &["c-a", "c-b"]);
    docker.kill_daemon();
    // Docker waits for the daemon: a call that finds nobody is made again.
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
    assert_whole(&docker, &["c-a", "c-b", "c-c", "c-d"]);
}

#[test]
fn dockerd_is_killed_without_live_restore() {
    needs!("root", BUSYBOX, DOCKERD);
    let Some(mut docker) = start(&[]) else {
        return;
    };
    docker.kill_dockerd();
    docker.start_dockerd();
    // One is started again by Docker, the other is not.
    docker.wait(|it| !it.address("net", "c-a").is_empty());
    docker.ok(&["start", "c-b"]);
    docker.run("net", "c-c", &[]);
    assert_whole(&docker, &["c-a", "c-b", "c-c"]);
}

#[test]
fn dockerd_is_killed_with_live_restore() {
    needs!("root", BUSYBOX, DOCKERD);
    let Some(mut docker) = start(&["--live-restore"]) else {
        return;
    };
    let before = addresses(&docker, &["c-a", "c-b"]);
    docker.kill_dockerd();
    docker.start_dockerd();
    assert_eq!(addresses(&docker, &["c-a", "c-b"]), before);
    docker.run("net", "c-c", &[]);
    assert_whole(&docker, &["c-a", "c-b", "c-c"]);
}

#[test]
fn both_are_killed() {
    needs!("root", BUSYBOX, DOCKERD);
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
    assert_whole(&docker, &["c-a", "c-b", "c-c"]);
}

#[test]
fn the_node_crashes_and_boots() {
    needs!("root", BUSYBOX, DOCKERD);
    let Some(mut docker) = start(&[]) else {
        return;
    };
    docker.crash();
    docker.start_containerd();
    docker.start_daemon();
    docker.start_dockerd();
    docker.wait(|it| !it.address("net", "c-a").is_empty());
    docker.ok(&["start", "c-b"]);
    docker.run("net", "c-c", &[]);
    assert_whole(&docker, &["c-a", "c-b", "c-c"]);
}
