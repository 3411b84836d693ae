//! State of a member, from its metrics.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::member::address;

/// Longest wait for a member.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The state of a member.
#[derive(Clone, Debug)]
pub(super) struct State {
    /// The number of the member, from 0.
    pub(super) member: usize,
    /// True if it follows a leader, or leads.
    pub(super) has_leader: bool,
    /// True if it leads.
    pub(super) is_leader: bool,
}

impl State {
    /// Reads a member's metrics, from the clients' network namespace.
    pub(super) fn of(member: usize) -> io::Result<Self> {
        let text = metrics_of(&format!("{}:2381", address(member)))?;
        let is_set = |metric: &str| sum_of_metric(&text, metric, &[]) == 1.0;
        Ok(Self {
            member,
            has_leader: is_set("etcd_server_has_leader"),
            is_leader: is_set("etcd_server_is_leader"),
        })
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
    let address: SocketAddr = address.parse().map_err(io::Error::other)?;
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    // With HTTP/1.0, the answer isn't chunked, and the connection ends with it.
    let request = format!("GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (_, body) = answer
        .split_once("\r\n\r\n")
        .ok_or_else(|| io::Error::other("no HTTP answer"))?;
    Ok(body.to_owned())
}
