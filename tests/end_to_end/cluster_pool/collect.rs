//! `ipamctl collect-nodes` releases only what deleted nodes hold.

use harness::{CC, Call, KUBECTL, KUBERNETES_PROGRAMS, Output, WrongClock, needs};
use serde_json::{Value, json};

use super::administered::{Administered, ip_of, json_of};
use super::api_cluster::ApiCluster;
use crate::cluster::pool_cluster::PoolCluster;

const DELEGATES: [&str; 1] = ["ipam-da-kubernetes"];

fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
}

/// Runs it with the rights of the CronJob.
fn collect(cluster: &Administered, gone_for: &str) -> Output {
    run(cluster, &["--gone-for", gone_for, "--json"])
}

fn run(cluster: &Administered, words: &[&str]) -> Output {
    call(cluster, words).run()
}

fn call(cluster: &Administered, words: &[&str]) -> Call {
    let kubeconfig = cluster.sandbox.root().join("collector.kubeconfig");
    if !kubeconfig.exists() {
        let api = &cluster.api;
        api.apply_folder("docs/kubernetes-cluster-pool/collector");
        let made = api.kubeconfig_of_account("kube-system", "ipam-delegated-collector");
        std::fs::copy(made, &kubeconfig).unwrap();
    }
    cluster.ipamctl_as(&kubeconfig, &[&["collect-nodes"], words].concat())
}

/// The outcomes of nodes whose Node is missing.
#[track_caller]
fn outcomes(output: &Output) -> Vec<(String, String)> {
    let rows = json_of(output);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let rows = rows.as_array().unwrap().iter();
    rows.map(|row| (text(&row["node"]), text(&row["outcome"])))
        .collect()
}

fn is(node: &str, outcome: &str) -> Vec<(String, String)> {
    vec![(node.to_owned(), outcome.to_owned())]
}

#[test]
fn what_a_deleted_node_holds_is_released_by_a_later_run_unless_the_node_shows_up() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let cluster = Administered::with_pools(&json!({"lan": {"subnet": "10.55.0.0/24"}}));
    for name in ["n1", "n2"] {
        cluster.api.apply(&node(name));
    }
    let [n1, n2] = ["n1", "n2"].map(|node| cluster.config(node, &DELEGATES, "lan"));
    let kept = ip_of(&cluster.call("ADD", "c1", &n1));
    cluster.call("ADD", "c2", &n2).result();

    // Both Nodes exist.
    assert_eq!(outcomes(&collect(&cluster, "0s")), []);
    let status = &cluster.api.get("pools.ipam-delegated.io", &["lan"])[0]["status"];
    assert_eq!(
        (&status["size"], &status["reserved"]),
        (&json!(253), &json!(2))
    );
    assert_eq!(status["byNode"], json!({"n1": 1, "n2": 1}));

    // If the Node exists again, the note is removed.
    cluster.api.kubectl(&["delete", "node", "n2"]);
    assert_eq!(outcomes(&collect(&cluster, "0s")), is("n2", "noted"));
    assert_eq!(outcomes(&collect(&cluster, "1h")), is("n2", "waiting"));
    cluster.api.apply(&node("n2"));
    assert_eq!(outcomes(&collect(&cluster, "0s")), []);
    cluster.api.kubectl(&["delete", "node", "n2"]);
    assert_eq!(outcomes(&collect(&cluster, "0s")), is("n2", "noted"));

    // Likewise if the node claims something: it is running.
    cluster.call("ADD", "c3", &n2).result();
    let output = collect(&cluster, "0s");
    assert_eq!(outcomes(&output), is("n2", "kept"));
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(cluster.addresses().len(), 3);

    // Likewise if the node has registered again.
    cluster.call("DEL", "c3", &n2);
    let folder = cluster.sandbox.root().join("n2/cache");
    std::fs::remove_dir_all(folder).unwrap();
    cluster.call("ADD", "c4", &n2).result();
    assert_eq!(outcomes(&collect(&cluster, "0s")), is("n2", "noted"));

    let said = run(&cluster, &["--gone-for", "0s", "--dry-run"]).stdout;
    assert!(
        said.ends_with("would release 2 addresses and 0 blocks\n"),
        "{said}"
    );
    assert_eq!(outcomes(&collect(&cluster, "0s")), is("n2", "released"));
    assert_eq!(cluster.addresses(), [format!("lan.{kept}")]);
    assert_eq!(outcomes(&collect(&cluster, "0s")), []);
    let status = &cluster.api.get("pools.ipam-delegated.io", &["lan"])[0]["status"];
    assert_eq!(status["byNode"], json!({"n1": 1}));
}

