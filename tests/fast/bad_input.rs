//! Invalid calls: each fails with a CNI error and its code, a message that names the invalid
//! input, and an exit status other than 0; nothing is reserved.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use harness::{Call, PLUGINS, Sandbox};
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
        let output = sandbox
            .call("ipam-delegated", command, &good(&sandbox))
            .run();
        assert!(output.status.success(), "{command}: {output:?}");
    }
}

#[test]
fn stdin_that_is_no_json_object_is_refused_with_code_6() {
    let sandbox = Sandbox::default();
    let good = serde_json::to_vec(&good(&sandbox)).unwrap();
    let ten_megabytes = 10 << 20;
    let mut ten_megabytes_cut_off = br#"{"cniVersion":"1.1.0","name":"testnet","x":""#.to_vec();
    ten_megabytes_cut_off.resize(ten_megabytes, b'x');
    for plugin in PLUGINS {
        for command in ["ADD", "DEL", "CHECK", "GC", "STATUS"] {
            for (stdin, word) in [
                (Vec::new(), "empty"),
                (b" \n".to_vec(), "empty"),
                (b"network".to_vec(), "line 1 column 2"),
                (b"[]".to_vec(), "expected an object"),
                (b"null".to_vec(), "expected an object"),
                (good[..good.len() / 2].to_vec(), "EOF"),
                ([&good[..], b"}"].concat(), "trailing"),
                (b"{\"name\":\"\xff\"}".to_vec(), "utf-8"),
            ] {
                let call = sandbox.call(plugin, command, &Value::Null).stdin(stdin);
                gets(&sandbox, call, 6, &["stdin", word]);
            }
        }
        for stdin in [
            vec![b'x'; ten_megabytes],
            vec![b'['; ten_megabytes],
            b"{\"a\":".repeat(ten_megabytes / 5),
            ten_megabytes_cut_off.clone(),
        ] {
            let call = sandbox.call(plugin, "ADD", &Value::Null).stdin(stdin);
            gets(&sandbox, call, 6, &["stdin"]);
        }
    }
}

