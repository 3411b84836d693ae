//! SIGKILL of a real dockerd, of the daemon, or of both, and a crash of the node, while a CNI
//! network has containers, or one starts or stops. No interface and no address is lost.

use std::collections::BTreeSet;
use std::fs;
use std::process::Stdio;

use harness::{Dockerd, needs};
use serde_json::{Value, json};

use crate::with_docker::{addresses, reserved};
use crate::with_docker_networks::{assert_nothing_left, create, start};

/// What Docker doesn't have is undone this soon after a start of the daemon or of dockerd.
const SOON: [&str; 1] = ["--unanswered-after=5s"];

/// Kills these processes.
fn kill(docker: &mut Dockerd, what: &[&str]) {
    for what in what {
        match *what {
            "dockerd" => docker.kill_dockerd(),
            "daemon" => docker.kill_daemon(),
            _ => docker.crash(),
        }
    }
}

fn start_again(docker: &mut Dockerd, killed: &[&str]) {
    if killed == ["node"] {
        docker.start_containerd();
    }
    if killed != ["dockerd"] {
        docker.start_daemon_with(&SOON);
    }
    if killed != ["daemon"] {
        docker.start_dockerd();
    }
}

/// The IPv4 addresses of these containers. Waits until no other address is reserved.
#[track_caller]
fn all_addresses(docker: &Dockerd, names: &[&str]) -> BTreeSet<String> {
    let given = addresses(docker, names);
    let v4 = |ip: &String| ip.contains('.');
    let held = || -> BTreeSet<String> { reserved(docker).into_iter().filter(v4).collect() };
    docker.wait(|_| held().len() <= given.len());
    assert_eq!(held(), given);
    given
}

/// Checks that the containers reach each other, and that nothing is left after their removal.
#[track_caller]
fn assert_whole(docker: &Dockerd, names: &[&str]) {
    for ip in &all_addresses(docker, names) {
        docker.ok(&["exec", names[0], "/bin/ping", "-c1", "-W5", ip]);
    }
    docker.ok(&[&["rm", "--force"][..], names].concat());
    docker.ok(&["network", "rm", "net"]);
    assert_nothing_left(docker);
}

/// Kills these processes while two containers run, and starts them again.
fn killed(options: &[&str], victims: &[&str]) {
    let Some(mut docker) = start(options) else {
        return;
    };
    docker.kill_daemon();
    docker.start_daemon_with(&SOON);
    create(&docker, "net", &["--ipam-driver=null"]);
    docker.run("net", "c1", &["--restart=always"]);
    docker.run("net", "c2", &[]);
    let before = all_addresses(&docker, &["c1", "c2"]);
    kill(&mut docker, victims);
    start_again(&mut docker, victims);
    docker.wait(|docker| !docker.address("net", "c1").is_empty());
    // Without live-restore, the containers ended with dockerd.
    if victims == ["daemon"] || !options.is_empty() {
        assert_eq!(all_addresses(&docker, &["c1", "c2"]), before);
    }
    docker.ok(&["start", "c2"]);
    docker.run("net", "c3", &[]);
    assert_whole(&docker, &["c1", "c2", "c3"]);
}

/// Adds a plugin to `web` that waits on ADD or DEL while a file exists.
fn add_gate(docker: &Dockerd) {
    let script = format!(
        "#!/bin/sh\nconfig=$(cat); cd {}\n\
         if [ -e wait-$CNI_COMMAND ]; then touch waits; while [ -e wait-$CNI_COMMAND ]; do sleep 0.02; done; fi\n\
         [ $CNI_COMMAND = DEL ] || echo \"$config\" | tr -d '\\n' | sed 's/.*\"prevResult\"://; s/}}$//'",
        docker.sandbox.root().display()
    );
    docker.sandbox.write_executable("gate", &script);
    let file = docker.sandbox.conf_dir().join("web.conflist");
    let mut list: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    let plugins = list["plugins"].as_array_mut().unwrap();
    plugins.push(json!({"type": "gate"}));
    fs::write(&file, list.to_string()).unwrap();
}

/// A dockerd with live-restore, a network with this plugin, and a container `c1` with its address.
fn start_with_gate() -> Option<(Dockerd, String)> {
    let docker = start(&["--live-restore"])?;
    add_gate(&docker);
    create(&docker, "net", &["--ipam-driver=null"]);
    docker.run("net", "c1", &[]);
    let address = docker.address("net", "c1");
    Some((docker, address))
}

/// Kills these processes while a docker command waits for a plugin's ADD or DEL.
fn killed_in_flight(docker: &mut Dockerd, command: &[&str], at: &str, victims: &[&str]) {
    let root = docker.sandbox.root().to_owned();
    let gate = root.join(format!("wait-{at}"));
    fs::write(&gate, "").unwrap();
    let mut docker_command = docker.command(command);
    let mut in_flight = docker_command.stderr(Stdio::null()).spawn().unwrap();
    docker.wait(|_| root.join("waits").exists());
    kill(docker, victims);
    in_flight.wait().unwrap();
    fs::remove_file(gate).unwrap();
    fs::remove_file(root.join("waits")).unwrap();
    start_again(docker, victims);
}

#[test]
fn dockerd_is_killed_while_a_container_stops_and_starts() {
    needs!("bridge", "/sbin/ip");
    let Some((mut docker, before)) = start_with_gate() else {
        return;
    };
    docker.run("net", "c2", &[]);
    for (command, at) in [("stop", "DEL"), ("start", "ADD")] {
        if command == "start" {
            docker.ok(&["stop", "c2"]);
        }
        killed_in_flight(&mut docker, &[command, "c2"], at, &["dockerd"]);
        assert_eq!(docker.address("net", "c1"), before);
        docker.ok(&["start", "c2"]);
        docker.wait(|docker| reserved(docker).len() == 4);
        assert!(all_addresses(&docker, &["c1", "c2"]).contains(&before));
    }
    assert_whole(&docker, &["c1", "c2"]);
}

#[test]
fn both_are_killed_while_a_container_starts() {
    needs!("bridge", "/sbin/ip");
    let Some((mut docker, before)) = start_with_gate() else {
        return;
    };
    let run = [
        "run",
        "--detach",
        "--network=net",
        "--name=c2",
        "test",
        "/bin/true",
    ];
    killed_in_flight(&mut docker, &run, "ADD", &["dockerd", "daemon"]);
    // Nothing is left of the starting container.
    docker.wait(|docker| reserved(docker).len() == 2);
    assert_eq!(all_addresses(&docker, &["c1"]), [before].into());
    docker.run("net", "c3", &[]);
    docker.ok(&["rm", "--force", "c2"]);
    assert_whole(&docker, &["c1", "c3"]);
}

macro_rules! kills {
    ($($name:ident: $options:expr, $kill:expr;)+) => {
        $(
            #[test]
            fn $name() {
                needs!("bridge", "/sbin/ip");
                killed(&$options, &$kill);
            }
        )+
    };
}

kills! {
    a_killed_daemon_costs_no_interface: [], ["daemon"];
    a_killed_dockerd_costs_no_interface: [], ["dockerd"];
    a_killed_dockerd_that_restores_costs_no_interface: ["--live-restore"], ["dockerd"];
    both_killed_cost_no_interface: ["--live-restore"], ["dockerd", "daemon"];
    a_crashed_node_costs_no_address: [], ["node"];
}
