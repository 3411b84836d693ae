//! podman with its backend `cni` and runc: rules select a pool by facts about a container.
//!
//! All of its files are in a sandbox, or in folders that are private to a test node.

use harness::Podman;
use harness::runtimes::{reservation, reservations_of};
use serde_json::{Value, json};

/// Rules by the containers' names, which podman passes as `K8S_POD_NAME`.
fn by_name() -> Value {
    json!([
        {"when": {"K8S_POD_NAME": "db-0"}, "pools": ["db"], "ip": "10.77.2.10"},
        {"when": {"K8S_POD_NAME": "db-*"}, "pools": ["db"]},
        {"when": {"K8S_POD_NAME": "web-*"}, "pools": ["web"]},
    ])
}

#[test]
fn names_lead_to_two_pools_and_to_a_pinned_address() {
    let Some(podman) = Podman::new(&by_name()) else {
        return;
    };
    let web = podman.start("web-1");
    // The pinned address is the first of the pool, and is kept free for its container.
    let db = podman.start("db-1");
    let pinned = podman.start("db-0");
    assert_eq!(podman.address("web-1"), "10.77.1.10/16");
    assert_eq!(podman.address("db-0"), "10.77.2.10/16");
    assert_eq!(podman.address("db-1"), "10.77.2.11/16");
    let sandbox = &podman.sandbox;
    assert_eq!(
        reservations_of(sandbox, "web"),
        [reservation("10.77.1.10", &web)]
    );
    let expected = [
        reservation("10.77.2.10", &pinned),
        reservation("10.77.2.11", &db),
    ];
    assert_eq!(reservations_of(sandbox, "db"), expected);
    assert_eq!(sandbox.records("testnet").len(), 3);

    podman.must(&["restart", "--time=0", "db-0"]);
    assert_eq!(podman.address("db-0"), "10.77.2.10/16");
    assert_eq!(reservations_of(sandbox, "db"), expected);

    podman.must(&["rm", "--force", "--time=0", "web-1", "db-0"]);
    assert!(reservations_of(sandbox, "web").is_empty());
    assert_eq!(
        reservations_of(sandbox, "db"),
        [reservation("10.77.2.11", &db)]
    );
    podman.must(&["rm", "--force", "--time=0", "db-1"]);
    assert!(reservations_of(sandbox, "db").is_empty());
    assert!(sandbox.records("testnet").is_empty());
}

#[test]
fn a_container_is_started_again_after_a_boot_that_podman_makes_no_del_for() {
    let Some(podman) = Podman::new(&by_name()) else {
        return;
    };
    let id = podman.start("db-0");
    assert_eq!(podman.address("db-0"), "10.77.2.10/16");
    podman.lose_power();
    podman.must(&["start", "db-0"]);
    assert_eq!(podman.address("db-0"), "10.77.2.10/16");
    let sandbox = &podman.sandbox;
    let pinned = [reservation("10.77.2.10", &id)];
    assert_eq!(reservations_of(sandbox, "db"), pinned);
    assert_eq!(sandbox.records("testnet").len(), 1);
    podman.must(&["rm", "--force", "--time=0", "db-0"]);
    assert!(reservations_of(sandbox, "db").is_empty());
    assert!(sandbox.records("testnet").is_empty());
}
