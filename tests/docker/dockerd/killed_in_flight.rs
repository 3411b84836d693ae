//! SIGKILL of a real dockerd, of the daemon, or of both, while a container starts or stops; and the
//! loss of Docker's own state. No interface and no address is lost.

use std::collections::BTreeSet;
use std::fs;
use std::process::Stdio;

use harness::{Dockerd, is_answered, needs};
use serde_json::{Value, json};

use crate::dockerd::networks::{assert_nothing_left, create, start};
use crate::dockerd::{addresses, reserved, wait_for_only};

/// What Docker doesn't have is undone this soon after a start of the daemon or of dockerd.
const SOON: [&str; 1] = ["--unanswered-after=5s"];

/// The IPv4 addresses of these containers. Waits until no other address is reserved.
#[track_caller]
fn all_addresses(docker: &Dockerd, names: &[&str]) -> BTreeSet<String> {
    let given = addresses(docker, names);
    wait_for_only(docker, &given);
    given
}

/// Checks that the containers reach each other, and that nothing is left after their removal.
#[track_caller]
fn assert_whole(docker: &mut Dockerd, names: &[&str]) {
    for ip in &all_addresses(docker, names) {
        docker.ping(names[0], ip);
    }
    docker.says(&format!("rm --force {}", names.join(" ")));
    docker.says("network rm net");
    docker.sweep();
    docker.wait(|docker| reserved(docker).is_empty());
    assert_nothing_left(docker);
}

/// A delegate and a plugin that waits on ADD or DEL while a file exists, and passes the result on.
fn gate(docker: &Dockerd) {
    let script = format!(
        "#!/bin/sh\nconfig=$(cat); cd {}\n\
         if [ -e wait-$CNI_COMMAND ]; then touch waits; while [ -e wait-$CNI_COMMAND ]; do sleep 0.02; done; fi\n\
         [ $CNI_COMMAND = DEL ] || echo \"$config\" | tr -d '\\n' | sed 's/.*\"prevResult\"://; s/}}$//'",
        docker.sandbox.root().display()
    );
    docker.sandbox.write_executable("gate", &script);
}

/// Changes the configuration `web`.
fn change(docker: &Dockerd, change: impl FnOnce(&mut Value)) {
    gate(docker);
    let file = docker.sandbox.conf_dir().join("web.conflist");
    let mut list: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    change(&mut list["plugins"]);
    fs::write(&file, list.to_string()).unwrap();
}

/// A dockerd with live-restore, and a configuration whose last plugin is the gate.
fn start_with_gate() -> Option<Dockerd> {
    let docker = start(&["--live-restore"])?;
    change(&docker, |plugins| {
        plugins
            .as_array_mut()
            .unwrap()
            .push(json!({"type": "gate"}));
    });
    Some(docker)
}

/// Creates the network, and a container `c1`; returns its address.
fn start_first(docker: &Dockerd) -> String {
    create(docker, "net", &["--ipam-driver=null"]);
    docker.run("net", "c1", &[]);
    docker.address("net", "c1")
}

/// Kills these processes while a docker command waits in ADD or DEL of the gate; true if the command
/// has succeeded.
fn killed_in_flight(docker: &mut Dockerd, command: &str, at: &str, victims: &[&str]) -> bool {
    let root = docker.sandbox.root().to_owned();
    let gate = root.join(format!("wait-{at}"));
    fs::write(&gate, "").unwrap();
    let words: Vec<&str> = command.split(' ').collect();
    let mut command = docker.command(&words);
    let mut in_flight = command.stderr(Stdio::null()).spawn().unwrap();
    docker.wait(|_| root.join("waits").exists());
    for victim in victims {
        match *victim {
            "dockerd" => docker.kill_dockerd(),
            _ => docker.kill_daemon(),
        }
    }
    let is_all = victims.contains(&"dockerd");
    let ended = is_all.then(|| in_flight.wait().unwrap());
    fs::remove_file(gate).unwrap();
    fs::remove_file(root.join("waits")).unwrap();
    if victims.contains(&"daemon") {
        docker.start_daemon_with(&SOON);
    }
    if is_all {
        docker.start_dockerd();
    }
    let ended = ended.unwrap_or_else(|| in_flight.wait().unwrap());
    ended.success()
}

