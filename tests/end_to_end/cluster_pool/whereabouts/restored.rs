//! etcd is restored to a time before the addresses of whereabouts were taken over.

use harness::{KUBECTL, KUBERNETES_PROGRAMS, Output, needs};
use serde_json::{Value, json};

use super::{Administered, DELEGATES, cluster, take_over};

/// `ipamctl reconcile` on the node of this configuration.
#[track_caller]
fn reconcile(cluster: &Administered, config: &Value) {
    let sandbox = &cluster.sandbox;
    sandbox.write_conflist("10-pools.conflist", config);
    // After the start of the API server, policies that refer to a kind need some time.
    cluster.api.wait_for("reconcile", || {
        let output: Output = sandbox.ipamctl(&["reconcile"]).run();
        println!("{output:?}");
        output.status.success()
    });
}

#[test]
fn an_import_before_the_nodes_are_marked_takes_over_again() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let mut cluster = cluster();
    let [n1, n2] = ["n1", "n2"].map(|node| cluster.config(node, &DELEGATES, "lan"));
    for config in [&n1, &n2] {
        cluster.call("ADD", "c-own", config).result();
    }
    let before = cluster.api.snapshot();
    take_over(&cluster, &[]);
    cluster.api.restore(&before);
    let taken = take_over(&cluster, &[]);
    assert!(taken.stdout.contains("3 claimed"), "{taken:?}");
    let begun = cluster.administer(&["reconcile", "--begin", "n1", "n2"]);
    assert!(begun.status.success(), "{begun:?}");
    reconcile(&cluster, &n1);
    reconcile(&cluster, &n2);
    let mut other = n2;
    other["ipam"]["pools"][0]["requested-ip"] = json!("10.40.0.7");
    cluster
        .call("ADD", "c-other", &other)
        .refused(111, "10.40.0.7");
}
