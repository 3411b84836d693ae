//! Invalid calls: each fails with a CNI error and its code, a message that names the invalid
//! input, and an exit status other than 0; nothing is reserved.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use harness::{Call, IPAM_DELEGATED, PLUGINS, Sandbox};
use serde_json::{Value, json};

pub(crate) const DELEGATES: [&str; 2] = ["ipam-ds-ranges", "ipam-da-host-local"];

/// A configuration with which every command of the chain succeeds.
pub(crate) fn good(sandbox: &Sandbox) -> Value {
    let ipam = json!({"ranges": [[{"subnet": "10.7.0.0/24"}]]});
    let mut config = sandbox.config("1.1.0", &DELEGATES, &ipam);
    config["prevResult"] = json!({"ips": []});
    config["cni.dev/valid-attachments"] = json!([]);
    config
}

/// Checks that the call fails with this code, that its message has all of these words, and that
/// nothing is reserved.
#[track_caller]
pub(crate) fn gets(sandbox: &Sandbox, call: Call, code: u64, words: &[&str]) {
    let output = call.run();
    let error = output.error();
    assert_eq!(error["code"], code, "{error}");
    assert!(error["cniVersion"].is_string(), "{error}");
    for word in words {
        assert!(
            error["msg"].as_str().unwrap().contains(word),
            "{word:?} in {error}"
        );
    }
    assert!(sandbox.reserved("testnet").is_empty(), "{error}");
}

#[test]
fn the_configuration_that_these_tests_break_is_valid() {
    let sandbox = Sandbox::default();
    for command in ["STATUS", "ADD", "GC", "DEL"] {
        let output = sandbox.run(command, &good(&sandbox));
        assert!(output.status.success(), "{command}: {output:?}");
    }
}

#[test]
fn each_plugin_answers_a_malformed_call_with_a_cni_error() {
    let sandbox = Sandbox::default();
    let good = good(&sandbox);
    let with = |key: &str, value: &str| {
        let mut config = good.clone();
        config[key] = json!(value);
        config
    };
    for plugin in PLUGINS {
        let call = |command: &str, config: &Value| sandbox.call(plugin, command, config);
        let refused = |call: Call, code, words: &[&str]| gets(&sandbox, call, code, words);
        for command in ["ADD", "DEL", "CHECK", "GC", "STATUS"] {
            let no_json = call(command, &good).stdin("network");
            refused(no_json, 6, &["stdin", "line 1 column 2"]);
        }
        let add = call("ADD", &good);
        let missing = add.clone().without("CNI_CONTAINERID");
        refused(missing, 4, &["CNI_CONTAINERID"]);
        let not_text = OsStr::from_bytes(b"a\xff");
        let not_text = add.clone().env("CNI_IFNAME", not_text);
        refused(not_text, 4, &["CNI_IFNAME", "UTF-8"]);
        refused(call("UPDATE", &good), 4, &["CNI_COMMAND", "UPDATE"]);
        // A call with the other CNI variables gets a CNI error.
        refused(add.without("CNI_COMMAND"), 4, &["CNI_COMMAND"]);
        let version = with("cniVersion", "1.2.0");
        refused(call("ADD", &version), 1, &["cniVersion", "1.2.0"]);
        refused(call("ADD", &with("name", "../x")), 7, &["name: \"../x\""]);
        // These versions don't have the command.
        for (version, command) in [("0.3.1", "CHECK"), ("1.0.0", "GC"), ("1.0.0", "STATUS")] {
            let config = with("cniVersion", version);
            refused(call(command, &config), 1, &[version, command]);
        }
    }
}

#[test]
fn ten_megabytes_that_are_no_object_are_refused() {
    let sandbox = Sandbox::default();
    let ten_megabytes = 10 << 20;
    let mut cut_off = br#"{"cniVersion":"1.1.0","name":"testnet","x":""#.to_vec();
    cut_off.resize(ten_megabytes, b'x');
    for stdin in [
        vec![b'['; ten_megabytes],
        b"{\"a\":".repeat(ten_megabytes / 5),
        cut_off,
    ] {
        let call = sandbox
            .call(IPAM_DELEGATED, "ADD", &Value::Null)
            .stdin(stdin);
        gets(&sandbox, call, 6, &["stdin"]);
    }
}

#[test]
fn ten_megabytes_of_configuration_are_handed_on_whole() {
    let sandbox = Sandbox::default().with_script("size", r#"printf '{"size": %s}' "$(wc -c)""#);
    let mut config = good(&sandbox);
    config.as_object_mut().unwrap().remove("prevResult");
    config["ipam"]["delegates"] = json!(["ipam-ds-ranges", "ipam-da-host-local"]);
    config["padding"] = json!("x".repeat(10 << 20));
    let output = sandbox.run("ADD", &config);
    assert_eq!(output.ips(), ["10.7.0.2"]);
    config["ipam"]["delegates"] = json!(["size"]);
    let size = sandbox.run_for("ADD", "c2", &config).result();
    assert_eq!(size["size"], serde_json::to_vec(&config).unwrap().len());
}

#[test]
fn malformed_and_unknown_arguments_are_refused() {
    let sandbox = Sandbox::default();
    let config = good(&sandbox);
    for args in ["IP=10.7.0", "COLOUR=blue"] {
        let call = sandbox.call("ipam-delegated", "ADD", &config);
        let call = call.env("CNI_ARGS", args);
        gets(&sandbox, call, 4, &["ipam-ds-ranges: CNI_ARGS"]);
    }
}

#[test]
fn a_configuration_that_would_take_the_nodes_memory_is_refused_before_it_is_read_whole() {
    let sandbox = Sandbox::default();
    let mut stdin = serde_json::to_vec(&good(&sandbox)).unwrap();
    stdin.pop();
    stdin.extend(br#","padding":""#);
    stdin.resize(40 << 20, b'x');
    stdin.extend(br#""}"#);
    for plugin in ["ipam-delegated", "ipam-gc"] {
        for command in ["ADD", "DEL"] {
            // Reading 40 MB several times would exceed the memory limit.
            let call = sandbox.call(plugin, command, &Value::Null);
            let call = call
                .stdin(stdin.clone())
                .through(&["prlimit", "--as=134217728"]);
            gets(&sandbox, call, 7, &["larger than 16777216 bytes"]);
        }
    }
}
