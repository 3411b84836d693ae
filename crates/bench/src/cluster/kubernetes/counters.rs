//! Counts the requests of calls, and the processor time of the API server and etcd, with their own
//! counters.

use anyhow::Result;
use harness::{KubernetesApi, metrics_of, sum_of_metric};

use crate::cluster::target::Cost;

/// Address of the API server's etcd in its network namespace.
pub(super) const ETCD: &str = "10.123.0.1:2379";

/// The counters, with processor times in milliseconds.
pub(super) const COSTS: [Cost; 7] = [
    Cost::requests("GET"),
    Cost::requests("LIST"),
    Cost::requests("POST"),
    Cost::requests("of them 409"),
    Cost::requests("DELETE"),
    Cost::requests("API server's processor, ms"),
    Cost::requests("etcd's processor, ms"),
];

/// The current counters, read in the network namespace of the API server.
pub(super) fn counters(api: &KubernetesApi) -> Result<Vec<f64>> {
    let server = api.kubectl(&["get", "--raw", "/metrics"]);
    let etcd = metrics_of(ETCD)?;
    let requests = |verb: &str, code: &str| {
        let labels = ["group=\"ipam-delegated.io\"", verb, code];
        sum_of_metric(&server, "apiserver_request_total", &labels)
    };
    let processor = |text: &str| sum_of_metric(text, "process_cpu_seconds_total", &[]) * 1e3;
    Ok(vec![
        requests("verb=\"GET\"", ""),
        requests("verb=\"LIST\"", ""),
        requests("verb=\"POST\"", ""),
        requests("verb=\"POST\"", "code=\"409\""),
        requests("verb=\"DELETE\"", ""),
        processor(&server),
        processor(&etcd),
    ])
}