#[test]
fn nothing_is_concluded_from_a_name_that_no_node_ever_had() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let mut cluster = Administered::with_pools(&json!({"lan": {"subnet": "10.55.0.0/24"}}));
    let rack = cluster.config("rack-7", &DELEGATES, "lan");
    cluster.call("ADD", "c1", &rack).result();
    for _ in 0..3 {
        let output = collect(&cluster, "0s");
        assert_eq!(outcomes(&output), is("rack-7", "kept"));
        assert_eq!(output.status.code(), Some(1));
    }
    assert_eq!(cluster.addresses().len(), 1);
    // Without an answer, nothing is concluded, either.
    cluster.api.stop_api_server();
    let output = collect(&cluster, "0s");
    assert_eq!(
        (output.status.code(), output.stdout.as_str()),
        (Some(2), "")
    );
}

#[test]
fn the_time_that_passes_is_the_api_servers_whatever_clock_a_machine_has() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL, CC);
    let cluster = Administered::with_pools(&json!({"lan": {"subnet": "10.55.0.0/24"}}));
    let wrong_clock = WrongClock::new(cluster.sandbox.root());
    let at = |days: i64, gone_for: &str| {
        let call = call(&cluster, &["--gone-for", gone_for, "--json"]);
        outcomes(&wrong_clock.set(call, days * 24 * 60 * 60).run())
    };
    cluster.api.apply(&node("n1"));
    let n1 = cluster.config("n1", &DELEGATES, "lan");
    cluster.call("ADD", "c1", &n1).result();
    assert_eq!(outcomes(&collect(&cluster, "0s")), []);
    // The note is written on one machine and read on others.
    cluster.api.kubectl(&["delete", "node", "n1"]);
    assert_eq!(at(-365, "1h"), is("n1", "noted"));
    for days in [-730, -365, 0, 365] {
        assert_eq!(at(days, "1h"), is("n1", "waiting"), "{days}");
    }
    cluster.api.apply(&node("n1"));
    assert_eq!(at(0, "1h"), []);
    cluster.api.kubectl(&["delete", "node", "n1"]);
    assert_eq!(at(365, "1h"), is("n1", "noted"));
    assert_eq!(cluster.addresses().len(), 1);
    assert_eq!(at(0, "0s"), is("n1", "released"));
}

#[test]
fn a_note_from_before_a_restore_ends_when_its_node_reconciles() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let cluster = ApiCluster::default();
    let shared: &dyn PoolCluster = &cluster;
    shared.define("lan", &json!({"subnet": "10.55.0.0/24"}));
    let lan = json!([{"name": "lan"}]);
    let [n1, n2] = ["n1", "n2"].map(|node| shared.config(node, &shared.addresses(), &lan));
    for (name, config) in [("n1", &n1), ("n2", &n2)] {
        cluster.api.apply(&node(name));
        shared.add("living", config).result();
    }
    let administrator = shared.as_administrator(&n1);
    let run = |words: &[&str]| shared.ipamctl(&administrator, words);
    let collect = || outcomes(&run(&["collect-nodes", "--gone-for", "0s", "--json"]));
    assert_eq!(collect(), []);
    cluster.api.kubectl(&["delete", "node", "n2"]);
    assert_eq!(collect(), is("n2", "noted"));
    assert!(run(&["reconcile", "--begin"]).status.success());
    for config in [&n1, &n2] {
        let reconciled = shared.ipamctl(config, &["reconcile"]);
        assert!(reconciled.status.success(), "{reconciled:?}");
    }
    assert_eq!(collect(), is("n2", "noted"));
    assert_eq!(cluster.held().len(), 2);
}
