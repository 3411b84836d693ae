//! A store that was restored from an older state, and nodes whose records claim again.

use std::net::IpAddr;
use std::time::SystemTime;

use cluster::{Node, RecordedAdd, Restored};
use cni::Args;
use serde_json::{Value, json, value::to_raw_value};

use super::memory_store::{Cluster, Faults};
use super::traffic::attachment;

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
