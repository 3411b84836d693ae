//! Damaged record files: torn, of another user, unreadable, unwritable, too large.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use harness::{Sandbox, needs};
use serde_json::{Value, json};

#[test]
fn a_record_that_is_torn_foreign_or_unreadable_is_passed_over() {
    let record = |sandbox: &Sandbox| sandbox.state_dir().join("testnet/c1:eth0.json");
    let damages: [fn(&std::path::Path); 6] = [
        |path| fs::write(path, "").unwrap(),
        |path| fs::write(path, &fs::read(path).unwrap()[..100]).unwrap(),
        |path| fs::write(path, "{\"format\": 99}").unwrap(),
        |path| {
            let other = fs::read_to_string(path)
                .unwrap()
                .replace("\"c1\"", "\"c2\"");
            fs::write(path, other).unwrap();
        },
        |path| {
            fs::remove_file(path).unwrap();
            fs::create_dir(path).unwrap();
        },
        |path| fs::remove_file(path).unwrap(),
    ];
    for (i, damage) in damages.iter().enumerate() {
        let sandbox = Sandbox::default();
        let ipam = json!({"ranges": [[{"subnet": "10.1.0.0/24"}]]});
        let delegates = ["ipam-ds-ranges", "ipam-da-host-local"];
        let config = sandbox.config("1.0.0", &delegates, &ipam);
        sandbox.chain_call("ADD", "c1", &config).run().result();
        damage(&record(&sandbox));
        let output = sandbox.chain_call("DEL", "c1", &config).run();
        output.nothing();
        // An empty or missing record means that nothing has begun.
        let is_damaged = ![0, 5].contains(&i);
        let is_warned_of = output.stderr.contains("WARN") && output.stderr.contains("record");
        assert_eq!(is_warned_of, is_damaged, "{i}: {output:?}");
        assert!(sandbox.reserved("testnet").is_empty(), "{i}");
        if i != 4 {
            assert!(sandbox.records("testnet").is_empty(), "{i}");
        }
    }
}

#[test]
fn records_that_cannot_be_kept_keep_nothing_from_working() {
    let sandbox = Sandbox::default();
    fs::write(sandbox.state_dir(), "a file where the folder should be").unwrap();
    let ipam = json!({"ranges": [[{"subnet": "10.1.0.0/24"}]]});
    let config = sandbox.config("1.0.0", &["ipam-ds-ranges", "ipam-da-host-local"], &ipam);
    let output = sandbox.chain_call("ADD", "c1", &config).run();
    assert_eq!(output.ips(), ["10.1.0.2"]);
    assert!(
        output.stderr.contains("the attachment is not recorded"),
        "{output:?}"
    );
    sandbox.chain_call("DEL", "c1", &config).run().nothing();
    assert!(sandbox.reserved("testnet").is_empty());
}

#[test]
fn a_record_is_its_owners_alone_and_holds_no_more_than_came() {
    let sandbox = Sandbox::default();
    let ipam =
        json!({"ranges": [[{"subnet": "10.1.0.0/24"}]], "token": "secret-of-the-configuration"});
    let config = sandbox.config("1.0.0", &["ipam-ds-ranges", "ipam-da-host-local"], &ipam);
    let output = sandbox
        .call("ipam-delegated", "ADD", &config)
        .env("SECRET", "of-the-environment")
        .env("CNI_ARGS", "IgnoreUnknown=1;A=b")
        .run();
    let mode = |path: &str| {
        let metadata = fs::metadata(sandbox.state_dir().join(path)).unwrap();
        metadata.permissions().mode() & 0o777
    };
    assert_eq!(
        (mode("testnet"), mode("testnet/c1:eth0.json")),
        (0o700, 0o600)
    );
    let json = fs::read_to_string(sandbox.state_dir().join("testnet/c1:eth0.json")).unwrap();
    assert!(!json.contains("of-the-environment"));
    let lines: Vec<Value> = json
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let intent = &lines[0]["adding"];
    assert_eq!(intent["config"], config);
    assert_eq!(intent["netns"], "/run/netns/c1");
    assert_eq!(intent["args"], "IgnoreUnknown=1;A=b");
    assert_eq!(
        intent["delegates"],
        json!(["ipam-ds-ranges", "ipam-da-host-local"])
    );
    assert!(lines[1]["result"]["pools"].is_array());
    assert_eq!(lines[2]["result"], output.result());
    assert_eq!(lines[3], json!({"added": {}}));
    assert_eq!(lines.len(), 4);
}

