//! Facts that a delegate finds, and the node's name.

use harness::{Sandbox, blocks, document};
use serde_json::{Value, json};

const CHAIN: [&str; 3] = ["ipam-df-rack", "ipam-ds-rules", "ipam-da-host-local"];

/// A delegate that prints this on ADD, and nothing else.
fn sandbox(printed: &str) -> Sandbox {
    let body = format!("[ $CNI_COMMAND = ADD ] || exit 0\ncat <<'JSON'\n{printed}\nJSON");
    Sandbox::default().with_script("ipam-df-rack", &body)
}

fn config(sandbox: &Sandbox, delegates: &[&str], rules: &Value) -> Value {
    let ipam = json!({
        "node": "r8-worker-1",
        "pools": {"seven": {"subnet": "10.7.0.0/24"}, "eight": {"subnet": "10.8.0.0/24"},
                  "rest": {"subnet": "10.9.0.0/24"}},
        "rules": rules,
    });
    sandbox.config("1.1.0", delegates, &ipam)
}

fn by_rack() -> Value {
    json!([{"when": {"rack": "r7"}, "pools": ["seven"]}, {"pools": ["rest"]}])
}

#[test]
fn a_fact_of_a_delegate_wins_over_what_the_starter_of_a_container_writes() {
    let found = json!({"ips": [], "facts": {"rack": "r7", "label:*": null, "label:app": "shop"}});
    let sandbox = sandbox(&found.to_string());
    let rules = json!([
        {"when": {"rack": "r7", "label:app": "shop", "label:tier": null}, "pools": ["seven"]},
        {"pools": ["rest"]},
    ]);
    let mut config = config(&sandbox, &CHAIN, &rules);
    config["args"] = json!({"cni": {"labels": [
        {"key": "app", "value": "mine"}, {"key": "tier", "value": "front"}]}});
    let call = sandbox.chain_call("ADD", "c1", &config);
    let result = call
        .env("CNI_ARGS", "IgnoreUnknown=1;rack=r9")
        .run()
        .result();
    assert_eq!(harness::answer_of(&result), ["10.7.0.2"]);
    assert_eq!((result.get("facts"), result.get("pools")), (None, None));
}

#[test]
fn what_was_found_on_add_counts_until_del_whatever_the_delegate_does() {
    let found = r#"{"ips":[],"facts":{"rack":"r7"}}"#;
    for later in [
        "exit 1",
        "kill -9 $$",
        "exit 0",
        "echo '{\"ips\":[],\"facts\":{\"rack\":\"r9\"}}'",
    ] {
        let sandbox = sandbox(found);
        let mut config = config(&sandbox, &CHAIN, &by_rack());
        let added = sandbox.run("ADD", &config).result();
        sandbox.run_for("ADD", "c2", &config).result();
        sandbox.write_executable("ipam-df-rack", &format!("#!/bin/sh\n{later}\n"));
        config["prevResult"] = added;
        sandbox.run("CHECK", &config).nothing();
        sandbox.run("DEL", &config).nothing();
        assert_eq!(sandbox.reserved("pools"), ["10.7.0.3"], "{later}");
        config.as_object_mut().unwrap().remove("prevResult");
        config["cni.dev/valid-attachments"] = json!([]);
        sandbox.run("GC", &config).nothing();
        assert_eq!(sandbox.reserved("pools"), [""; 0], "{later}");
        assert_eq!(sandbox.records("testnet"), [""; 0]);
    }
}

#[test]
fn the_nodes_name_chooses_the_pool_without_a_delegate() {
    let sandbox = Sandbox::default();
    let rules = json!([
        {"when": {"node": "r7-*"}, "pools": ["seven"]},
        {"when": {"node": "r8-*"}, "pools": ["eight"]},
        {"pools": ["rest"]},
    ]);
    let delegates = &CHAIN[1..];
    let mut config = config(&sandbox, delegates, &rules);
    let add = |container: &str, config: &Value| {
        let call = sandbox.chain_call("ADD", container, config);
        call.env("CNI_ARGS", "IgnoreUnknown=1;node=r7-x").run()
    };
    assert_eq!(add("c1", &config).ips(), ["10.8.0.2"]);
    config["ipam"]["node"] = json!(null);
    // The host's name, whatever it is.
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    config["ipam"]["rules"] = json!([{"when": {"node": host.trim()}, "pools": ["seven"]}]);
    assert_eq!(add("c2", &config).ips(), ["10.7.0.2"]);
    config["ipam"]["node"] = json!(7);
    add("c3", &config).refused(7, "ipam.node: invalid type: integer `7`");
    let status = sandbox.run("STATUS", &config);
    status.refused(7, "ipam.node");
}

#[test]
fn the_delegate_of_the_page_finds_the_rack() {
    let block = blocks(&document("docs/writing-a-delegate.md"), "sh").remove(1);
    assert_eq!(block, document("testdata/delegates/ipam-df-rack"));
    let sandbox = Sandbox::default().with_testdata("ipam-df-rack");
    let file = sandbox.root().join("rack");
    std::fs::write(&file, "r7\n").unwrap();
    let config = config(&sandbox, &CHAIN, &by_rack());
    let call = |command: &str| {
        let call = sandbox.chain_call(command, "c1", &config);
        call.env("RACK_FILE", &file)
    };
    assert_eq!(call("ADD").run().ips(), ["10.7.0.2"]);
    call("DEL").run().nothing();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(call("ADD").run().code(), 103);
    assert_eq!(sandbox.records("testnet"), [""; 0]);
    let version = sandbox.call("ipam-df-rack", "VERSION", &json!({})).run();
    assert_eq!(version.result()["cniVersion"], "1.1.0");
}

#[test]
fn explain_takes_the_facts_that_a_delegate_would_find() {
    let sandbox = sandbox("{}");
    let rules = json!([
        {"when": {"node-label:rack": "r7"}, "pools": ["seven"]},
        {"when": {"node": "r7-*", "rack": "r7"}, "pools": [["eight", "rest"]]},
    ]);
    let config = config(&sandbox, &CHAIN, &rules);
    sandbox.write_conflist("10-testnet.conflist", &config);
    let file = sandbox.conf_dir().join("10-testnet.conflist");
    let explained = |facts: &[&str]| {
        let words = [&["explain", file.to_str().unwrap(), "--json"], facts].concat();
        let output = sandbox.ipamctl(&words).run();
        let json: Value = output.json();
        json
    };
    let by_label = explained(&["node-label:rack=r7"]);
    assert_eq!(by_label["rule"], "ipam.rules[0]");
    let by_node = explained(&["node=r7-1", "rack=r7"]);
    assert_eq!(by_node["pools"][0]["name"], "eight");
    assert_eq!(by_node["pools"][0]["or"][0]["name"], "rest");
}

#[test]
fn check_finds_a_facts_delegate_behind_the_selectors() {
    let sandbox = sandbox("{}");
    let delegates = ["ipam-ds-rules", "ipam-df-rack", "ipam-da-host-local"];
    let config = config(&sandbox, &delegates, &by_rack());
    sandbox.write_conflist("10-testnet.conflist", &config);
    let checked = sandbox.ipamctl(&["check", "--json"]).run().stdout;
    let problem = "no selector behind ipam-df-rack uses its facts";
    assert!(checked.contains(problem), "{checked}");
}
