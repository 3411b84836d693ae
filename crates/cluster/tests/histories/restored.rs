//! A store that was restored from an older state, and nodes whose records claim again.

use std::net::IpAddr;
use std::time::SystemTime;

use cluster::{Node, RecordedAdd, Restored};
use cni::Args;
use serde_json::{Value, json, value::to_raw_value};

use super::memory_store::{Cluster, Faults};
use super::rules::{blue, cluster_of_blue, held};
use super::traffic::{Traffic, attachment, node};

/// Claims what a record says of an ADD that gave these addresses of these pools.
pub(crate) fn reconcile(
    cluster: &Cluster,
    node: &Node,
    container: &str,
    pools: &Value,
    ips: &[IpAddr],
) -> Vec<Restored> {
    let result = |json: Value| to_raw_value(&json).unwrap();
    let other = json!({"address": "192.0.2.1/24"});
    let own = ips.iter().map(|ip| json!({"address": format!("{ip}/24")}));
    let all: Value = [other.clone()].into_iter().chain(own).collect();
    let store = &mut cluster.store(Faults::default(), 0);
    let add = RecordedAdd {
        network: "net",
        attachment: &attachment(container),
        args: &Args::default(),
        since: SystemTime::UNIX_EPOCH,
        given: Some(&result(json!({"ips": [other], "pools": pools}))),
        answer: Some(&result(json!({"ips": all}))),
    };
    let claimed = cluster::reconcile(store, node, &add).unwrap();
    claimed.into_iter().map(|(_, restored)| restored).collect()
}

#[test]
fn after_an_older_state_the_records_claim_again_and_name_what_another_has() {
    let cluster = cluster_of_blue();
    let calls = Traffic::new(&cluster, Faults::default());
    calls.add(&node("a"), "c1", &blue()).unwrap();
    let older = cluster.snapshot();
    let lost = calls.add(&node("a"), "c2", &blue()).unwrap()[0];
    let released = calls.add(&node("b"), "c3", &blue()).unwrap()[0];
    cluster.restore(older);
    let claim = |name: &str, container: &str, ip| {
        reconcile(&cluster, &node(name), container, &blue(), &[ip])
    };
    assert_eq!(claim("a", "c2", lost), [Restored::Claimed]);
    assert_eq!(claim("a", "c2", lost), [Restored::Ours]);
    // Meanwhile, another one was given what c3 has.
    let pinned = json!([{"name": "blue", "requested-ip": released.to_string()}]);
    calls.add(&node("c"), "c4", &pinned).unwrap();
    let [Restored::Taken(by)] = &claim("b", "c3", released)[..] else {
        panic!("it is taken");
    };
    assert!(by.describe().contains("c4"), "{}", by.describe());
    // The reservation is released as every other one.
    calls.del(&node("a"), "c2", &json!({})).unwrap();
    assert!(!held(&cluster).iter().any(|(_, id)| id == "c2"));
}
