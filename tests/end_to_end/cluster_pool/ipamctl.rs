//! `ipamctl` on pools in Kubernetes' API: the commands of a node, and those of an administrator
//! whose machine has no conflist.

use std::fs;

use harness::{KUBECTL, KUBERNETES_PROGRAMS, Output, Sandbox, needs};
use serde_json::{Value, json};

use super::administered::{Administered, ip_of, json_of};

const ADDRESSES: [&str; 1] = ["ipam-da-kubernetes"];
const BLOCKS: [&str; 2] = ["ipam-ds-kubernetes", "ipam-da-host-local"];

/// `ipamctl` on the node of this configuration.
fn on_node(cluster: &Administered, config: &Value, words: &[&str]) -> Output {
    cluster.sandbox.write_conflist("10-lan.conflist", config);
    cluster.sandbox.ipamctl(words).run()
}

#[track_caller]
fn succeeds(output: Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    output.stdout
}

#[test]
fn a_node_and_an_administrator_see_and_drive_the_pools() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let cluster = Administered::with_pools(&json!({
        "lan": {"subnet": "10.55.0.0/24"},
        "six": {"subnet": "fd00:55::/64"},
        "blocks": {"subnet": "10.56.0.0/24", "block": 28},
    }));
    let [n1, n2] = ["n1", "n2"].map(|node| cluster.config(node, &ADDRESSES, "lan"));
    let six = cluster.config("n1", &ADDRESSES, "six");
    let blocks = cluster.config("n2", &BLOCKS, "blocks");
    let first = ip_of(&cluster.call("ADD", "c1", &n1));
    cluster.call("ADD", "c2", &n2).result();
    cluster.call("ADD", "c6", &six).result();
    cluster.call("ADD", "c3", &blocks).result();

    let pools = json_of(&on_node(&cluster, &n1, &["pools", "--json"]));
    let lan = pools
        .as_array()
        .unwrap()
        .iter()
        .find(|pool| pool["pool"] == "lan");
    assert_eq!(
        (&lan.unwrap()["reserved"], &lan.unwrap()["size"]),
        (&json!(2), &json!(253))
    );
    let all = json_of(&on_node(&cluster, &n1, &["ls", "--all-nodes", "--json"]));
    let mut held: Vec<(&str, &str)> = all
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            (
                row["containerID"].as_str().unwrap(),
                row["node"].as_str().unwrap(),
            )
        })
        .collect();
    held.sort_unstable();
    assert_eq!(held, [("c1", "n1"), ("c2", "n2"), ("c6", "n1")]);
    let shown = succeeds(on_node(&cluster, &n1, &["show", "c1"]));
    assert!(
        shown.contains(&format!("addresses.ipam-delegated.io/lan.{first}")),
        "{shown}"
    );
    let shown = succeeds(on_node(&cluster, &six, &["show", "c6"]));
    assert!(
        shown.contains("addresses.ipam-delegated.io/six.fd00-55-0-0-"),
        "{shown}"
    );
    let drawn = succeeds(on_node(&cluster, &n1, &["map", "lan"]));
    assert!(drawn.contains("2 reserved, 251 free"), "{drawn}");
    let checked = on_node(&cluster, &n1, &["check", "--no-exec"]).stdout;
    assert!(!checked.contains("ipam."), "{checked}");
    let conflist = cluster.sandbox.conf_dir().join("10-lan.conflist");
    let explained = succeeds(on_node(
        &cluster,
        &n1,
        &["explain", conflist.to_str().unwrap()],
    ));
    assert!(
        explained.contains("not known: ipam-da-kubernetes chooses the address"),
        "{explained}"
    );

    let claimed = json_of(&cluster.administer(&["blocks", "--json"]));
    assert_eq!(claimed[0]["claimed"][0]["node"], "n2");

    // An import never takes away held addresses, whoever runs it.
    let refused = cluster.import(
        &json!({"lan": {"subnet": "10.55.0.128/25"}}),
        &["--replace"],
    );
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(
        refused
            .stderr
            .contains("which c1 eth0 of network testnet on node n1 holds"),
        "{refused:?}"
    );
    let same = cluster.import(&json!({"lan": {"subnet": "10.55.0.0/24"}}), &[]);
    assert_eq!(succeeds(same), "lan: unchanged\n");

    // GC with a list, and release, only affect this node.
    let list = cluster.sandbox.root().join("valid");
    fs::write(&list, "").unwrap();
    let gc = [
        "gc",
        "--valid",
        list.to_str().unwrap(),
        "--none-valid",
        "--older-than",
        "0s",
        "--even-in-use",
    ];
    succeeds(on_node(&cluster, &n1, &gc));
    assert!(
        cluster
            .addresses()
            .iter()
            .all(|name| !name.ends_with(&first))
    );
    assert_eq!(cluster.addresses().len(), 1, "c1 and c6 are of n1");
    cluster.call("ADD", "c4", &n1).result();
    succeeds(on_node(&cluster, &n1, &["release", "c4"]));

    // A node can be forgotten from any machine except itself.
    let forgotten = cluster.administer(&["node-forget", "n2", "--yes"]);
    assert!(succeeds(forgotten).ends_with("released: 1 addresses, 1 blocks\n"));
    assert!(cluster.addresses().is_empty());
}

