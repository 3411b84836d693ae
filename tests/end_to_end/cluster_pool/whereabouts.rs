//! `ipamctl import --from-whereabouts` claims the addresses of whereabouts for their containers,
//! while the pods run.

mod ended_meanwhile;
mod executable;
mod executable_meanwhile;
mod interrupted;
mod objects;
mod restored;

use harness::{KUBECTL, KUBERNETES_PROGRAMS, needs};
use serde_json::{Value, json};

use super::administered::{Administered, ip_of, json_of};
use objects::{network, pod, prepare};

/// Delegates after the selector.
const DELEGATES: [&str; 1] = ["ipam-da-kubernetes"];

fn ip_pool(name: &str, range: &str, allocations: &Value) -> Value {
    json!({
        "apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
        "kind": "IPPool",
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {"range": range, "allocations": allocations},
    })
}

/// A cluster with objects of whereabouts: three running pods, a deleted one, one whose allocation
/// has another pod's address, and a range without a pool.
fn cluster() -> Administered {
    let cluster = Administered::with_pools(&json!({
        "lan": {"subnet": "10.40.0.0/16", "exclude": ["10.40.1.0/24"]},
        "lan6": {"subnet": "fd00:40::/64"},
    }));
    let api = &cluster.api;
    prepare(api);
    api.apply(&json!([
        network("lan", "testnet"),
        pod("web", "n1", &["10.40.0.7", "fd00:40::a"]),
        pod("db", "n2", &["10.40.1.1"]),
        pod("moved", "n2", &["10.40.0.99"]),
        ip_pool("10.40.0.0-16", "10.40.0.0/16", &json!({
            "7": {"id": "c-web", "podref": "shop/web", "ifname": "net1"},
            // From a release before 0.8.
            "257": {"id": "c-db", "podref": "shop/db"},
            "8": {"id": "c-gone", "podref": "shop/gone", "ifname": "net1"},
            "9": {"id": "c-moved", "podref": "shop/moved", "ifname": "net1"},
        })),
        ip_pool("blue-fd00-40---64", "fd00:40::/64", &json!({
            "10": {"id": "c-web", "podref": "shop/web", "ifname": "net1"},
        })),
        ip_pool("10.99.0.0-24", "10.99.0.0/24", &json!({
            "5": {"id": "c-web", "podref": "shop/web", "ifname": "net1"},
        })),
        {
            "apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
            "kind": "OverlappingRangeIPReservation",
            "metadata": {"name": "blue-fd00-40--a", "namespace": "kube-system"},
            "spec": {"podref": "shop/web", "ifname": "net1"},
        },
        {
            "apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
            "kind": "OverlappingRangeIPReservation",
            "metadata": {"name": "10.40.0.50", "namespace": "kube-system"},
            "spec": {"podref": "shop/gone"},
        },
    ]));
    cluster
}

fn take_over(cluster: &Administered, words: &[&str]) -> harness::Output {
    cluster.administer(&[&["import", "--from-whereabouts"], words].concat())
}

/// Address, outcome and reason of each row.
#[track_caller]
fn rows(output: &harness::Output) -> Vec<(String, String, String)> {
    let rows = json_of(output);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let rows = rows.as_array().unwrap().iter();
    rows.map(|row| {
        (
            text(&row["address"]),
            text(&row["outcome"]),
            text(&row["reason"]),
        )
    })
    .collect()
}

fn expected(outcome: &str) -> Vec<(String, String, String)> {
    let moved = "pod shop/moved has no such interface with this address, by Multus' status";
    [
        ("10.40.0.7", outcome, ""),
        ("10.40.0.8", "not-imported", "pod shop/gone doesn't exist"),
        ("10.40.0.9", "not-imported", moved),
        ("10.40.1.1", outcome, ""),
        ("fd00:40::a", outcome, ""),
    ]
    .map(|(ip, outcome, reason)| (ip.to_owned(), outcome.to_owned(), reason.to_owned()))
    .to_vec()
}

