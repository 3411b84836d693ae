//! `ipamctl` with a real dockerd: the holder of each address, and the attachments that Docker has
//! lost.

use std::collections::BTreeSet;

use harness::{BUSYBOX, DOCKERD, Dockerd, needs};
use serde_json::{Value, json};

use crate::with_docker::{conflist, reserved};

/// A dockerd with a network of each kind and a container on each: addresses of our IPAM
/// driver, with and without a network configuration, and a network of our driver.
fn start() -> Option<Dockerd> {
    let docker = Dockerd::start("ipamctl_docker", &[])?;
    for (name, subnet) in [("shared", "10.77.0.0/24"), ("cni", "10.78.0.0/24")] {
        let bridge = json!({"bridge": format!("{name}0"), "isGateway": true});
        conflist(&docker, name, subnet, &bridge);
    }
    let ours = ["network", "create", "--ipam-driver=ipam-delegated"];
    docker.ok(&[&ours[..], &["--subnet=10.88.0.0/24", "plain"]].concat());
    docker.ok(&[
        &ours[..],
        &[
            "--ipam-opt=conflist=shared",
            "--ipam-opt=team=shop",
            "by-chain",
        ],
    ]
    .concat());
    docker.ok(&[
        "network",
        "create",
        "--driver=ipam-delegated",
        "--opt=conflist=cni",
        "--ipam-driver=null",
        "by-cni",
    ]);
    for network in ["plain", "by-chain", "by-cni"] {
        docker.run(network, &format!("c-{network}"), &[]);
    }
    Some(docker)
}

/// The JSON output of `ipamctl`.
#[track_caller]
fn json_of(docker: &Dockerd, words: &[&str]) -> Vec<Value> {
    let output = docker.ipamctl(&[words, &["--json"]].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{words:?}: {e}\n{output:?}"))
}

/// One key of each row, as sorted texts.
fn column(rows: &[Value], key: &str) -> Vec<String> {
    let mut all: Vec<String> = rows
        .iter()
        .map(|row| {
            row[key]
                .as_str()
                .map_or_else(|| row[key].to_string(), str::to_owned)
        })
        .collect();
    all.sort();
    all
}

#[test]
fn dockers_attachments_have_dockers_names_and_go_when_docker_has_lost_them() {
    needs!("root", BUSYBOX, DOCKERD, "bridge");
    let Some(mut docker) = start() else {
        return;
    };
    let all = json_of(&docker, &["ls"]);
    let names: BTreeSet<(String, String)> = all
        .iter()
        .map(|row| {
            let name = |key: &str| row["names"][key].as_str().unwrap_or_default().to_owned();
            (name("DOCKER_NETWORK"), name("DOCKER_CONTAINER"))
        })
        .collect();
    let expected = ["plain", "by-chain", "by-cni"];
    let expected = expected.map(|name| (name.to_owned(), format!("c-{name}")));
    assert_eq!(names, BTreeSet::from(expected), "{all:#?}");
    let of_chain = all.iter().find(|row| row["names"]["team"] == "shop");
    assert!(of_chain.is_some(), "{all:#?}");
    let networks = column(&json_of(&docker, &["pools"]), "networks");
    assert!(
        networks
            .iter()
            .any(|network| network.contains("docker-10.88.0.0-24")),
        "{networks:?}"
    );
    let shown = docker.ipamctl(&["show", "10.88.0.2"]);
    assert!(
        String::from_utf8_lossy(&shown.stdout).contains("c-plain"),
        "{shown:?}"
    );

    // They are missing in the list of a CNI runtime, but in use.
    let before = reserved(&docker);
    assert_eq!(
        json_of(&docker, &["leaks", "--older-than=0s"]),
        Vec::<Value>::new()
    );
    let none = [
        "gc",
        "--valid=/dev/null",
        "--none-valid",
        "--docker",
        "--older-than=0s",
        "--even-in-use",
    ];
    assert_eq!(json_of(&docker, &none), Vec::<Value>::new());
    assert_eq!(reserved(&docker), before);

    // While Docker can't be asked, nothing counts as lost.
    docker.kill_dockerd();
    let unknown = json_of(&docker, &["leaks", "--older-than=0s"]);
    assert_eq!(column(&unknown, "evidence"), vec![r#"["unknown"]"#; 3]);
    let output = docker.ipamctl(&["gc", "--docker", "--older-than=0s"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("3 of Docker's attachments") && said.contains("docker.sock"),
        "{said}"
    );
    assert_eq!(reserved(&docker), before);

    // Docker has lost its networks.
    docker.lose_networks();
    docker.start_dockerd();
    let young = json_of(&docker, &["gc", "--docker"]);
    assert_eq!(column(&young, "outcome"), vec!["kept"; young.len()]);
    let lost = json_of(&docker, &["leaks", "--older-than=0s"]);
    assert_eq!(lost.len(), 3, "{lost:#?}");
    assert_eq!(
        column(&lost, "evidence"),
        vec![r#"["not-dockers"]"#; lost.len()]
    );
    let released = json_of(&docker, &["gc", "--docker", "--older-than=0s"]);
    let subnets = released.iter().filter_map(|row| row["subnet"].as_str());
    assert_eq!(
        subnets.collect::<BTreeSet<_>>(),
        ["10.77.0.0/24", "10.88.0.0/24"].into()
    );
    let count = lost.len() + 2;
    assert_eq!(column(&released, "outcome"), vec!["released"; count]);
    assert!(docker.sandbox.docker_files("pools").is_empty());
    assert_eq!(reserved(&docker), BTreeSet::new());
    assert_eq!(json_of(&docker, &["ls"]), Vec::<Value>::new());
    let namespaces = docker.node.sh("ls /run/netns");
    assert!(!namespaces.contains("docker-"), "{namespaces}");

    // The daemon gives the same addresses again.
    docker.ok(&[
        "network",
        "create",
        "--ipam-driver=ipam-delegated",
        "--subnet=10.88.0.0/24",
        "plain",
    ]);
    docker.run("plain", "again", &["--ip=10.88.0.2"]);
    docker.ok(&["rm", "--force", "again"]);
    assert_eq!(reserved(&docker), BTreeSet::new());
}