#[test]
fn nodes_say_what_lives_there_after_a_restore() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let mut cluster = Administered::with_pools(&json!({"lan": {"subnet": "10.55.0.0/24"}}));
    let n1 = cluster.config("n1", &ADDRESSES, "lan");
    cluster.call("ADD", "c0", &n1).result();
    let snapshot = cluster.api.snapshot();
    let lost = ip_of(&cluster.call("ADD", "c1", &n1));
    cluster.api.restore(&snapshot);
    let n1 = cluster.config("n1", &ADDRESSES, "lan");
    // A node's rights are not enough.
    let refused = on_node(&cluster, &n1, &["reconcile", "--begin"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    succeeds(cluster.administer(&["reconcile", "--begin"]));
    cluster
        .call("ADD", "c2", &n1)
        .refused(11, "ipamctl reconcile");
    let collected = cluster.administer(&["collect-nodes", "--gone-for", "0s"]);
    assert!(
        collected.stderr.contains("nothing is collected"),
        "{collected:?}"
    );
    // After the start of the API server, policies that refer to a kind need some time.
    let said = std::cell::RefCell::new(String::new());
    cluster.api.wait_for("reconcile", || {
        let output = on_node(&cluster, &n1, &["reconcile"]);
        said.borrow_mut().push_str(&output.stdout);
        output.status.success()
    });
    let said = said.into_inner();
    assert!(said.contains(&format!("{lost} of pool lan")), "{said}");
    assert!(said.contains("had lost 1 of them"), "{said}");
    assert!(cluster.addresses().contains(&format!("lan.{lost}")));
    cluster.call("ADD", "c2", &n1).result();
}

#[test]
fn requests_go_through_the_proxy_of_the_environment_as_those_of_kubectl() {
    let sandbox = Sandbox::default();
    let kubeconfig = sandbox.root().join("kubeconfig");
    let config = json!({
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k"}}],
        "clusters": [{"name": "k", "cluster": {"server": "http://api.invalid"}}],
    });
    fs::write(&kubeconfig, config.to_string()).unwrap();
    let blocks = ["blocks", "--kubeconfig", kubeconfig.to_str().unwrap()];
    let through = |exceptions: &str| {
        let call = sandbox.ipamctl(&blocks);
        let call = call.env("http_proxy", "http://127.0.0.1:1");
        call.env("NO_PROXY", exceptions).run().stderr
    };
    let proxy = "proxy http://127.0.0.1:1/ (HTTP_PROXY)";
    let said = through(".other");
    assert!(said.contains(proxy), "{said}");
    let said = through(".invalid");
    assert!(
        said.contains("api.invalid") && !said.contains(proxy),
        "{said}"
    );
}
