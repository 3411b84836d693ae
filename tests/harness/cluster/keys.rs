//! Reads the keys of a cluster as observations of a history.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Instant;

use serde_json::Value;

use super::{Cluster, PREFIX};
use crate::{Address, Observation};

impl Cluster {
    /// Writes a pool.
    pub fn write_pool(&self, pool: &str, value: &Value) {
        let key = format!("{PREFIX}/v1/pools/{pool}");
        self.etcdctl(&["put", &key, &value.to_string()]);
    }

    /// All keys of the prefix with their values, read at one revision.
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
    pub fn observe(&self, clock: Instant) -> Observation {
        let started = clock.elapsed();
        let keys = self.keys();
        let mut observation = Observation {
            started,
            ended: clock.elapsed(),
            ..Observation::default()
        };
        let below = |kind: &str| format!("{PREFIX}/v1/{kind}/");
        let (addresses, nodes) = (below("addresses"), below("nodes"));
        let mut names = BTreeMap::new();
        let mut index = Vec::new();
        for (key, value) in &keys {
            if let Some(name) = key.strip_prefix(&addresses) {
                let holder: Value = parse(value);
                let address = Address {
                    pool: text(&holder, "pool").to_owned(),
                    ip: ip_of_key(name),
                };
                let found = (address, attachment(&holder));
                names.insert(format!("{}/{name}", text(&holder, "node")), found.clone());
                observation.addresses.push(found);
            } else if let Some(name) = key.strip_prefix(&nodes) {
                index.push(name);
            }
        }
        // A node's key names an address; whose it is, the address says.
        let indexed = index
            .into_iter()
            .filter_map(|name| names.get(name).cloned());
        observation.index = Some(indexed.collect());
        observation
    }
}

/// The address in a key's name, which has a fixed width.
pub fn ip_of_key(name: &str) -> IpAddr {
    let ip = name.rsplit('/').next().unwrap_or_default();
    if ip.contains(':') {
        return ip.parse().unwrap();
    }
    let octets: Vec<u8> = ip.split('.').map(|octet| octet.parse().unwrap()).collect();
    <[u8; 4]>::try_from(octets).unwrap().into()
}

fn parse(value: &str) -> Value {
    serde_json::from_str(value).unwrap_or_else(|e| panic!("{value}: {e}"))
}

fn text<'a>(holder: &'a Value, key: &str) -> &'a str {
    holder[key].as_str().unwrap_or_else(|| panic!("{holder}"))
}

/// The attachment that an address's value names.
fn attachment(holder: &Value) -> String {
    let text = |key: &str| text(holder, key);
    format!(
        "{}/{}/{}:{}",
        text("node"),
        text("network"),
        text("containerID"),
        text("ifname")
    )
}
