//! A restore is noted in the status of all pools, so an ADD needs no request to learn of it.

use harness::{ApiProxy, Fate, KUBECTL, KUBERNETES_PROGRAMS, ProxiedRequest, needs};
use serde_json::{Value, json};

use super::api_cluster::ApiCluster;
use super::interrupted_import::import;
use super::lost_answers::heal;
use crate::cluster::pool_cluster::PoolCluster;

/// `status.restore` of a pool.
fn note(cluster: &ApiCluster, pool: &str) -> Value {
    let pools = cluster.objects("pools");
    let found = pools.iter().find(|item| item["metadata"]["name"] == pool);
    found.unwrap()["status"]["restore"].clone()
}

/// The UID of the restore of the cluster; null if there is none.
fn restore(cluster: &ApiCluster) -> Value {
    let restores = cluster.objects("restores");
    let of_cluster = restores
        .iter()
        .find(|item| item["metadata"]["name"] == "cluster");
    of_cluster.map_or(Value::Null, |item| item["metadata"]["uid"].clone())
}

#[test]
fn a_restore_stops_old_and_new_pools_until_the_last_node_has_reconciled() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let cluster = ApiCluster::default();
    let proxy = ApiProxy::start(&cluster.api);
    let shared: &dyn PoolCluster = &cluster;
    shared.define("red", &json!({"subnet": "10.1.0.0/24"}));
    shared.define("blue", &json!({"subnet": "10.2.0.0/24"}));
    let of =
        |node: &str, pool: &str| shared.config(node, &shared.addresses(), &json!([{"name": pool}]));
    let red = cluster.behind(&proxy, &of("n1", "red"));
    let requests = |container: &str| -> Vec<String> {
        heal(&proxy);
        shared.add(container, &red).result();
        let requests = proxy.take_requests().into_iter();
        requests.map(|request| request.method).collect()
    };
    requests("first");
    assert_eq!(requests("second"), ["POST", "GET", "GET"]);

    let begin = ["reconcile", "--begin", "n1", "n2"];
    let administrator = shared.as_administrator(&of("n1", "red"));
    let begun = shared.ipamctl(&administrator, &begin);
    assert!(begun.status.success(), "{begun:?}");
    let uid = restore(&cluster);
    assert!(uid.is_string(), "{uid}");
    assert_eq!(
        [note(&cluster, "red"), note(&cluster, "blue")],
        [&uid; 2].map(Clone::clone)
    );
    // It replaces the whole object, but not its status.
    let spec = json!({"subnet": "10.1.0.0/24"});
    let replaced = json!({
        "apiVersion": "ipam-delegated.io/v1",
        "kind": "Pool",
        "metadata": {"name": "red"},
        "spec": spec,
    });
    let output = cluster
        .api
        .try_replace(&cluster.api.kubeconfig(), &replaced);
    assert!(output.status.success(), "{output:?}");
    shared.define("new", &json!({"subnet": "10.3.0.0/24"}));
    assert_eq!(note(&cluster, "new"), Value::Null);
    let stopped = |config: &Value| shared.add("third", config).refused(11, "was restored");
    for config in [&red, &of("n2", "red"), &of("n1", "blue"), &of("n1", "new")] {
        stopped(config);
    }
    for node in ["n1", "n2"] {
        let reconciled = shared.ipamctl(&of(node, "red"), &["reconcile"]);
        assert!(reconciled.status.success(), "{reconciled:?}");
        if node == "n1" {
            stopped(&red);
        }
    }

    assert_eq!(restore(&cluster), Value::Null);
    // What was verified before the restore is verified once more.
    requests("reconciled");
    // The note alone stops nothing. Only an administrator removes it.
    assert_eq!(requests("with-note"), ["POST", "GET", "GET", "GET"]);
    for config in [of("n1", "new"), of("n2", "blue")] {
        shared.add("third", &config).result();
    }
    let collected = shared.ipamctl(&administrator, &["collect-nodes", "--gone-for", "1h"]);
    assert_eq!(note(&cluster, "red"), Value::Null, "{collected:?}");
    // It annotates registrations, too, so the node's index is verified once.
    requests("annotated");
    assert_eq!(requests("without-note"), ["POST", "GET", "GET"]);
}

