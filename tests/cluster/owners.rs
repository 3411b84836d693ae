//! What an address promises that belongs to an owner, for each engine.

use std::collections::BTreeSet;
use std::thread;

use harness::Output;
use serde_json::{Value, json};

use crate::pool_cluster::{PoolCluster, promises};

promises! {
    all_containers_of_an_owner_have_its_address_and_no_call_releases_it,
    first_adds_on_many_nodes_at_once_name_one_address,
    an_owners_address_is_claimed_again_shown_and_released_by_a_person,
}

/// The configuration of a node whose rule gives each `VM` an address of its own.
fn config(cluster: &dyn PoolCluster, node: &str) -> Value {
    let mut config = cluster.config(node, &json!({"blue": {}}));
    config["ipam"]["delegates"] = json!(["ipam-ds-rules", cluster.allocator()]);
    config["ipam"]["rules"] = json!([
        {"when": {"VM": "*"}, "pools": ["blue"], "owner": "virtualmachines.kubevirt.io/prod/${VM}"},
        {"pools": ["blue"]},
    ]);
    config
}

fn of_vm(cluster: &dyn PoolCluster, command: &str, id: &str, vm: &str, config: &Value) -> Output {
    let call = cluster.call(command, id, config);
    call.env("CNI_ARGS", format!("VM={vm}")).run()
}

fn all_containers_of_an_owner_have_its_address_and_no_call_releases_it(
    cluster: &mut dyn PoolCluster,
) {
    cluster.define("blue", &json!({"subnet": "10.0.0.0/28"}));
    let [one, two] = ["n1", "n2"].map(|node| config(cluster, node));
    let source = of_vm(cluster, "ADD", "c1", "web", &one).result();
    assert_eq!(source["ips"].as_array().unwrap().len(), 1);
    let address = source["ips"][0]["address"].as_str().unwrap();
    let ip = address.strip_suffix("/28").unwrap().to_owned();
    assert_eq!(source["owned"], json!([ip]));
    // A migration.
    let target = of_vm(cluster, "ADD", "c2", "web", &two);
    assert_eq!(target.ips(), std::slice::from_ref(&ip));
    let owned = [format!("{ip} virtualmachines.kubevirt.io/prod/web")];
    assert_eq!(cluster.addresses(), owned);
    let mut check = one.clone();
    check["prevResult"] = source;
    of_vm(cluster, "CHECK", "c1", "web", &check).nothing();
    of_vm(cluster, "DEL", "c1", "web", &one).nothing();
    of_vm(cluster, "DEL", "c2", "web", &two).nothing();
    let mut gc = one.clone();
    gc["cni.dev/valid-attachments"] = json!([]);
    gc["prevResult"] = json!({"cniVersion": "1.1.0", "ips": []});
    cluster.alone("GC", "", &gc).run().nothing();
    assert_eq!(cluster.addresses(), owned);
    // Another container doesn't get it, and without an owner nothing has changed.
    let other = cluster.add("c3", &one).result();
    assert_ne!(other["ips"][0]["address"], format!("{ip}/28"));
    assert!(other["owned"].is_null());
    cluster.del("c3", &one).nothing();
    let again = of_vm(cluster, "ADD", "c4", "web", &two);
    assert_eq!(again.ips(), [ip]);
    assert_eq!(cluster.addresses(), owned);
}

fn first_adds_on_many_nodes_at_once_name_one_address(cluster: &mut dyn PoolCluster) {
    cluster.define("blue", &json!({"subnet": "10.0.0.0/26"}));
    let nodes: Vec<Value> = (0..4).map(|i| config(cluster, &format!("n{i}"))).collect();
    for number in [2, 20] {
        let vm = format!("vm-{number}");
        let add = |i: usize| of_vm(cluster, "ADD", &format!("{vm}-{i}"), &vm, &nodes[i % 4]).ips();
        let given: BTreeSet<Vec<String>> = thread::scope(|scope| {
            let add = &add;
            let all: Vec<_> = (0..number).map(|i| scope.spawn(move || add(i))).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert_eq!(given.len(), 1, "{given:?}");
    }
}

fn an_owners_address_is_claimed_again_shown_and_released_by_a_person(
    cluster: &mut dyn PoolCluster,
) {
    cluster.define("blue", &json!({"subnet": "10.0.0.0/28"}));
    let config = config(cluster, "n1");
    let ip = of_vm(cluster, "ADD", "c1", "web", &config).ips().remove(0);
    let before = cluster.addresses();
    cluster
        .sandbox()
        .write_conflist("10-blue.conflist", &config);
    // The engine was set back.
    cluster.lose(&ip);
    let reconciled = cluster.ipamctl("n1", &["reconcile", "--json"]).run();
    reconciled.ends(0);
    assert_eq!(cluster.addresses(), before);
    of_vm(cluster, "DEL", "c1", "web", &config).nothing();
    // A node that has gone had nothing of it.
    let ipamctl = |words: &[&str]| cluster.as_administrator("n1", words);
    let forgotten = ipamctl(&["node-forget", "n7", "--yes"]);
    forgotten.ends(0);
    assert_eq!(cluster.addresses(), before);
    let owner = "virtualmachines.kubevirt.io/prod/web";
    let shown = ipamctl(&["show", owner]);
    shown.prints([&ip]);
    let listed = ipamctl(&["ls", "--all-nodes"]).stdout;
    let is_its = |line: &str| line.starts_with(&ip) && line.contains(owner);
    assert!(listed.lines().any(is_its), "{listed}");
    let listed = ipamctl(&["ls", "--all-nodes", "--json"]).result();
    assert_eq!(listed[0]["owner"], owner);
    let released = ipamctl(&["release", &ip]);
    released.ends(0);
    assert_eq!(cluster.addresses(), Vec::<String>::new());
}
