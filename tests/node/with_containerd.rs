//! containerd with runc, driven by `ctr run --cni`: rules select a pool by the container's ID.
//! `ctr` passes only the ID, `<namespace>-<ID>`: no `CNI_ARGS`, labels or annotations.
//!
//! ctr's folders are fixed. So `/etc` and its plugin folders are private to a test node.

use harness::Containerd;
use harness::runtimes::{reservation, reservations_of};
use serde_json::json;

#[test]
fn container_ids_lead_to_two_pools_and_to_a_pinned_address() {
    let rules = json!([
        {"when": {"containerID": "prod-db-0"}, "pools": ["db"], "ip": "10.77.2.10"},
        {"when": {"containerID": "prod-*"}, "pools": ["db"]},
        {"when": {"containerID": "default-web"}, "pools": ["web"]},
    ]);
    let Some(containerd) = Containerd::new(&rules) else {
        return;
    };
    let web = containerd.start("default", "web", &[]);
    // The pinned address is the first of the pool, and is kept free for its container.
    let other = containerd.start("prod", "db-1", &[]);
    let pinned = containerd.start("prod", "db-0", &[]);
    assert_eq!(containerd.address("default", "web"), "10.77.1.10/16");
    assert_eq!(containerd.address("prod", "db-0"), "10.77.2.10/16");
    assert_eq!(containerd.address("prod", "db-1"), "10.77.2.11/16");
    let sandbox = &containerd.sandbox;
    let expected = [reservation("10.77.1.10", "default-web")];
    assert_eq!(reservations_of(sandbox, "web"), expected);
    let expected = [
        reservation("10.77.2.10", "prod-db-0"),
        reservation("10.77.2.11", "prod-db-1"),
    ];
    assert_eq!(reservations_of(sandbox, "db"), expected);
    assert_eq!(sandbox.records("testnet").len(), 3);

    // For a container in the foreground, ctr calls DEL without the network namespace.
    containerd.kill("default", "web", web);
    assert!(reservations_of(sandbox, "web").is_empty());
    containerd.kill("prod", "db-0", pinned);
    assert_eq!(
        reservations_of(sandbox, "db"),
        [reservation("10.77.2.11", "prod-db-1")]
    );
    containerd.kill("prod", "db-1", other);
    assert!(reservations_of(sandbox, "db").is_empty());
    assert!(sandbox.records("testnet").is_empty());
}
