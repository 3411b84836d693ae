//! Large configurations: memory is linear, not quadratic. The limit of memory is many times the
//! required amount.

use harness::{Call, Output, RANGES_CHAIN, Sandbox};
use serde_json::{Value, json};

/// Number of range sets.
const MANY: usize = 4_000;

fn ranges() -> Vec<Value> {
    let subnets = (0..MANY).map(|i| format!("10.{}.{}.0/24", i / 256, i % 256));
    subnets.map(|subnet| json!({"subnet": subnet})).collect()
}

fn write(sandbox: &Sandbox, name: &str, ranges: &Value) {
    let mut config = sandbox.config("1.0.0", &RANGES_CHAIN, &json!({"ranges": ranges}));
    config["name"] = json!(name);
    config["ipam"]["dataDir"] = json!(sandbox.root().join(name));
    sandbox.write_conflist(&format!("{name}.conflist"), &config);
}

/// Runs it within 256 MiB of address space, including code and stacks.
fn in_little_memory(call: Call) -> Output {
    call.through(&["prlimit", "--as=268435456", "--"]).run()
}

#[test]
fn a_check_of_two_large_networks_that_overlap_needs_little_memory_and_names_them() {
    let sandbox = Sandbox::default().with_script("bridge", "");
    for name in ["one", "other"] {
        write(&sandbox, name, &json!([ranges()]));
    }
    let output = in_little_memory(sandbox.ipamctl(&["check", "--no-exec"]));
    output.ends(1).prints(["is in other: "]);
    assert!(output.stdout.len() < 1 << 20);
}

#[test]
fn thousands_of_range_sets_are_shown_checked_and_drawn() {
    let sandbox = Sandbox::default().with_script("bridge", "");
    let sets: Vec<Value> = ranges().into_iter().map(|range| json!([range])).collect();
    write(&sandbox, "one", &json!(sets));
    for words in [&["pools"][..], &["check", "--no-exec"], &["map", "one"]] {
        let output = in_little_memory(sandbox.ipamctl(words));
        let code = output.status.code();
        assert!(code.is_some_and(|code| code < 2), "{words:?}: {output:?}");
    }
    write(&sandbox, "other", &json!(sets));
    let output = in_little_memory(sandbox.ipamctl(&["check", "--no-exec"]));
    let found = output.stdout.matches("would be given twice").count();
    assert_eq!(found, 2 * MANY, "{}", output.stderr);
}

#[test]
fn all_of_ipv4_is_drawn_in_little_memory() {
    let sandbox = Sandbox::default();
    write(&sandbox, "all", &json!([[{"subnet": "0.0.0.0/0"}]]));
    let output = in_little_memory(sandbox.ipamctl(&["map", "all"]));
    output.ends(0);
}
