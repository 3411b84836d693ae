//! Random configurations and calls for `host-local` and ours.

use std::path::Path;

use fastrand::Rng;
use serde_json::{Map, Value, json};

/// A call for one attachment.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) command: &'static str,
    pub(super) container: String,
    pub(super) ifname: String,
    /// `CNI_ARGS`.
    pub(super) args: Option<String>,
    /// Further keys of the configuration; `ips` goes to `runtimeConfig`.
    pub(super) keys: Map<String, Value>,
}

/// A random call.
pub(super) fn step(rng: &mut Rng) -> Step {
    let mut step = Step {
        command: if rng.u8(..10) < 7 { "ADD" } else { "DEL" },
        container: format!("c{}", rng.u8(..5)),
        ifname: format!("eth{}", rng.u8(..2)),
        args: None,
        keys: Map::new(),
    };
    match rng.u8(..10) {
        0 => step.args = Some(format!("IP={}", some_address(rng))),
        1 => {
            step.args = Some(format!(
                "IgnoreUnknown=1;K8S_POD_NAME=p;IP={}/24",
                some_address(rng)
            ));
        }
        2 => {
            let ips: Vec<String> = (0..rng.usize(1..3)).map(|_| some_address(rng)).collect();
            step.keys
                .insert("args".to_owned(), json!({"cni": {"ips": ips}}));
        }
        3 => {
            let ips: Vec<String> = (0..rng.usize(1..3)).map(|_| some_address(rng)).collect();
            step.keys.insert("ips".to_owned(), json!(ips));
        }
        4 if rng.u8(..4) == 0 => {
            let args = [
                "IP",
                "COLOUR=blue",
                "IP=nonsense",
                "IP=",
                "A=1;IgnoreUnknown=true",
            ];
            step.args = Some(args[rng.usize(..args.len())].to_owned());
        }
        _ => {}
    }
    step
}

/// A random configuration for host-local.
pub(super) fn configuration(rng: &mut Rng, resolv_conf: &Path) -> Value {
    let versions = ["0.3.0", "0.3.1", "0.4.0", "1.0.0"];
    let mut config = json!({
        "cniVersion": versions[rng.usize(..versions.len())],
        "name": "testnet",
        "ipam": {"type": "host-local"}
    });
    let ipam = &mut config["ipam"];
    let sets: Vec<Value> = (0..rng.u32(1..4))
        .map(|area| range_set(rng, area))
        .collect();
    match rng.u8(..6) {
        // One range at the top of `ipam`, before the others.
        0 => {
            let first = sets[0][0].as_object().cloned().unwrap_or_default();
            ipam.as_object_mut().unwrap().extend(first);
            ipam["ranges"] = json!(sets[1..]);
        }
        1 => {
            ipam["ranges"] = json!(sets[1..]);
            config["runtimeConfig"] = json!({ "ipRanges": [sets[0]] });
        }
        _ => ipam["ranges"] = json!(sets),
    }
    let ipam = &mut config["ipam"];
    if rng.u8(..3) == 0 {
        ipam["routes"] = json!([{"dst": "0.0.0.0/0"}, {"dst": "10.0.0.0/8", "gw": "10.7.0.1"}]);
    }
    if rng.u8(..40) == 0 {
        ipam["routes"] = json!([{"dst": "nowhere"}]);
    }
    match rng.u8(..12) {
        0..3 => ipam["resolvConf"] = json!(resolv_conf),
        3 if rng.bool() => ipam["resolvConf"] = json!("/nowhere/resolv.conf"),
        _ => {}
    }
    config
}

/// A range set in one third of all addresses, so that most sets don't overlap.
fn range_set(rng: &mut Rng, area: u32) -> Value {
    let v6 = rng.u8(..3) == 0;
    let mut ranges: Vec<Value> = (0..rng.usize(1..3)).map(|_| range(rng, v6, area)).collect();
    match rng.u8(..100) {
        0 => ranges.clear(),
        1 => ranges.push(range(rng, !v6, area)),
        2 => ranges.push(range(rng, v6, (area + 1) % 3)),
        _ => {}
    }
    json!(ranges)
}

/// A range in a small subnet, so that pools run full.
fn range(rng: &mut Rng, v6: bool, area: u32) -> Value {
    // A subnet of one host bit is too small.
    let bits = if rng.u8(..100) == 0 { 1 } else { rng.u32(2..6) };
    let longest = if v6 { 128 } else { 32 };
    let size = 1u32 << bits;
    let base = rng.u32(..256 / size) * size + 256 * area;
    let address = |offset: u32| {
        if v6 {
            format!("fd00:7::{:x}", base + offset)
        } else {
            format!("10.7.{}.{}", (base + offset) / 256, (base + offset) % 256)
        }
    };
    let host_bits = u32::from(rng.u8(..100) == 0);
    let network = address(host_bits);
    let mut range = json!({ "subnet": format!("{network}/{}", longest - bits) });
    // Sometimes outside of the subnet.
    let inside = |rng: &mut Rng| {
        let outside = if rng.u8(..50) == 0 { size } else { 0 };
        rng.u32(..size) + outside
    };
    let start = inside(rng);
    // Usually not before the start.
    let end = inside(rng).max(if rng.u8(..20) == 0 { 0 } else { start });
    if rng.u8(..3) == 0 && start != size - 1 {
        range["rangeStart"] = json!(address(start));
    }
    if rng.u8(..3) == 0 {
        range["rangeEnd"] = json!(address(end));
    }
    match rng.u8(..6) {
        0 => range["gateway"] = json!(address(inside(rng))),
        1 => range["gateway"] = json!(""),
        _ => {}
    }
    if rng.u8(..60) == 0 {
        range["rangeStart"] = json!("nonsense");
    }
    range
}

/// An address that may be in one of the ranges.
fn some_address(rng: &mut Rng) -> String {
    if rng.u8(..4) == 0 {
        format!("fd00:7::{:x}", rng.u32(..768))
    } else {
        format!("10.7.{}.{}", rng.u8(..3), rng.u8(..))
    }
}