#[test]
fn an_import_leaves_no_note() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let cluster = ApiCluster::default();
    let shared: &dyn PoolCluster = &cluster;
    shared.define("red", &json!({"subnet": "10.1.0.0/24"}));
    let red = shared.config("n1", &shared.addresses(), &json!([{"name": "red"}]));
    shared.add("first", &red).result();
    let subnet = |subnet: &str| json!({"subnet": subnet});
    let pools = json!({"red": {"subnet": "10.1.0.0/24", "vlan": 7}, "blue": subnet("10.2.0.0/24")});
    let imported = import(shared, &shared.as_administrator(&red), &pools);
    assert!(imported.status.success(), "{imported:?}");
    assert_eq!(note(&cluster, "red"), Value::Null);
    shared.add("second", &red).result();
    let blue = shared.config("n1", &shared.addresses(), &json!([{"name": "blue"}]));
    shared.add("third", &blue).result();
    assert_eq!(shared.held().len(), 3);
}

#[test]
fn a_restore_that_cannot_be_noted_is_an_error_and_an_import_then_writes_nothing() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let cluster = ApiCluster::default();
    let proxy = ApiProxy::start(&cluster.api);
    let shared: &dyn PoolCluster = &cluster;
    for (pool, subnet) in [("red", "10.1.0.0/24"), ("zinc", "10.2.0.0/24")] {
        shared.define(pool, &json!({"subnet": subnet}));
    }
    let config = shared.config("n1", &shared.addresses(), &json!([{"name": "red"}]));
    shared.add("first", &config).result();
    let administrator = cluster.behind(&proxy, &shared.as_administrator(&config));
    let administrator = shared.within("2s", &administrator);
    let pools = json!({"red": {"subnet": "10.1.0.0/24", "vlan": 7}});
    let of_red = |request: &ProxiedRequest| {
        request.method == "PATCH" && request.path.contains("/pools/red/status")
    };
    // As from a definition of the resource that doesn't have the key.
    let pruned = json!({
        "apiVersion": "ipam-delegated.io/v1",
        "kind": "Pool",
        "metadata": {"name": "red", "uid": "u", "resourceVersion": "7"},
        "spec": {"subnet": "10.1.0.0/24"},
    });
    let refused = json!({"kind": "Status", "reason": "Forbidden", "message": "no"});
    for (status, body) in [(200, pruned), (403, refused)] {
        let body = body.to_string();
        proxy.decide(move |request| match of_red(request) {
            true => Fate::Refused(status, Vec::new(), body.clone()),
            false => Fate::Answered,
        });
        let imported = import(shared, &administrator, &pools);
        assert_eq!(imported.status.code(), Some(2), "{imported:?}");
        assert!(imported.stderr.contains("run this again"), "{imported:?}");
        assert!(shared.marks().is_empty(), "{:?}", shared.marks());
        let begun = shared.ipamctl(&administrator, &["reconcile", "--begin", "n1"]);
        assert_eq!(begun.status.code(), Some(2), "{begun:?}");
        // The other pools have the note.
        assert!(note(&cluster, "zinc").is_string());
        heal(&proxy);
        let begun = shared.ipamctl(&administrator, &["reconcile", "--begin", "n1"]);
        assert!(begun.status.success(), "{begun:?}");
        shared.add("second", &config).refused(11, "was restored");
        let reconciled = shared.ipamctl(&config, &["reconcile"]);
        assert!(reconciled.status.success(), "{reconciled:?}");
    }
    // The first request to note it is lost.
    let mut is_lost = false;
    proxy.decide(move |request| {
        let is_first = of_red(request) && !std::mem::replace(&mut is_lost, true);
        if is_first {
            Fate::RequestLost
        } else {
            Fate::Answered
        }
    });
    let imported = import(shared, &administrator, &pools);
    assert!(imported.status.success(), "{imported:?}");
    assert_eq!(shared.held().len(), 1);
}
