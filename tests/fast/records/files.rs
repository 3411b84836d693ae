//! Damaged record files: torn, of another user, unreadable, unwritable, too large.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use harness::{Node, RANGES_CHAIN, Sandbox, needs};
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
        let config = sandbox.config_of_ranges("1.0.0");
        sandbox.run("ADD", &config).result();
        damage(&record(&sandbox));
        let output = sandbox.run("DEL", &config);
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
    let config = sandbox.config_of_ranges("1.0.0");
    let output = sandbox.run("ADD", &config);
    assert_eq!(output.ips(), ["10.1.0.2"]);
    output.warns(["the attachment is not recorded"]);
    sandbox.run("DEL", &config).nothing();
    assert!(sandbox.reserved("testnet").is_empty());
}

#[test]
fn a_record_holds_no_more_than_came() {
    let sandbox = Sandbox::default();
    let ipam =
        json!({"ranges": [[{"subnet": "10.1.0.0/24"}]], "token": "secret-of-the-configuration"});
    let config = sandbox.config("1.0.0", &RANGES_CHAIN, &ipam);
    let output = sandbox
        .call("ipam-delegated", "ADD", &config)
        .env("SECRET", "of-the-environment")
        .env("CNI_ARGS", "IgnoreUnknown=1;A=b")
        .run();
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
fn a_record_on_a_disk_that_is_read_only_is_used_all_the_same() {
    needs!("root");
    let sandbox = Sandbox::default();
    let then = sandbox.config_of_one_range("1.1.0", &RANGES_CHAIN, &json!({}));
    sandbox.run("ADD", &then).result();
    let node = Node::new();
    let state = sandbox.state_dir();
    let state = state.display();
    node.sh(&format!(
        "mount --bind {state} {state}; mount -o remount,bind,ro {state}"
    ));
    let run = |command: &str, config: &Value| {
        let call = sandbox.chain_call(command, "c1", config);
        call.run_on(&node)
    };
    assert_eq!(run("ADD", &then).code(), 110);
    assert_eq!(sandbox.reserved("testnet"), ["10.1.0.2"]);
    // With today's configuration, nothing would be released.
    let elsewhere = json!({"dataDir": sandbox.root().join("elsewhere")});
    let now = sandbox.config_of_one_range("1.1.0", &RANGES_CHAIN, &elsewhere);
    run("DEL", &now).nothing();
    assert!(sandbox.reserved("testnet").is_empty());
}

#[test]
fn a_record_that_another_user_may_not_open_is_neither_used_nor_replaced() {
    needs!("root");
    let sandbox = Sandbox::default();
    let open = Permissions::from_mode(0o777);
    fs::set_permissions(sandbox.root(), open.clone()).unwrap();
    let config = sandbox.config_of_one_range("1.1.0", &RANGES_CHAIN, &json!({}));
    sandbox.run("ADD", &config).result();
    fs::set_permissions(sandbox.data_dir().join("testnet"), open).unwrap();
    for (command, code) in [("ADD", 11), ("DEL", 11), ("GC", 11), ("STATUS", 50)] {
        println!("{command}");
        let call = sandbox.chain_call(command, "c1", &config).as_user(65534);
        call.run().refused(code, "Permission denied");
    }
    assert_eq!(sandbox.reserved("testnet"), ["10.1.0.2"]);
}

#[test]
fn a_container_id_that_is_too_long_for_a_record_works_without_one() {
    let sandbox = Sandbox::default();
    let mut config = sandbox.config_of_ranges("1.1.0");
    config["cni.dev/valid-attachments"] = json!([]);
    let id = "c".repeat(246);
    sandbox.write_conflist("10-net.conflist", &config);
    let release = || sandbox.ipamctl(&["release", &id]).run();
    for (i, way) in ["DEL", "GC", "release"].into_iter().enumerate() {
        let ip = format!("10.1.0.{}", i + 2);
        assert_eq!(sandbox.run_for("ADD", &id, &config).ips(), [ip], "{way}");
        match way {
            "release" => assert!(release().status.success(), "{:?}", release()),
            command => sandbox.run_for(command, &id, &config).nothing(),
        }
        assert!(sandbox.reserved("testnet").is_empty(), "{way}");
    }
}