#[test]
fn ten_megabytes_of_configuration_are_handed_on_whole() {
    let sandbox = Sandbox::default().with_script("size", r#"printf '{"size": %s}' "$(wc -c)""#);
    let mut config = good(&sandbox);
    config["ipam"]["delegates"] = json!(["ipam-ds-ranges", "ipam-da-host-local"]);
    config["padding"] = json!("x".repeat(10 << 20));
    let output = sandbox.call("ipam-delegated", "ADD", &config).run();
    assert_eq!(output.ips(), ["10.7.0.2"]);
    config["ipam"]["delegates"] = json!(["size"]);
    let size = sandbox
        .call("ipam-delegated", "ADD", &config)
        .container("c2")
        .run()
        .result();
    assert_eq!(size["size"], serde_json::to_vec(&config).unwrap().len());
}

/// The variables that the specification requires for each command.
const REQUIRED: [(&str, &[&str]); 5] = [
    ("ADD", &["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"]),
    ("DEL", &["CNI_CONTAINERID", "CNI_IFNAME"]),
    ("CHECK", &["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"]),
    ("GC", &["CNI_PATH"]),
    ("STATUS", &[]),
];

#[test]
fn a_missing_or_malformed_variable_is_refused_and_named() {
    let sandbox = Sandbox::default();
    let config = good(&sandbox);
    for plugin in PLUGINS {
        for (command, required) in REQUIRED {
            let call = sandbox.call(plugin, command, &config);
            for name in required {
                gets(&sandbox, call.clone().without(name), 4, &[name]);
                gets(&sandbox, call.clone().env(name, ""), 4, &[name]);
            }
            if !required.contains(&"CNI_CONTAINERID") {
                continue;
            }
            for id in ["../../etc", "-x", "a b", "a/b", "ä", ".hidden"] {
                gets(
                    &sandbox,
                    call.clone().env("CNI_CONTAINERID", id),
                    4,
                    &["CNI_CONTAINERID", id],
                );
            }
            for name in [".", "..", "a/b", "a:b", "a b", "sixteen-bytes-xx"] {
                gets(
                    &sandbox,
                    call.clone().env("CNI_IFNAME", name),
                    4,
                    &["CNI_IFNAME", name],
                );
            }
            for name in ["CNI_CONTAINERID", "CNI_IFNAME"] {
                let not_text = OsStr::from_bytes(b"a\xff");
                gets(
                    &sandbox,
                    call.clone().env(name, not_text),
                    4,
                    &[name, "UTF-8"],
                );
            }
        }
    }
}

#[test]
fn malformed_and_unknown_arguments_are_refused() {
    let sandbox = Sandbox::default();
    let config = good(&sandbox);
    for args in [
        "IP",
        "IP=10.7.0.5;",
        "IP=a=b",
        "IP=10.7.0",
        "IP=10.7.0.5/99",
        "COLOUR=blue",
    ] {
        let call = sandbox
            .call("ipam-ds-ranges", "ADD", &config)
            .env("CNI_ARGS", args);
        gets(&sandbox, call, 4, &["CNI_ARGS"]);
        let call = sandbox
            .call("ipam-delegated", "ADD", &config)
            .env("CNI_ARGS", args);
        gets(&sandbox, call, 4, &["ipam-ds-ranges", "CNI_ARGS"]);
    }
    let call = sandbox.call("ipam-ds-ranges", "ADD", &config);
    gets(
        &sandbox,
        call.env("CNI_ARGS", OsStr::from_bytes(b"IP=\xff")),
        4,
        &["CNI_ARGS", "UTF-8"],
    );
}

#[test]
fn an_unknown_command_is_refused() {
    let sandbox = Sandbox::default();
    let config = good(&sandbox);
    for plugin in PLUGINS {
        for command in ["UPDATE", "add", "ADD ", "\u{e4}"] {
            gets(
                &sandbox,
                sandbox.call(plugin, command, &config),
                4,
                &["CNI_COMMAND", command],
            );
        }
        gets(
            &sandbox,
            sandbox.call(plugin, "", &config),
            4,
            &["CNI_COMMAND"],
        );
        // A call with the other CNI variables gets a CNI error.
        let call = sandbox.call(plugin, "ADD", &config).without("CNI_COMMAND");
        gets(&sandbox, call, 4, &["CNI_COMMAND"]);
    }
}

#[test]
fn an_unsupported_version_is_refused_and_so_is_a_command_that_it_lacks() {
    let sandbox = Sandbox::default();
    for plugin in PLUGINS {
        for (version, code) in [
            (json!("0.1.0"), 1),
            (json!("0.2.0"), 1),
            (json!("1.2.0"), 1),
            (json!("one"), 1),
            (json!(""), 1),
            (json!(null), 1),
            (json!(1.0), 6),
        ] {
            let mut config = good(&sandbox);
            config["cniVersion"] = version;
            gets(
                &sandbox,
                sandbox.call(plugin, "ADD", &config),
                code,
                &["cniVersion"],
            );
        }
        // These versions don't have the command.
        for (version, command) in [
            ("0.3.1", "CHECK"),
            ("0.3.1", "GC"),
            ("1.0.0", "GC"),
            ("0.4.0", "STATUS"),
            ("1.0.0", "STATUS"),
        ] {
            let mut config = good(&sandbox);
            config["cniVersion"] = json!(version);
            gets(
                &sandbox,
                sandbox.call(plugin, command, &config),
                1,
                &[version, command],
            );
        }
    }
}

#[test]
fn an_invalid_network_name_is_refused() {
    let sandbox = Sandbox::default();
    for plugin in PLUGINS {
        for (name, word) in [
            (json!(null), "name is missing"),
            (json!(""), "name: \"\""),
            (json!("../x"), "name: \"../x\""),
            (json!("a b"), "name: \"a b\""),
            (json!(5), "name: invalid type: integer `5`"),
        ] {
            let mut config = good(&sandbox);
            config["name"] = name;
            gets(&sandbox, sandbox.call(plugin, "ADD", &config), 7, &[word]);
        }
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
