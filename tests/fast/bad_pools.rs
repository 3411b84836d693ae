//! Invalid ranges, requests and pools: the selector or allocator that reads them fails with code
//! 7, naming the key and the value. The unit tests of `ipam` and of the plugins have every case;
//! these tests show that the error reaches the runtime.

use std::fs;

use harness::Sandbox;
use serde_json::{Value, json};

use crate::bad_input::{DELEGATES, gets, good};

#[test]
fn an_invalid_range_is_refused_by_the_selector_and_by_the_chain() {
    let sandbox = Sandbox::default();
    let ipam = json!({"ranges": [[{"subnet": "10.7.0.9/24"}]]});
    let config = sandbox.config("1.1.0", &DELEGATES, &ipam);
    for (plugin, prefix) in [
        ("ipam-ds-ranges", ""),
        ("ipam-delegated", "ipam-ds-ranges: "),
    ] {
        let first = format!("{prefix}ipam.ranges[0][0].subnet");
        let call = sandbox.call(plugin, "ADD", &config);
        gets(&sandbox, call, 7, &[&first, "10.7.0.9/24"]);
    }
}

#[test]
fn an_allocator_refuses_invalid_pools_and_paths() {
    let sandbox = Sandbox::default();
    let add = |keys: &[(&str, Value)]| {
        let mut config = good(&sandbox);
        for (key, value) in keys {
            match key.strip_prefix("ipam.") {
                Some(key) => config["ipam"][key] = value.clone(),
                None => config["prevResult"] = json!({ "pools": value }),
            }
        }
        sandbox.call("ipam-da-host-local", "ADD", &config)
    };
    let pool = || json!([{"subnet": "10.7.0.0/24"}]);
    let overlapping = json!([{"subnet": "10.7.0.0/24"}, {"subnet": "10.7.0.0/25"}]);
    let file = sandbox.root().join("a-file");
    fs::write(&file, "").unwrap();
    for (call, code, words) in [
        (add(&[]), 7, ["prevResult.pools", "missing"]),
        (
            add(&[("pools", overlapping)]),
            7,
            ["prevResult.pools[1]", "overlaps"],
        ),
        (
            add(&[("pools", pool()), ("ipam.dataDir", json!(5))]),
            7,
            ["ipam.dataDir", "`5`"],
        ),
        (
            add(&[("pools", pool()), ("ipam.dataDir", json!(file))]),
            5,
            [file.to_str().unwrap(), "Not a directory"],
        ),
    ] {
        gets(&sandbox, call, code, &words);
    }
}
