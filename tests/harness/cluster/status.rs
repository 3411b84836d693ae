//! State and counters of a member, from its metrics.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::member::address;

/// Longest wait for a member.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The metrics of a member, in Prometheus' text.
#[derive(Clone)]
pub struct Metrics {
    /// The number of the member, from 0.
    pub member: usize,
    /// True if it follows a leader, or leads.
    pub has_leader: bool,
    /// True if it leads.
    pub is_leader: bool,
    text: String,
}

impl Metrics {
    /// Reads a member's metrics, from the clients' network namespace.
    pub(super) fn of(member: usize) -> io::Result<Self> {
        let text = get(&format!("{}:2381", address(member)), "/metrics")?;
        let mut status = Self {
            member,
            has_leader: false,
            is_leader: false,
            text,
        };
        status.has_leader = status.sum("etcd_server_has_leader", "") == 1.0;
        status.is_leader = status.sum("etcd_server_is_leader", "") == 1.0;
        Ok(status)
    }

    /// The sum of a metric over all label sets that contain this text.
    pub fn sum(&self, metric: &str, label: &str) -> f64 {
        sum_of_metric(&self.text, metric, &[label])
    }
}

/// The sum of a metric in Prometheus' text, over all label sets that contain all of these texts.
pub fn sum_of_metric(text: &str, metric: &str, labels: &[&str]) -> f64 {
    let values = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(metric)?;
        let (of, value) = rest.rsplit_once(' ')?;
        let is_metric = of.is_empty() || of.starts_with('{');
        let is_labelled = labels.iter().all(|label| of.contains(label));
        (is_metric && is_labelled).then(|| value.parse::<f64>().ok())?
    });
    values.sum()
}

/// The metrics of a server at this address, in Prometheus' text.
///
/// # Errors
///
/// It doesn't answer.
pub fn metrics_of(address: &str) -> io::Result<String> {
    get(address, "/metrics")
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            member,
            has_leader,
            is_leader,
            ..
        } = self;
        write!(f, "member {member}: leader {has_leader}, leads {is_leader}")
    }
}

/// Reads a page of an HTTP server that closes the connection after the body.
fn get(address: &str, path: &str) -> io::Result<String> {
    let address: SocketAddr = address.parse().map_err(io::Error::other)?;
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    // With HTTP/1.0, the answer isn't chunked.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (_, body) = answer
        .split_once("\r\n\r\n")
        .ok_or_else(|| io::Error::other("no HTTP answer"))?;
    Ok(body.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_summed_over_its_labels() {
        let metrics = Metrics {
            member: 0,
            has_leader: true,
            is_leader: false,
            text: "# HELP x_total that\nx_total{m=\"Txn\",c=\"OK\"} 3\nx_total{m=\"Range\"} 4\n\
                   x_total_other 9\ny 5\n"
                .to_owned(),
        };
        assert_eq!(metrics.sum("x_total", ""), 7.0);
        assert_eq!(metrics.sum("x_total", "m=\"Txn\""), 3.0);
        assert_eq!(metrics.sum("y", ""), 5.0);
        assert_eq!(metrics.sum("z", ""), 0.0);
    }
}
