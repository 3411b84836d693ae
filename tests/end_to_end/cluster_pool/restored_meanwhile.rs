//! After a restore, nodes mark themselves, claim their addresses again, and give nothing new until then.

use std::fs;
use std::time::Duration;

use harness::{ApiProxy, Fate, KUBECTL, KUBERNETES_PROGRAMS, ProxiedRequest, needs};
use serde_json::{Value, json};

use super::api_cluster::ApiCluster;
use super::interrupted_import::import;
use crate::cluster::pool_cluster::PoolCluster;

/// The node `n1` has seen a later state than the API server has: it marks itself.
fn see_a_later_state(cluster: &dyn PoolCluster) {
    let node = cluster.sandbox().root().join("n1");
    let seen = node.join("engine-state/seen_kubernetes_n1.json");
    let mut moment: Value = serde_json::from_slice(&fs::read(&seen).unwrap()).unwrap();
    moment["revision"] = json!(i64::MAX);
    fs::write(&seen, moment.to_string()).unwrap();
}

#[test]
fn an_address_that_a_refused_add_takes_back_is_no_conflict() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let mut cluster = ApiCluster::default();
    let proxy = ApiProxy::start(&cluster.api);
    let shared: &dyn PoolCluster = &cluster;
    shared.define(
        "lan",
        &json!({"subnet": "10.55.0.0/29", "rangeEnd": "10.55.0.2"}),
    );
    let [one, two] = ["n1", "n2"]
        .map(|node| shared.config(node, &shared.addresses(), &json!([{"name": "lan"}])));
    let one = cluster.behind(&proxy, &one);
    for config in [&one, &two] {
        shared.add("before", config).result();
        shared.del("before", config).nothing();
    }
    cluster.save();
    let shared: &dyn PoolCluster = &cluster;
    let given = shared.add("alive", &two).ips();
    cluster.restore();
    let shared: &dyn PoolCluster = &cluster;
    let begin = ["reconcile", "--begin", "n1", "n2"];
    let begun = shared.ipamctl(&shared.as_administrator(&two), &begin);
    assert!(begun.status.success(), "{begun:?}");

    // The ADD creates the address, and reads the marks later.
    let mut since_creation = None;
    proxy.decide(move |request: &ProxiedRequest| {
        let creates = request.method == "POST" && request.path.contains("/addresses");
        match &mut since_creation {
            None if creates => since_creation = Some(0),
            None => {}
            Some(number) => *number += 1,
        }
        match since_creation {
            Some(1) => Fate::Late(Duration::from_secs(2)),
            _ => Fate::Answered,
        }
    });
    let refused = shared.call("ADD", "new", &one).start();
    cluster.api.wait_for("the creation", || {
        cluster.held().iter().any(|held| held.starts_with("n1/"))
    });
    let output = shared.ipamctl(&two, &["reconcile"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(refused.output().code(), 11);
    assert_eq!(cluster.reserved("lan"), given);
    assert_eq!(shared.holder("lan", &given[0])["containerID"], "alive");
}

#[test]
fn after_a_restore_the_addresses_of_all_networks_are_claimed_whatever_url_they_have() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let cluster = ApiCluster::default();
    let proxy = ApiProxy::start(&cluster.api);
    let shared: &dyn PoolCluster = &cluster;
    shared.define("red", &json!({"subnet": "10.1.0.0/24"}));
    let one = shared.config("n1", &shared.addresses(), &json!([{"name": "red"}]));
    let mut other = cluster.behind(&proxy, &one);
    other["name"] = json!("othernet");
    shared.add("a", &one).result();
    shared.add("b", &other).result();
    let held = cluster.held();
    cluster.delete("addresses", "");
    let sandbox = shared.sandbox();
    sandbox.write_conflist("20-other.conflist", &other);
    let administrator = shared.as_administrator(&one);
    let words = ["reconcile", "--begin", "--network", "testnet"];
    let begun = shared.ipamctl(&administrator, &words);
    assert!(begun.status.success(), "{begun:?}");
    let reconciled = shared.ipamctl(&one, &["reconcile", "--network", "testnet"]);
    assert!(reconciled.status.success(), "{reconciled:?}");
    assert_eq!(cluster.held(), held);
}

#[test]
fn a_mark_whose_writer_was_killed_halfway_holds_on_all_nodes() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let cluster = ApiCluster::default();
    let shared: &dyn PoolCluster = &cluster;
    shared.define("red", &json!({"subnet": "10.1.0.0/24"}));
    let pools = json!([{"name": "red"}]);
    let [one, other] = ["n1", "n2"].map(|node| shared.config(node, &shared.addresses(), &pools));
    shared.add("a", &one).result();
    shared.add("a", &other).result();
    see_a_later_state(shared);
    shared.add("b", &one).refused(11, "was restored");
    let remove_note = || {
        let removed = r#"{"status":{"restore":null}}"#;
        let words = ["patch", "ipool", "red", "--subresource=status"];
        let patched = [&words[..], &["--type=merge", "-p", removed]].concat();
        cluster.api.kubectl(&patched);
    };
    // As if it had been killed after the first of two creations.
    let removals: [&dyn Fn(); 2] = [
        &|| {
            cluster.delete("restores", "cluster");
            remove_note();
        },
        // As if it had been killed after the second one.
        &remove_note,
    ];
    for remove in removals {
        remove();
        for config in [&one, &other] {
            shared.add("b", config).refused(11, "was restored");
        }
    }
    assert_eq!(cluster.held().len(), 2);
}

#[test]
fn a_mark_that_exists_already_holds_even_if_its_restore_is_being_swept() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let cluster = ApiCluster::default();
    let proxy = ApiProxy::start(&cluster.api);
    let shared: &dyn PoolCluster = &cluster;
    shared.define("red", &json!({"subnet": "10.1.0.0/24"}));
    let pools = json!([{"name": "red"}]);
    let [one, other] = ["n1", "n2"].map(|node| shared.config(node, &shared.addresses(), &pools));
    shared.add("a", &one).result();
    shared.add("a", &other).result();
    see_a_later_state(shared);
    let administrator = cluster.behind(&proxy, &shared.as_administrator(&one));
    let sweeps = |request: &ProxiedRequest| {
        request.method == "DELETE" && request.path.ends_with("restores/cluster")
    };
    proxy.decide(move |request: &ProxiedRequest| match sweeps(request) {
        true => Fate::Late(Duration::from_secs(4)),
        false => Fate::Answered,
    });
    let changed = json!({"red": {"subnet": "10.1.0.0/24", "vlan": 9}});
    std::thread::scope(|scope| {
        let running = scope.spawn(|| import(shared, &administrator, &changed));
        cluster.api.wait_for("the sweep", || {
            let names = cluster.objects("restores").into_iter();
            let names: Vec<Value> = names.map(|item| item["metadata"]["name"].clone()).collect();
            names == ["cluster"] && proxy.take_requests().iter().any(sweeps)
        });
        // The sweep has found no mark. A writer of this one was killed.
        cluster.api.apply(&json!({
            "apiVersion": "ipam-delegated.io/v1",
            "kind": "Restore",
            "metadata": {"name": "node.n1"},
            "spec": {"since": "2026-01-01T00:00:00Z", "call": "1"},
        }));
        // Without its index, the node lists its addresses, and notices the older revision.
        fs::remove_dir_all(shared.sandbox().root().join("n1/cache")).unwrap();
        shared.add("b", &one).refused(11, "was restored");
        running.join().unwrap();
    });
    shared.add("b", &other).refused(11, "was restored");
    assert_eq!(cluster.held().len(), 2);
}
