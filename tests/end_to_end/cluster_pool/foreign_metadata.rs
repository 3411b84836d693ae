//! What others have written into the metadata of our objects stays.

use harness::{KUBECTL, KUBERNETES_PROGRAMS, needs};
use serde_json::{Value, json};

use super::administered::{Administered, ip_of};

const DELEGATES: [&str; 1] = ["ipam-da-kubernetes"];

/// Labels, annotations, finalizers and owners of an object.
fn metadata(cluster: &Administered, object: &str) -> Value {
    let metadata = cluster.api.get(object, &[]).remove(0)["metadata"].take();
    let keys = ["labels", "annotations", "finalizers", "ownerReferences"];
    keys.iter().map(|key| metadata[*key].clone()).collect()
}

#[test]
fn labels_finalizers_and_owners_of_others_survive_an_import_and_a_registration() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let pools = |vlan: u32| json!({"lan": {"subnet": "10.55.0.0/24", "vlan": vlan}});
    let cluster = Administered::with_pools(&pools(23));
    let n1 = cluster.config("n1", &DELEGATES, "lan");
    cluster.call("ADD", "c1", &n1).result();
    let api = &cluster.api;
    let namespace = &api.get("namespace/default", &[])[0]["metadata"];
    let written = json!({"metadata": {
        "labels": {"example.org/team": "shop"},
        "annotations": {"example.org/ticket": "7"},
        "finalizers": ["example.org/audit"],
        "ownerReferences": [{
            "apiVersion": "v1", "kind": "Namespace", "name": "default", "uid": namespace["uid"],
        }],
    }});
    let objects = [
        "pools.ipam-delegated.io/lan",
        "ipamnodes.ipam-delegated.io/n1",
    ];
    let before = objects.map(|object| {
        api.kubectl(&["patch", object, "--type=merge", "-p", &written.to_string()]);
        metadata(&cluster, object)
    });

    let imported = cluster.import(&pools(24), &["--replace"]);
    assert!(imported.status.success(), "{imported:?}");
    let pool = &api.get(objects[0], &[])[0];
    assert_eq!(pool["spec"]["vlan"], 24);
    std::fs::remove_dir_all(cluster.sandbox.root().join("n1/cache")).unwrap();
    let registration = || api.get(objects[1], &[])[0]["spec"]["incarnation"].clone();
    let first = registration();
    cluster.call("ADD", "c2", &n1).result();
    assert_ne!(registration(), first);
    assert_eq!(objects.map(|object| metadata(&cluster, object)), before);
}

#[test]
fn an_address_without_a_label_that_people_may_remove_is_released_by_del() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let cluster = Administered::with_pools(&json!({"lan": {"subnet": "10.55.0.0/24"}}));
    let n1 = cluster.config("n1", &DELEGATES, "lan");
    let ip = ip_of(&cluster.call("ADD", "c1", &n1));
    let address = format!("addresses.ipam-delegated.io/lan.{ip}");
    let network = "ipam-delegated.io/network-";
    cluster.api.kubectl(&["label", &address, network]);
    // The node's index doesn't follow this revision of its registration.
    let node = "ipamnodes.ipam-delegated.io/n1";
    cluster.api.kubectl(&["annotate", node, "example.org/x=1"]);
    cluster.call("DEL", "c1", &n1).nothing();
    assert!(cluster.addresses().is_empty());
}

#[test]
fn an_address_that_a_finalizer_keeps_is_not_released() {
    needs!("root", KUBERNETES_PROGRAMS, KUBECTL);
    let cluster = Administered::with_pools(&json!({"lan": {"subnet": "10.55.0.0/24"}}));
    let n1 = cluster.config("n1", &DELEGATES, "lan");
    let ip = ip_of(&cluster.call("ADD", "c1", &n1));
    let address = format!("addresses.ipam-delegated.io/lan.{ip}");
    let set_finalizers = |finalizers: &Value| {
        let patch = json!({"metadata": {"finalizers": finalizers}}).to_string();
        cluster
            .api
            .kubectl(&["patch", &address, "--type=merge", "-p", &patch]);
    };
    set_finalizers(&json!(["example.org/audit"]));
    for _ in 0..2 {
        let refused = cluster.call("DEL", "c1", &n1);
        refused.refused(11, &format!("{address} is not deleted yet"));
        refused.refused(11, "example.org/audit");
        assert_eq!(cluster.addresses().len(), 1);
    }
    set_finalizers(&Value::Null);
    cluster.call("DEL", "c1", &n1).nothing();
    assert!(cluster.addresses().is_empty());
}
