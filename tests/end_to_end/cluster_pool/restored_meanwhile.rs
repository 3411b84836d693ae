//! After a restore, a node runs `ipamctl reconcile` while other nodes' ADDs are still refused.

use std::time::Duration;

use harness::{ApiProxy, Fate, KUBECTL, KUBERNETES_PROGRAMS, ProxiedRequest, needs};
use serde_json::json;

use super::api_cluster::ApiCluster;
use crate::cluster::pool_cluster::PoolCluster;

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
    let [mut one, two] = ["n1", "n2"]
        .map(|node| shared.config(node, &shared.addresses(), &json!([{"name": "lan"}])));
    let kubeconfig = proxy.kubeconfig_like(&cluster.api, &cluster.api.kubeconfig_of_node("n1"));
    one["ipam"]["kubernetes"]["kubeconfig"] = json!(kubeconfig);
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