#[test]
fn pods_keep_their_addresses_of_whereabouts_and_their_del_releases_them() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let cluster = cluster();
    // A node that has already used our plugins has an index of its addresses.
    let n1 = cluster.config("n1", &DELEGATES, "lan");
    let own = ip_of(&cluster.call("ADD", "c-own", &n1));
    cluster.call("DEL", "c-other", &n1);
    let before = cluster.addresses();

    let dry = take_over(&cluster, &["--dry-run", "--json"]);
    assert_eq!(rows(&dry), expected("would-claim"));
    assert_eq!(cluster.addresses(), before);
    let taken = take_over(&cluster, &["--json"]);
    assert_eq!(rows(&taken), expected("claimed"), "{taken:?}");
    assert_eq!(taken.status.code(), Some(1), "two are not imported");
    for warning in [
        "IPPool kube-system/10.99.0.0-24: no pool has 1 of its addresses",
        "OverlappingRangeIPReservation kube-system/10.40.0.50 of pod shop/gone",
    ] {
        assert!(taken.stderr.contains(warning), "{taken:?}");
    }
    assert!(!taken.stderr.contains("blue-fd00-40--a"), "{taken:?}");
    let web = &cluster
        .api
        .get("addresses.ipam-delegated.io", &["lan.10.40.0.7"])[0]["spec"];
    let of = json!({
        "pool": "lan", "ip": "10.40.0.7", "node": "n1", "network": "testnet", "containerID": "c-web",
        "ifname": "net1", "podNamespace": "shop", "podName": "web",
        "since": web["since"], "call": web["call"],
    });
    assert_eq!(*web, of);

    // A second import changes nothing.
    let after = cluster.addresses();
    assert_eq!(rows(&take_over(&cluster, &["--json"])), expected("held"));
    assert_eq!(cluster.addresses(), after);
    let text = take_over(&cluster, &[]).stdout;
    assert!(
        text.contains("replace ipam, and keep name: shop/lan"),
        "{text}"
    );

    // When the pods end, their DELs go to our plugins, on either node.
    let n2 = cluster.config("n2", &DELEGATES, "lan");
    for (container, config) in [("c-web", &n1), ("c-db", &n2)] {
        let call = cluster.sandbox.call("ipam-delegated", "DEL", config);
        call.container(container)
            .env("CNI_IFNAME", "net1")
            .run()
            .nothing();
    }
    assert_eq!(cluster.addresses(), [format!("lan.{own}")]);
}

#[test]
fn addresses_that_are_taken_over_one_pool_after_the_other_are_released_together() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let cluster = Administered::with_pools(&json!({"lan": {"subnet": "10.40.0.0/16"}}));
    prepare(&cluster.api);
    let of_web =
        |number: &str| json!({number: {"id": "c-web", "podref": "shop/web", "ifname": "net1"}});
    cluster.api.apply(&json!([
        network("lan", "testnet"),
        pod("web", "n1", &["10.40.0.7", "fd00:40::a"]),
        ip_pool("10.40.0.0-16", "10.40.0.0/16", &of_web("7")),
        ip_pool("fd00-40---64", "fd00:40::/64", &of_web("10")),
    ]));
    let n1 = cluster.config("n1", &DELEGATES, "lan");
    ip_of(&cluster.call("ADD", "c-own", &n1));
    take_over(&cluster, &[]);
    // Now the node's index has the addresses that were claimed before.
    cluster.call("DEL", "c-own", &n1).nothing();
    let lan6 = json!({"lan6": {"subnet": "fd00:40::/64"}});
    assert!(cluster.import(&lan6, &[]).status.success());
    take_over(&cluster, &[]);
    assert_eq!(cluster.addresses().len(), 2);
    let del = cluster.sandbox.call("ipam-delegated", "DEL", &n1);
    let del = del.container("c-web").env("CNI_IFNAME", "net1");
    del.run().nothing();
    assert!(cluster.addresses().is_empty(), "{:?}", cluster.addresses());
}

#[test]
fn nothing_is_taken_over_if_one_address_is_somebody_elses() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let cluster = cluster();
    let n1 = cluster.config("n1", &DELEGATES, "lan");
    let mut asked = n1.clone();
    asked["ipam"]["pools"] = json!([{"name": "lan", "requested-ip": "10.40.0.7"}]);
    cluster.call("ADD", "c-own", &asked).result();
    let before = cluster.addresses();
    let refused = take_over(&cluster, &[]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let conflict =
        "conflict: it is reserved to c-own eth0 of network testnet on node n1, in pool lan";
    assert!(refused.stdout.contains(conflict), "{refused:?}");
    assert!(
        refused.stderr.contains("nothing is written: 1 addresses"),
        "{refused:?}"
    );
    assert_eq!(cluster.addresses(), before);

    // Two ranges with the same address, as with two values of network_name.
    cluster.call("DEL", "c-own", &n1);
    cluster.api.apply(&ip_pool(
        "blue-10.40.1.0-24",
        "10.40.1.0/24",
        &json!({
            "1": {"id": "c-blue", "podref": "shop/blue", "ifname": "net1"},
        }),
    ));
    let refused = take_over(&cluster, &["--json"]);
    let conflicts: Vec<String> = rows(&refused)
        .into_iter()
        .filter(|(_, outcome, _)| outcome == "conflict")
        .map(|(ip, _, _)| ip)
        .collect();
    assert_eq!(conflicts, ["10.40.1.1", "10.40.1.1"]);
    assert!(cluster.addresses().is_empty());
}
