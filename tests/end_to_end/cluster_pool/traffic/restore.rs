//! The API server's etcd is set back to an older state, as `docs/cluster.md` has it, while callers
//! call.

use std::thread::{self, sleep};

use serde_json::json;

use super::{Scene, observe};
use crate::cluster_traffic::node::{ClusterNode, POOLS};
use crate::cluster_traffic::traffic::{FAULT, Traffic};

/// A proxy that nobody listens at.
const NOWHERE: &str = "http://127.0.0.1:9";

/// Exit status of a reconcile that has found a conflict.
const CONFLICT: i32 = 1;

/// Most reconciles of a node that may find conflicts.
const MOST_CONFLICTS: u32 = 3;

pub(super) fn restore(scene: &mut Scene, traffic: &Traffic) {
    // The API server and its etcd are killed, and started again.
    let snapshot = scene.cluster.api.snapshot();
    let saved = traffic.clock.elapsed();
    sleep(FAULT);
    traffic.wait_for_adds(saved);

    traffic.keep_all(true);
    on_all(&traffic.nodes, |node| {
        // A call that runs isn't cut off.
        let _nobody = node.between_calls();
        set_proxy(scene, node, Some(NOWHERE));
    });
    let cut_off = traffic.clock.elapsed();
    scene.cluster.api.restore(&snapshot);
    begin(scene, traffic);
    for node in &traffic.nodes {
        set_proxy(scene, node, None);
    }
    // What has ended since the snapshot is in conflict with what lives.
    on_all(&traffic.nodes, |node| {
        assert!(traffic.collect(node), "{:?}", traffic.last_errors());
    });
    let lost = traffic.violations(vec![observe(scene, traffic)]);
    assert!(
        !lost.is_empty(),
        "all that lives is older than the snapshot"
    );
    println!("{cut_off:>8.1?}: {} lost by the restore", lost.len());
    let (last, others) = traffic.nodes.split_last().unwrap();
    on_all(others, |node| reconcile(node, traffic));
    let added = traffic.added_since(cut_off);
    assert_eq!(added, [""; 0], "{} has not reconciled", last.name);
    reconcile(last, traffic);
    traffic.keep_all(false);
    let restored = traffic.clock.elapsed();
    sleep(FAULT);
    traffic.wait_for_adds(restored);
}

/// Does something on these nodes at once.
fn on_all(nodes: &[ClusterNode], what: impl Fn(&ClusterNode) + Sync) {
    thread::scope(|scope| {
        for node in nodes {
            scope.spawn(|| what(node));
        }
    });
}

/// Cuts a node off from the API server, or joins it again.
fn set_proxy(scene: &Scene, node: &ClusterNode, url: Option<&str>) {
    scene.change_kubeconfig(&node.name, |content| {
        content["clusters"][0]["cluster"]["proxy-url"] = json!(url);
    });
}

/// Nothing is given before all nodes have reconciled.
fn begin(scene: &Scene, traffic: &Traffic) {
    let kubeconfig = scene.cluster.api.kubeconfig();
    let names = traffic.nodes.iter().map(|node| node.name.as_str());
    let kubeconfig = ["--kubeconfig", kubeconfig.to_str().unwrap()];
    let words: Vec<&str> = ["reconcile", "--begin"]
        .into_iter()
        .chain(names)
        .chain(kubeconfig)
        .collect();
    let begun = traffic.nodes[0].sandbox.ipamctl(&words).run();
    assert!(begun.status.success(), "{begun:?}");
}

/// Reconciles a node. An ADD that the mark has refused, and whose DEL has failed, may leave an
/// address that another attachment uses: as the page says, GC releases it on its node, and this node
/// reconciles again.
fn reconcile(node: &ClusterNode, traffic: &Traffic) {
    let mut config = node.config(&POOLS);
    config["ipam"]["kubernetes"]["timeout"] = json!("10s");
    node.sandbox.write_conflist("10-testnet.conflist", &config);
    let reconcile = || node.sandbox.ipamctl(&["reconcile"]).run();
    let mut output = reconcile();
    for _ in 0..MOST_CONFLICTS {
        if output.status.code() != Some(CONFLICT) {
            break;
        }
        println!("{}: {}", node.name, output.stdout);
        for node in &traffic.nodes {
            traffic.collect(node);
        }
        output = reconcile();
    }
    let errors = traffic.last_errors();
    assert!(
        output.status.success(),
        "{}: {output:?}; {errors:#?}",
        node.name
    );
}
