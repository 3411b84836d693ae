//! Code for the tests with real container runtimes: a network whose rules select two pools and one
//! pinned address.

use crate::Sandbox;
use serde_json::{Value, json};

/// The delegates of the network.
const DELEGATES: [&str; 2] = ["ipam-ds-rules", "ipam-da-host-local"];

/// A conflist for `bridge` with these rules. `bridge` serves one IPv4 subnet, so the pools `web` and
/// `db` are slices of one, from 10.77.1.10 and 10.77.2.10 on.
pub fn conflist(sandbox: &Sandbox, rules: &Value) -> Value {
    let slice = |n: u8| {
        json!({
            "subnet": "10.77.0.0/16", "gateway": "10.77.0.1",
            "rangeStart": format!("10.77.{n}.10"), "rangeEnd": format!("10.77.{n}.99"),
        })
    };
    let ipam = json!({
        "pools": {"web": slice(1), "db": slice(2)},
        "rules": rules,
    });
    let ipam = sandbox.config("1.0.0", &DELEGATES, &ipam)["ipam"].clone();
    json!({
        "cniVersion": "1.0.0",
        "name": "testnet",
        "plugins": [{"type": "bridge", "bridge": "test0", "isGateway": true, "ipam": ipam}],
    })
}

/// The name and content of a reservation file in a named pool.
pub fn reservation(ip: &str, container: &str) -> (String, String) {
    (ip.to_owned(), format!("{container}\r\neth0\r\ntestnet"))
}

/// The IPv4 address in the output of `ip -4 -o addr show dev eth0`.
pub fn address_in(output: &str) -> String {
    let mut words = output.split_ascii_whitespace();
    let address = words.find(|word| *word == "inet").and(words.next());
    address.unwrap_or_else(|| panic!("{output}")).to_owned()
}

/// The reservations of the pool `web` or `db`, which lie in one directory.
pub fn reservations_of(sandbox: &Sandbox, pool: &str) -> Vec<(String, String)> {
    let prefix = match pool {
        "web" => "10.77.1.",
        _ => "10.77.2.",
    };
    let mut all = sandbox.reservations("pools");
    all.retain(|(ip, _)| ip.starts_with(prefix));
    all
}