#[test]
fn dockerd_is_killed_while_a_container_stops_and_starts() {
    needs!("bridge", "/sbin/ip");
    let Some(mut docker) = start_with_gate() else {
        return;
    };
    let docker = &mut docker;
    let before = start_first(docker);
    docker.run("net", "c2", &[]);
    for (command, at) in [("stop", "DEL"), ("start", "ADD")] {
        if command == "start" {
            docker.says("stop c2");
        }
        killed_in_flight(docker, &format!("{command} c2"), at, &["dockerd"]);
        assert_eq!(docker.address("net", "c1"), before);
        docker.says("start c2");
        docker.wait(|docker| reserved(docker).len() == 4);
        assert!(all_addresses(docker, &["c1", "c2"]).contains(&before));
    }
    assert_whole(docker, &["c1", "c2"]);
}

#[test]
fn both_are_killed_while_a_container_starts() {
    needs!("bridge", "/sbin/ip");
    let Some(mut docker) = start_with_gate() else {
        return;
    };
    let docker = &mut docker;
    let before = start_first(docker);
    let run = "run --detach --network=net --name=c2 test /bin/true";
    killed_in_flight(docker, run, "ADD", &["dockerd", "daemon"]);
    // Nothing is left of the starting container.
    docker.wait(|docker| reserved(docker).len() == 2);
    assert_eq!(all_addresses(docker, &["c1"]), [before].into());
    docker.run("net", "c3", &[]);
    docker.says("rm --force c2");
    assert_whole(docker, &["c1", "c3"]);
}

#[test]
fn the_daemon_is_killed_while_it_requests_an_address() {
    needs!("bridge", "/sbin/ip");
    let Some(mut docker) = start(&[]) else {
        return;
    };
    change(&docker, |plugins| {
        let ipam = &mut plugins[0]["ipam"];
        ipam["delegates"] = json!(["ipam-ds-ranges", "ipam-da-host-local", "gate"]);
        ipam["ranges"] = json!([[{"subnet": "10.88.0.0/24"}]]);
    });
    docker.says("network create --ipam-driver=ipam-delegated --ipam-opt=conflist=web net");
    docker.run("net", "c-a", &[]);
    let before = addresses(&docker, &["c-a"]);
    docker.wait(all_are_answered);
    let run = "run --network=net --name=c-b test /bin/true";
    // Docker has repeated the call without its body.
    assert!(!killed_in_flight(&mut docker, run, "ADD", &["daemon"]));
    docker.wait(|docker| files(docker).len() == 1 && all_are_answered(docker));
    assert_eq!(reserved(&docker), before);
    docker.says("rm --force c-b");
    docker.run("net", "c-b", &[]);
    assert_whole(&mut docker, &["c-a", "c-b"]);
}

/// The daemon's files of addresses.
fn files(docker: &Dockerd) -> Vec<String> {
    docker.sandbox.docker_contents("addresses")
}

fn all_are_answered(docker: &Dockerd) -> bool {
    files(docker).iter().all(|file| is_answered(file))
}

#[test]
fn what_docker_has_lost_is_released() {
    let Some(mut docker) = Dockerd::start(&[]) else {
        return;
    };
    docker.says("network create --ipam-driver=ipam-delegated --subnet=10.88.0.0/24 net");
    docker.run("net", "c-a", &["--restart=always"]);
    docker.run("net", "c-b", &[]);
    docker.wait(all_are_answered);
    docker.kill_dockerd();
    docker.lose_networks();
    docker.kill_daemon();
    docker.start_daemon_with(&["--unanswered-after=0s"]);
    docker.wait(|docker| docker.logged("Docker can't be asked") > 0);
    assert_eq!(reserved(&docker).len(), 2);
    docker.start_dockerd();
    docker.kill_daemon();
    docker.start_daemon_with(&["--unanswered-after=0s"]);
    docker.wait(|docker| files(docker).is_empty() && reserved(docker).is_empty());
}
