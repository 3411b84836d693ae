//! Large configurations: time and memory are linear, not quadratic. Limits of memory and processor
//! time replace a clock; each is many times the required amount.

use std::fs;

use harness::{Call, Output, Sandbox};
use serde_json::{Value, json};

use super::{GONE, add, id, network, status};

/// Number of range sets.
const MANY: usize = 4_000;

fn ranges() -> Vec<Value> {
    let subnets = (0..MANY).map(|i| format!("10.{}.{}.0/24", i / 256, i % 256));
    subnets.map(|subnet| json!({"subnet": subnet})).collect()
}

fn write(sandbox: &Sandbox, name: &str, ranges: &Value) {
    let delegates = ["ipam-ds-ranges", "ipam-da-host-local"];
    let mut config = sandbox.config("1.0.0", &delegates, &json!({"ranges": ranges}));
    config["name"] = json!(name);
    config["ipam"]["dataDir"] = json!(sandbox.root().join(name));
    sandbox.write_conflist(&format!("{name}.conflist"), &config);
}

/// Runs it within a limit of `prlimit`.
fn within(call: Call, limit: &str) -> Output {
    call.through(&["prlimit", limit, "--"]).run()
}

/// 256 MiB of address space, including code and stacks.
const MEMORY: &str = "--as=268435456";

/// Seconds of processor time.
const TIME: &str = "--cpu=15";

#[test]
fn a_check_of_two_large_networks_that_overlap_needs_little_memory_and_names_them() {
    let sandbox = Sandbox::default().with_script("bridge", "");
    for name in ["one", "other"] {
        write(&sandbox, name, &json!([ranges()]));
    }
    let output = within(sandbox.ipamctl(&["check", "--no-exec"]), MEMORY);
    assert_eq!(status(&output), Some(1), "{}", output.stderr);
    assert!(
        output.stdout.contains("of network other"),
        "{}",
        output.stdout
    );
    assert!(output.stdout.len() < 1 << 20);
}

#[test]
fn thousands_of_range_sets_are_shown_checked_and_drawn() {
    let sandbox = Sandbox::default().with_script("bridge", "");
    let sets: Vec<Value> = ranges().into_iter().map(|range| json!([range])).collect();
    write(&sandbox, "one", &json!(sets));
    for words in [
        &["pools"][..],
        &["check", "--no-exec"],
        &["map", "one"],
        &["map", "one", "--svg", "-"],
    ] {
        let output = within(sandbox.ipamctl(words), TIME);
        assert!(
            status(&output).is_some_and(|code| code < 2),
            "{words:?}: {}",
            output.stderr
        );
    }
    write(&sandbox, "other", &json!(sets));
    let output = within(sandbox.ipamctl(&["check", "--no-exec"]), TIME);
    let found = output.stdout.matches("would be given twice").count();
    assert_eq!(found, 2 * MANY, "{}", output.stderr);
}

#[test]
fn all_of_ipv4_is_drawn_in_little_memory() {
    let sandbox = Sandbox::default();
    write(&sandbox, "all", &json!([[{"subnet": "0.0.0.0/0"}]]));
    for words in [&["map", "all"][..], &["map", "all", "--svg", "-"]] {
        let output = within(sandbox.ipamctl(words), MEMORY);
        assert_eq!(status(&output), Some(0), "{words:?}: {}", output.stderr);
    }
}

#[test]
fn an_add_with_tens_of_thousands_of_conditions_reads_each_once() {
    let sandbox = Sandbox::default();
    let facts: serde_json::Map<String, Value> = (0..40_000)
        .map(|i| (format!("K{i}"), Value::Null))
        .collect();
    let ipam = json!({"pools": {"a": {"subnet": "10.1.0.0/24"}}, "rules": [{"when": facts, "pools": ["a"]}]});
    let config = sandbox.config("1.0.0", &["ipam-ds-rules", "ipam-da-host-local"], &ipam);
    let output = within(sandbox.call("ipam-ds-rules", "ADD", &config), "--cpu=3");
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn an_add_with_hundreds_of_new_pools_looks_once_for_old_indexes() {
    let sandbox = Sandbox::default();
    let pool = |i: usize| json!({"name": format!("p{i}"), "subnet": format!("10.{}.{}.0/24", i / 256, i % 256)});
    let pools: Vec<Value> = (0..400).map(pool).collect();
    let mut config = sandbox.config("1.0.0", &[], &json!({}));
    config["prevResult"] = json!({"ips": [], "pools": pools});
    let call = sandbox.call("ipam-da-host-local", "ADD", &config);
    let trace = sandbox.root().join("trace");
    let strace = ["strace", "-f", "-qq", "-o", trace.to_str().unwrap()];
    let output = call.through(&strace).run();
    assert_eq!(output.ips().len(), pools.len());
    let calls = fs::read_to_string(trace).unwrap().lines().count();
    assert!(calls < 200 * pools.len(), "{calls}");
}

#[test]
fn a_name_with_a_character_that_xml_has_not_is_drawn_without_it() {
    let sandbox = Sandbox::default();
    let config = network(&sandbox);
    let call = sandbox.call("ipam-delegated", "ADD", &config);
    let args = "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web\u{fffe}\u{ffff}";
    let call = call.container(&id("a1")).env("CNI_NETNS", GONE);
    call.env("CNI_ARGS", args).run().result();
    add(&sandbox, &config, &id("a2"), GONE);
    let output = sandbox.ipamctl(&["map", "testnet", "--svg", "-"]).run();
    assert!(output.stdout.contains("shop/web"), "{output:?}");
    assert!(!output.stdout.contains(['\u{fffe}', '\u{ffff}']));
}
