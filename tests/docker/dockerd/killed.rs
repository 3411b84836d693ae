//! dockerd, the daemon or both are killed, or the node crashes, while containers run on a network of
//! each driver: no address and no interface is lost. With either version of Docker.

use std::collections::BTreeSet;
use std::process::Stdio;

use harness::{Dockerd, KUBERNETES_PROGRAMS, needs};
use serde_json::json;

use crate::dockerd::as_own::with_either;
use crate::dockerd::{reserved, wait_for_only};
use harness::cni_network::{configure, left};

/// Containers, with their networks. Docker restarts the first of each network.
const RUNNING: [(&str, &str); 4] = [("a1", "ours"), ("a2", "ours"), ("n1", "cni"), ("n2", "cni")];

/// Creates a network of each driver, with two containers each.
fn start(docker: &Dockerd) {
    configure(&docker.sandbox, &json!({}), &[]);
    docker.says("network create --ipam-driver=ipam-delegated --subnet=10.88.0.0/24 ours");
    let cni = "--driver=ipam-delegated --ipam-driver=null --opt=conflist=web cni";
    docker.says(&format!("network create {cni}"));
    for (container, network) in RUNNING {
        let is_restarted = container.ends_with('1');
        let restart = if is_restarted { "always" } else { "no" };
        docker.run(network, container, &[&format!("--restart={restart}")]);
    }
}

/// The addresses of the containers. Checks that no other address is reserved once Docker was asked,
/// and that the containers reach each other.
#[track_caller]
fn addresses(docker: &mut Dockerd) -> BTreeSet<String> {
    docker.sweep();
    let given = RUNNING.map(|(container, network)| docker.address(network, container));
    wait_for_only(docker, &given.clone().into());
    for (from, to) in [("a1", 1), ("n1", 3)] {
        docker.ping(from, &given[to]);
    }
    given.into()
}

/// Removes containers and networks.
fn assert_whole(docker: &mut Dockerd) {
    docker.says("rm --force a1 a2 n1 n2");
    assert_eq!(reserved(docker), BTreeSet::new());
    assert_eq!(left(&docker.node), [""; 0]);
    docker.says("network rm ours cni");
    docker.sweep();
    for kind in ["addresses", "networks", "endpoints"] {
        docker.wait(|docker| docker.sandbox.docker_files(kind).is_empty());
    }
}

/// Restarts the daemon so that an endpoint that is being made is older than nothing.
fn be_patient(docker: &mut Dockerd) {
    docker.kill_daemon();
    docker.start_daemon();
}

#[test]
fn containers_that_outlive_dockerd_keep_addresses_and_interfaces_whatever_is_killed() {
    needs!(KUBERNETES_PROGRAMS, "bridge", "/sbin/ip");
    with_either(0, &["--live-restore"], |mut docker| {
        start(&docker);
        let before = addresses(&mut docker);
        docker.kill_daemon();
        // Docker repeats a call while the daemon isn't running.
        let waiting = ["run", "--rm", "--network=ours", "test", "/bin/true"];
        let mut waiting = docker.command(&waiting);
        let mut waiting = waiting.stderr(Stdio::null()).spawn().unwrap();
        docker.start_daemon();
        assert!(waiting.wait().unwrap().success());
        assert_eq!(addresses(&mut docker), before);
        docker.kill_dockerd();
        docker.start_dockerd();
        assert_eq!(addresses(&mut docker), before);
        docker.kill_dockerd();
        docker.kill_daemon();
        docker.start_daemon_with(&["--unanswered-after=0s"]);
        docker.start_dockerd();
        assert_eq!(addresses(&mut docker), before);
        be_patient(&mut docker);
        docker.says("restart --time=0 a1 n1");
        addresses(&mut docker);
        assert_whole(&mut docker);
    });
}

#[test]
fn containers_that_end_with_dockerd_or_the_node_have_addresses_when_they_start_again() {
    needs!(KUBERNETES_PROGRAMS, "bridge", "/sbin/ip");
    with_either(1, &[], |mut docker| {
        start(&docker);
        for is_crash in [false, true] {
            if is_crash {
                docker.crash();
                docker.start_containerd();
                docker.start_daemon();
            } else {
                docker.kill_dockerd();
            }
            docker.start_dockerd();
            for (container, network) in [RUNNING[0], RUNNING[2]] {
                docker.wait(|docker| !docker.address(network, container).is_empty());
            }
            docker.says("start a2 n2");
            addresses(&mut docker);
            be_patient(&mut docker);
        }
        assert_whole(&mut docker);
    });
}
