//! Reads the keys of a cluster as observations of a history.

use std::time::Instant;

use serde_json::Value;

use super::{Cluster, PREFIX};
use crate::{Address, Observation};

impl Cluster {
    /// Writes a pool.
    ///
    /// # Panics
    ///
    /// If it can't be written.
    pub fn write_pool(&self, pool: &str, value: &Value) {
        let key = format!("{PREFIX}/v1/pools/{pool}");
        self.etcdctl(&["put", &key, &value.to_string()]);
    }

    /// All keys of the prefix with their values, read at one revision.
    ///
    /// # Panics
    ///
    /// If they can't be read.
    pub fn keys(&self) -> Vec<(String, String)> {
        let below = format!("{PREFIX}/");
        let text = self.etcdctl(&["get", "--prefix", &below]);
        let lines: Vec<&str> = text.lines().collect();
        let pairs = lines.chunks(2);
        pairs
            .map(|pair| (pair[0].to_owned(), pair[1].to_owned()))
            .collect()
    }

    /// The revision of the newest key.
    pub(super) fn revision(&self) -> u64 {
        let status = self.etcdctl(&["endpoint", "status", "--write-out=json"]);
        let status: Value = serde_json::from_str(&status).unwrap();
        let members = status.as_array().into_iter().flatten();
        let revisions =
            members.filter_map(|member| member["Status"]["header"]["revision"].as_u64());
        revisions.max().expect("a revision")
    }

    /// The reserved addresses, and the attachments by which DEL and GC find them. Attachments are
    /// named `NODE/NETWORK/CONTAINER:IFNAME`. Times are relative to `clock`.
    ///
    /// # Panics
    ///
    /// If the keys can't be read, or one is malformed.
    pub fn observe(&self, clock: Instant) -> Observation {
        let started = clock.elapsed();
        let keys = self.keys();
        let mut observation = Observation {
            started,
            ended: clock.elapsed(),
            index: Some(Vec::new()),
            ..Observation::default()
        };
        for (key, value) in keys {
            let path = key.strip_prefix(PREFIX).unwrap();
            let parts: Vec<&str> = path.split('/').skip(1).collect();
            match parts[..] {
                ["v1", "addresses", pool, ip] => {
                    observation
                        .addresses
                        .push((address(pool, ip), attachment(&value)));
                }
                ["v1", "nodes", node, network, attachment, pool, ip] => {
                    let attachment = format!("{node}/{network}/{attachment}");
                    let index = observation.index.as_mut().unwrap();
                    index.push((address(pool, ip), attachment));
                }
                _ => {}
            }
        }
        observation
    }
}

fn address(pool: &str, ip: &str) -> Address {
    Address {
        pool: pool.to_owned(),
        ip: ip.parse().unwrap_or_else(|e| panic!("{ip}: {e}")),
    }
}

/// The attachment that an address's value names.
fn attachment(value: &str) -> String {
    let value: Value = serde_json::from_str(value).unwrap_or_else(|e| panic!("{value}: {e}"));
    let text = |key: &str| value[key].as_str().unwrap_or_else(|| panic!("{value}"));
    format!(
        "{}/{}/{}:{}",
        text("node"),
        text("network"),
        text("containerID"),
        text("ifname")
    )
}
