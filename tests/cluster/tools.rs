//! What `ipamctl` does with a cluster's pool, for each engine. Networks have no conflist, as with Multus:
//! records lead to the cluster.

use std::fs;

use harness::Output;
use serde_json::{Value, json};

use crate::pool_cluster::{PoolCluster, promises};

promises! {
    after_a_restore_records_claim_again,
    an_address_without_a_record_is_listed_and_collected,
    a_node_that_is_gone_is_forgotten_and_nobody_else,
}

fn blue(more: &Value) -> Value {
    let mut pool = json!({"name": "blue"});
    let keys = pool.as_object_mut().unwrap();
    keys.extend(more.as_object().unwrap().clone());
    json!([pool])
}

/// A configuration of a node for the pool `blue`, which is defined.
fn config(cluster: &dyn PoolCluster, node: &str) -> Value {
    cluster.define("blue", &json!({"subnet": "10.0.0.0/28"}));
    cluster.config(node, &blue(&json!({})))
}

/// The outcome of each address in JSON, sorted.
fn outcomes(output: &Output) -> Vec<String> {
    let rows: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    let row = |row: &Value| format!("{} {}", text(row, "containerID"), text(row, "outcome"));
    let mut rows: Vec<String> = rows.as_array().unwrap().iter().map(row).collect();
    rows.sort();
    rows
}

/// The file by which a configuration's engine is reached.
fn file_of_engine(config: &Value) -> String {
    let ipam = &config["ipam"];
    let files = [&ipam["etcd"], &ipam["kubernetes"]["kubeconfig"]];
    let mut files = files.iter().filter_map(|file| file.as_str());
    files.next().unwrap().to_owned()
}

fn after_a_restore_records_claim_again(cluster: &mut dyn PoolCluster) {
    let config = config(cluster, "n1");
    let [lost, _, ending] = ["lost", "kept", "ending"].map(|id| cluster.add(id, &config).ips());
    let before = cluster.addresses();
    // A DEL has begun: reconcile leaves its address to it.
    let (file, away) = (file_of_engine(&config), file_of_engine(&config) + ".away");
    fs::rename(&file, &away).unwrap();
    assert!(!cluster.del("ending", &config).status.success());
    fs::rename(&away, &file).unwrap();
    cluster.lose(&lost[0]);
    cluster.lose(&ending[0]);
    // An address is its own name, so no definition is needed.
    cluster.undefine("blue");
    let reconcile = |code| {
        let output = cluster.ipamctl("n1", &["reconcile", "--json"]).run();
        output.ends(code);
        output
    };
    assert_eq!(outcomes(&reconcile(0)), ["kept held", "lost claimed"]);
    let mut expected = before;
    expected.retain(|line| !line.contains("ending"));
    assert_eq!(cluster.addresses(), expected);
    assert_eq!(outcomes(&reconcile(0)), ["kept held", "lost held"]);

    cluster.define("blue", &json!({"subnet": "10.0.0.0/28"}));
    cluster.lose(&lost[0]);
    let pinned = blue(&json!({"requested-ip": lost[0]}));
    let other = cluster.config("n2", &pinned);
    cluster.add("other", &other).result();
    let output = reconcile(1);
    assert_eq!(outcomes(&output), ["kept held", "lost conflict"]);
    let holder = "reserved to other eth0 of network testnet on node n2";
    output.prints([holder]);
}

/// After a restore, addresses are back that were released since, or a record is lost.
fn an_address_without_a_record_is_listed_and_collected(cluster: &mut dyn PoolCluster) {
    let config = config(cluster, "n1");
    cluster.add("c1", &config).result();
    let stray = cluster.alone("ADD", "stray", &config).run().ips();
    let of_other = cluster.config("n2", &blue(&json!({})));
    cluster.add("c2", &of_other).result();
    let before = cluster.addresses();
    let listed = cluster.ipamctl("n1", &["ls", "--json"]).run().result();
    let ids = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["containerID"]);
    assert_eq!(ids.collect::<Vec<_>>().len(), 2, "{listed}");
    let with_list = |command: &str| {
        let words = [command, "--valid", "-", "--older-than", "0s", "--json"];
        cluster.ipamctl("n1", &words).stdin("c1\n").run()
    };
    let leaks = with_list("leaks");
    leaks.ends(1);
    assert!(leaks.stdout.contains(&stray[0]) && leaks.stdout.contains("not-valid"));
    assert_eq!(cluster.addresses(), before);
    assert_eq!(outcomes(&with_list("gc")), ["stray released"]);
    let mut expected = before;
    expected.retain(|line| !line.contains("stray"));
    assert_eq!(cluster.addresses(), expected);
}

fn a_node_that_is_gone_is_forgotten_and_nobody_else(cluster: &mut dyn PoolCluster) {
    let gone = config(cluster, "n1");
    let here = cluster.config("n2", &blue(&json!({})));
    for (container, config) in [("a", &gone), ("b", &gone), ("c", &here)] {
        cluster.add(container, config).result();
    }
    cluster.sandbox().write_conflist("10-blue.conflist", &here);
    let before = cluster.addresses();
    let forget = |words: &[&str]| {
        let words = [&["node-forget", "--json"], words].concat();
        cluster.ipamctl("n2", &words).run()
    };
    let shown = forget(&["n1"]);
    shown.ends(1);
    assert_eq!(outcomes(&shown), ["a would-release", "b would-release"]);
    forget(&["n2", "--yes"]).failed(2, ["n2 is this node"]);
    assert_eq!(cluster.addresses(), before);
    let released = cluster.as_administrator("n2", &["node-forget", "--json", "n1", "--yes"]);
    released.ends(0);
    assert_eq!(outcomes(&released), ["a released", "b released"]);
    assert_eq!(cluster.addresses().len(), 1);
    assert!(cluster.addresses()[0].contains("n2/testnet/c:eth0"));
    // The DELs of its containers find nothing then, wherever they run.
    cluster.del("a", &gone).nothing();
}
