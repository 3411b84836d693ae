//! Addresses that a rule pins: only the rule's container gets them, in any order of starts.

use harness::{Output, RULES_CHAIN, Sandbox};
use serde_json::{Value, json};

/// A pool of six addresses; two are pinned.
fn config(sandbox: &Sandbox) -> Value {
    let ipam = json!({
        "pools": {"db": {"subnet": "10.30.0.0/29", "gateway": "10.30.0.6"}},
        "rules": [
            {"when": {"NAME": "first"}, "pools": ["db"], "ip": "10.30.0.1"},
            {"when": {"NAME": "third"}, "pools": ["db"], "ip": "10.30.0.3/29"},
            {"pools": ["db"]},
        ],
    });
    sandbox.config("1.1.0", &RULES_CHAIN, &ipam)
}

fn run(sandbox: &Sandbox, command: &str, config: &Value, name: &str, container: &str) -> Output {
    let call = sandbox.call("ipam-delegated", command, config);
    call.container(container)
        .env("CNI_ARGS", format!("NAME={name}"))
        .run()
}

#[test]
fn a_pinned_address_waits_for_its_container_whatever_the_order() {
    for order in [
        ["first", "x", "third", "y", "z"],
        ["x", "y", "z", "third", "first"],
    ] {
        let sandbox = Sandbox::default();
        let config = config(&sandbox);
        let mut others = Vec::new();
        for name in order {
            let ips = run(&sandbox, "ADD", &config, name, name).ips();
            match name {
                "first" => assert_eq!(ips, ["10.30.0.1"]),
                "third" => assert_eq!(ips, ["10.30.0.3"]),
                _ => others.extend(ips),
            }
        }
        others.sort();
        assert_eq!(others, ["10.30.0.2", "10.30.0.4", "10.30.0.5"]);
        let error = run(&sandbox, "ADD", &config, "more", "more").error();
        let msg = error["msg"].as_str().unwrap();
        assert!(msg.ends_with("all 3 are reserved, 2 are excluded"), "{msg}");
    }
}

#[test]
fn an_address_that_is_pinned_while_somebody_has_it_waits_until_it_is_free() {
    let sandbox = Sandbox::default();
    let pinned = config(&sandbox);
    let mut before = pinned.clone();
    before["ipam"]["rules"] = json!([{"pools": ["db"]}]);
    let mut after = pinned.clone();
    after["ipam"]["rules"][2]["sticky"] = json!("${NAME}");
    assert_eq!(run(&sandbox, "ADD", &before, "x", "x").ips(), ["10.30.0.1"]);
    assert_eq!(run(&sandbox, "ADD", &after, "first", "first").code(), 111);
    run(&sandbox, "DEL", &after, "x", "x").nothing();
    // No sticky key leads to it.
    assert_ne!(run(&sandbox, "ADD", &after, "x", "x").ips(), ["10.30.0.1"]);
    assert_eq!(
        run(&sandbox, "ADD", &after, "first", "first").ips(),
        ["10.30.0.1"]
    );
}