#[test]
fn records_do_not_grow_without_bound() {
    let sandbox = Sandbox::default();
    let ipam = json!({"ranges": [[{"subnet": "10.1.0.0/30"}]], "padding": "x".repeat(1 << 20)});
    let config = sandbox.config("1.0.0", &["ipam-ds-ranges", "ipam-da-host-local"], &ipam);
    sandbox.chain_call("ADD", "c1", &config).run().result();
    let record = sandbox.state_dir().join("testnet/c1:eth0.json");
    assert!(fs::metadata(record).unwrap().len() < 2_000);
    // A failed ADD leaves no record.
    for n in 0..20 {
        assert_eq!(
            sandbox
                .chain_call("ADD", &format!("full{n}"), &config)
                .run()
                .code(),
            11
        );
    }
    assert_eq!(sandbox.records("testnet"), ["c1:eth0.json"]);
    sandbox.chain_call("DEL", "c1", &config).run().nothing();
    assert!(!sandbox.state_dir().join("testnet").exists());
}

/// strace's options that fail the first system call with this name and text.
fn failing(trace: &str, name: &str, text: &str, error: &str) -> String {
    let start = format!("{name}(");
    let calls = trace.lines().filter(|line| line.starts_with(&start));
    let at = calls.into_iter().position(|line| line.contains(text));
    let when = at.unwrap_or_else(|| panic!("no {name} of {text} in {trace}")) + 1;
    format!("inject={name}:error={error}:when={when}")
}

#[test]
fn a_record_that_cannot_be_read_now_is_kept_and_nothing_is_released() {
    const STRACE: &str = "/usr/bin/strace";
    needs!(STRACE);
    let sandbox = Sandbox::default();
    let ipam = json!({"ranges": [[{"subnet": "10.1.0.0/24"}]]});
    let delegates = ["ipam-ds-ranges", "ipam-da-host-local"];
    let mut config = sandbox.config("1.1.0", &delegates, &ipam);
    config["cni.dev/valid-attachments"] = json!([]);
    let trace = sandbox.root().join("trace");
    let traced = |command: &str, expression: &str| {
        let trace = trace.to_str().unwrap();
        sandbox
            .call("ipam-delegated", command, &config)
            .through(&[STRACE, "-qq", "-o", trace, "-e", expression])
            .run()
    };
    for command in ["DEL", "GC", "ADD"] {
        sandbox.chain_call("ADD", "c1", &config).run().result();
        traced(command, "trace=all");
        let of_command = fs::read_to_string(&trace).unwrap();
        sandbox.chain_call("DEL", "c1", &config).run().nothing();
        sandbox.chain_call("ADD", "c1", &config).run().result();
        let reserved = sandbox.reserved("testnet");
        let mut points = vec![
            ("openat", "c1:eth0.json"),
            ("openat", "state/testnet"),
            ("pread64", "adding"),
            ("flock", "LOCK_EX|LOCK_NB"),
        ];
        if command == "GC" {
            points.push(("getdents64", ""));
        }
        for (name, text) in points {
            for error in ["EIO", "ENFILE", "ENOMEM"] {
                let expression = failing(&of_command, name, text, error);
                let output = traced(command, &expression);
                assert_eq!(output.code(), 11, "{command} {expression}: {output:?}");
                assert_eq!(
                    sandbox.reserved("testnet"),
                    reserved,
                    "{command} {expression}"
                );
                assert_eq!(
                    sandbox.records("testnet"),
                    ["c1:eth0.json"],
                    "{command} {expression}"
                );
            }
        }
        sandbox.chain_call("DEL", "c1", &config).run().nothing();
    }
}

#[test]
fn a_container_id_that_is_too_long_for_a_record_works_without_one() {
    let sandbox = Sandbox::default();
    let ipam = json!({"ranges": [[{"subnet": "10.1.0.0/24"}]]});
    let mut config = sandbox.config("1.1.0", &["ipam-ds-ranges", "ipam-da-host-local"], &ipam);
    config["cni.dev/valid-attachments"] = json!([]);
    let id = "c".repeat(246);
    sandbox.write_conflist("10-net.conflist", &config);
    let release = || sandbox.ipamctl(&["release", &id]).run();
    for (i, way) in ["DEL", "GC", "release"].into_iter().enumerate() {
        let ip = format!("10.1.0.{}", i + 2);
        assert_eq!(
            sandbox.chain_call("ADD", &id, &config).run().ips(),
            [ip],
            "{way}"
        );
        match way {
            "release" => assert!(release().status.success(), "{:?}", release()),
            command => sandbox.chain_call(command, &id, &config).run().nothing(),
        }
        assert!(sandbox.reserved("testnet").is_empty(), "{way}");
    }
}
