//! Counts the requests and bytes of calls, with etcd's own counters.

use harness::Metrics;

use crate::cluster::target::Cost;

/// A plugin's requests, by their names in etcd's metrics.
const REQUESTS: [&str; 4] = ["Range", "Put", "Txn", "Authenticate"];

/// The counters: requests, and bytes without TLS and HTTP.
pub(super) const COSTS: [Cost; 6] = [
    Cost::requests(REQUESTS[0]),
    Cost::requests(REQUESTS[1]),
    Cost::requests(REQUESTS[2]),
    Cost::requests(REQUESTS[3]),
    Cost::bytes("bytes received"),
    Cost::bytes("bytes sent"),
];

/// The current sums of the members' counters.
pub(super) fn counters(cluster: &harness::Cluster) -> Vec<f64> {
    let metrics = cluster.metrics();
    let sum = |metric: &str, label: &str| -> f64 {
        let sums = metrics
            .iter()
            .map(|metrics: &Metrics| metrics.sum(metric, label));
        sums.sum()
    };
    let requests = REQUESTS.map(|request| {
        let label = format!("grpc_method=\"{request}\"");
        sum("grpc_server_started_total", &label)
    });
    let bytes = ["received", "sent"].map(|direction| {
        let metric = format!("etcd_network_client_grpc_{direction}_bytes_total");
        sum(&metric, "")
    });
    [&requests[..], &bytes].concat()
}
