//! Counts the requests and bytes that calls cost etcd, by its own counters.

use harness::Metrics;

use super::target::Target;

/// The requests that a plugin makes, by their name in etcd's metrics.
pub(crate) const REQUESTS: [&str; 4] = ["Range", "Put", "Txn", "Authenticate"];

/// The members' counters at one moment.
pub(crate) struct Counters {
    requests: [f64; REQUESTS.len()],
    received: f64,
    sent: f64,
}

/// What one call costs.
#[derive(Clone, Debug)]
pub(crate) struct PerCall {
    /// The number of requests, in the order of [`REQUESTS`].
    pub(crate) requests: [f64; REQUESTS.len()],
    /// Bytes that etcd has received, without TLS and HTTP.
    pub(crate) received: f64,
    /// Bytes that etcd has sent.
    pub(crate) sent: f64,
}

impl Counters {
    /// The counters now; `None` on somebody's cluster.
    pub(crate) fn of(target: &Target) -> Option<Self> {
        let metrics = target.metrics()?;
        let sum = |metric: &str, label: &str| -> f64 {
            let sums = metrics
                .iter()
                .map(|metrics: &Metrics| metrics.sum(metric, label));
            sums.sum()
        };
        Some(Self {
            requests: REQUESTS.map(|request| {
                let label = format!("grpc_method=\"{request}\"");
                sum("grpc_server_started_total", &label)
            }),
            received: sum("etcd_network_client_grpc_received_bytes_total", ""),
            sent: sum("etcd_network_client_grpc_sent_bytes_total", ""),
        })
    }

    /// What each of so many calls has cost since.
    pub(crate) fn since(before: Option<Self>, target: &Target, calls: usize) -> Option<PerCall> {
        let (before, now) = (before?, Self::of(target)?);
        let per_call = |before: f64, now: f64| (now - before) / calls as f64;
        let mut requests = [0.0; REQUESTS.len()];
        for (i, request) in requests.iter_mut().enumerate() {
            *request = per_call(before.requests[i], now.requests[i]);
        }
        Some(PerCall {
            requests,
            received: per_call(before.received, now.received),
            sent: per_call(before.sent, now.sent),
        })
    }
}
