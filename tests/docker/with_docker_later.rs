//! The networks of the page about Docker, with a newer Docker than Debian's.

use std::collections::BTreeSet;

use harness::{Dockerd, KUBERNETES_PROGRAMS, kubernetes_programs, needs};
use serde_json::json;

use crate::with_docker::reserved;
use harness::cni_network::{configure, left};

const RUNNING: [(&str, &str); 4] = [("a1", "ours"), ("a2", "ours"), ("n1", "cni"), ("n2", "cni")];

/// Creates a network of each driver, with two containers each.
fn start(options: &[&str]) -> Option<Dockerd> {
    let docker = Dockerd::start_of(options, kubernetes_programs())?;
    configure(&docker.sandbox, &json!({}), &[]);
    let create = ["network", "create"];
    let ours = [
        "--ipam-driver=ipam-delegated",
        "--subnet=10.88.0.0/24",
        "ours",
    ];
    docker.ok(&[&create[..], &ours].concat());
    let cni = [
        "--driver=ipam-delegated",
        "--ipam-driver=null",
        "--opt=conflist=web",
        "cni",
    ];
    docker.ok(&[&create[..], &cni].concat());
    for (container, network) in RUNNING {
        docker.run(network, container, &[]);
    }
    Some(docker)
}

/// The addresses of the containers. Checks that no other address is reserved, and that the
/// containers reach each other.
#[track_caller]
fn addresses(docker: &Dockerd) -> BTreeSet<String> {
    let given = RUNNING.map(|(container, network)| docker.address(network, container));
    let v4 = |ip: &String| ip.contains('.');
    let held: BTreeSet<String> = reserved(docker).into_iter().filter(v4).collect();
    assert_eq!(held, given.clone().into());
    for (from, to) in [("a1", 1), ("n1", 3)] {
        docker.ok(&["exec", from, "/bin/ping", "-c1", "-W5", &given[to]]);
    }
    held
}

/// Removes containers and networks; the networks while the daemon isn't running.
fn assert_whole(mut docker: Dockerd) {
    let containers = RUNNING.map(|(container, _)| container);
    docker.ok(&[&["rm", "--force"][..], &containers].concat());
    assert_eq!(reserved(&docker), BTreeSet::new());
    assert_eq!(left(&docker.node), [""; 0]);
    docker.kill_daemon();
    // Docker retries for half a minute, and then removes the network anyway.
    let remove = |name| docker.command(&["network", "rm", name]).spawn().unwrap();
    for mut removing in ["ours", "cni"].map(remove) {
        removing.wait().unwrap();
    }
    assert!(!docker.ok(&["network", "ls"]).contains("ours"));
    docker.start_daemon_with(&["--unanswered-after=0s"]);
    for kind in ["addresses", "networks", "endpoints"] {
        docker.wait(|docker| docker.sandbox.docker_files(kind).is_empty());
    }
}

#[test]
fn docker_29_has_networks_of_both_drivers_whatever_is_killed() {
    needs!(KUBERNETES_PROGRAMS, "bridge", "/sbin/ip");
    let Some(mut docker) = start(&["--live-restore"]) else {
        return;
    };
    let version = docker.ok(&["version", "--format", "{{.Server.Version}}"]);
    assert!(version.starts_with("29."), "{version}");
    let before = addresses(&docker);
    docker.kill_daemon();
    docker.start_daemon();
    assert_eq!(addresses(&docker), before);
    docker.kill_dockerd();
    docker.start_dockerd();
    assert_eq!(addresses(&docker), before);
    docker.kill_dockerd();
    docker.kill_daemon();
    docker.start_daemon_with(&["--unanswered-after=0s"]);
    docker.start_dockerd();
    docker.wait(|docker| docker.called().contains("/IpamDriver.GetCapabilities"));
    assert_eq!(addresses(&docker), before);
    // So that an endpoint that is being made is older than nothing.
    docker.kill_daemon();
    docker.start_daemon();
    docker.ok(&["restart", "--time=0", "a1", "n1"]);
    addresses(&docker);
    assert_whole(docker);
}
