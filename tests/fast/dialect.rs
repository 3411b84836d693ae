//! The world's dialect of JSON and of CNI: keys in another case or in two, values that a main plugin
//! can't read, and configurations that have changed since the ADD.

use std::fs;

use harness::{Output, RULES_CHAIN, Sandbox};
use serde_json::{Value, json};

use crate::bad_input::{DELEGATES, gets, good};

/// The configuration with keys of `ipam` renamed.
fn renamed(config: &Value, keys: &[(&str, &str)]) -> Value {
    let mut config = config.clone();
    let ipam = config["ipam"].as_object_mut().unwrap();
    for (from, to) in keys {
        let value = ipam.remove(*from).unwrap();
        ipam.insert((*to).to_owned(), value);
    }
    config
}

/// The text of the configuration with one more member of `ipam`, in front of the others.
fn with_member(config: &Value, member: &str) -> String {
    config
        .to_string()
        .replace(r#""ipam":{"#, &format!(r#""ipam":{{{member},"#))
}

fn call(sandbox: &Sandbox, command: &str, config: &Value) -> Output {
    sandbox.run(command, config)
}

#[test]
fn keys_in_another_case_are_the_same_keys() {
    let sandbox = Sandbox::default();
    let mut config = good(&sandbox);
    config["ipam"]["routes"] = json!([{"DST": "0.0.0.0/0"}]);
    let config = renamed(
        &config,
        &[
            ("dataDir", "datadir"),
            ("stateDir", "\u{17f}tatedir"),
            ("delegates", "DELEGATES"),
            ("ranges", "Ranges"),
            ("routes", "Routes"),
        ],
    );
    let mut with_request = config.clone();
    with_request["ARGS"] = json!({"CNI": {"IPs": ["10.7.0.9"]}});
    with_request["runtimeconfig"] = json!({"IpRanges": [[{"Subnet": "10.8.0.0/24"}]]});
    let added = call(&sandbox, "ADD", &with_request);
    assert_eq!(added.ips(), ["10.8.0.2", "10.7.0.9"]);
    assert_eq!(added.result()["routes"], json!([{"DST": "0.0.0.0/0"}]));
    assert_eq!(sandbox.reserved("testnet"), ["10.7.0.9", "10.8.0.2"]);
    assert_eq!(sandbox.records("testnet").len(), 1);
    sandbox.write_conflist("10-test.conflist", &config);
    let listed = sandbox.ipamctl(&["ls"]).run();
    listed.prints(["10.7.0.9"]);
    call(&sandbox, "DEL", &config).nothing();
    assert!(sandbox.reserved("testnet").is_empty());
}

#[test]
fn what_is_not_utf_8_is_replaced() {
    let sandbox = Sandbox::default();
    let config = good(&sandbox);
    let latin1 = |config: &Value| {
        let text = config.to_string().replacen('{', r#"{"@":"@","#, 1);
        let bytes = text.bytes();
        bytes
            .map(|byte| if byte == b'@' { b'\xe9' } else { byte })
            .collect::<Vec<u8>>()
    };
    for command in ["ADD", "CHECK", "STATUS", "DEL", "GC"] {
        let mut config = config.clone();
        config["cni.dev/valid-attachments"] = json!([]);
        config["prevResult"] = json!({"ips": [{"address": "10.7.0.2/24"}]});
        let call = sandbox.call("ipam-delegated", command, &Value::Null);
        let output = call.stdin(latin1(&config)).run();
        if command != "ADD" {
            output.nothing();
            continue;
        }
        assert_eq!(output.ips(), ["10.7.0.2"]);
        let list = json!({"cniVersion": "1.1.0", "name": "testnet", "plugins": [config]});
        fs::create_dir_all(sandbox.conf_dir()).unwrap();
        fs::write(sandbox.conf_dir().join("10-test.conflist"), latin1(&list)).unwrap();
        let listed = sandbox.ipamctl(&["ls"]).run();
        listed.prints(["10.7.0.2"]);
    }
    assert!(sandbox.reserved("testnet").is_empty());
}

#[test]
fn two_spellings_of_a_key_are_refused_but_not_by_del_and_gc() {
    let sandbox = Sandbox::default();
    let config = good(&sandbox);
    let data_dir = sandbox.root().join("elsewhere");
    for (member, words) in [
        (format!(r#""DATADIR":{data_dir:?}"#), ["dataDir", "DATADIR"]),
        (
            format!(r#""statedir":{data_dir:?}"#),
            ["stateDir", "statedir"],
        ),
        (r#""Ranges":[]"#.to_owned(), ["ranges", "Ranges"]),
        (r#""Delegates":[]"#.to_owned(), ["delegates", "Delegates"]),
    ] {
        let twice = with_member(&config, &member);
        for command in ["ADD", "CHECK", "STATUS"] {
            let call = sandbox.call("ipam-delegated", command, &Value::Null);
            gets(&sandbox, call.stdin(twice.clone()), 7, &words);
        }
        assert!(!data_dir.exists());
        for (command, container) in [("DEL", "c1"), ("GC", "c2")] {
            let add = sandbox.run_for("ADD", container, &config);
            assert_eq!(add.ips().len(), 1);
            let call = sandbox.chain_call(command, container, &Value::Null);
            call.stdin(twice.clone()).run().nothing();
            assert!(sandbox.reserved("testnet").is_empty(), "{command} {twice}");
        }
    }
}

#[test]
fn of_a_key_that_is_there_twice_the_last_value_counts() {
    let sandbox = Sandbox::default();
    let twice = with_member(
        &good(&sandbox),
        r#""ranges":[[{"subnet":"10.9.0.0/24"}]],"dataDir":7"#,
    );
    let add = sandbox.call("ipam-delegated", "ADD", &Value::Null);
    assert_eq!(add.stdin(twice).run().ips(), ["10.7.0.2"]);
}

/// Configurations of a container's network that somebody has broken after its ADD.
fn broken(config: &Value) -> Vec<Value> {
    let changed = |change: fn(&mut Value)| {
        let mut config = config.clone();
        change(&mut config);
        config
    };
    vec![
        changed(|config| drop(config.as_object_mut().unwrap().remove("cniVersion"))),
        changed(|config| config["cniVersion"] = json!("")),
        changed(|config| config["cniVersion"] = json!("0.2.0")),
        changed(|config| config["cniVersion"] = json!("9.0.0")),
        changed(|config| config["cniVersion"] = json!(1.0)),
        changed(|config| config["cniVersion"] = json!(null)),
        changed(|config| config["ipam"]["ranges"] = json!("10.7.0.0/24")),
        changed(|config| config["ipam"]["ranges"][0][0]["subnet"] = json!("10.8.0.0/24")),
        changed(|config| config["ipam"]["dataDir"] = json!("/nowhere")),
        changed(|config| config["ipam"]["routes"] = json!(7)),
        changed(|config| config["ipam"]["delegates"] = json!(null)),
        changed(|config| config["ipam"]["delegates"] = json!("ipam-ds-ranges")),
        changed(|config| config["ipam"]["delegates"] = json!([])),
        changed(|config| config["ipam"]["delegates"] = json!(["../x"])),
        changed(|config| config["ipam"]["delegateTimeout"] = json!("soon")),
        changed(|config| config["ipam"]["result"] = json!([])),
        changed(|config| config["ipam"] = json!([])),
        changed(|config| config["ipam"] = json!(null)),
        changed(|config| config["ipam"] = json!("ipam-delegated")),
        changed(|config| config["type"] = json!(7)),
        changed(|config| config["runtimeConfig"] = json!([])),
        changed(|config| config["args"] = json!("IP=x")),
        changed(|config| config["prevResult"] = json!({"ips": 7})),
    ]
}

#[test]
fn del_and_gc_go_by_the_record_whatever_the_configuration_says() {
    let sandbox = Sandbox::default();
    let config = good(&sandbox);
    for broken in broken(&config) {
        for (plugin, command) in [
            ("ipam-delegated", "DEL"),
            ("ipam-delegated", "GC"),
            ("ipam-gc", "GC"),
        ] {
            assert_eq!(call(&sandbox, "ADD", &config).ips().len(), 1);
            let output = sandbox.call(plugin, command, &broken).run();
            assert!(
                output.status.success(),
                "{plugin} {command} {broken}: {output:?}"
            );
            let left = (sandbox.reserved("testnet"), sandbox.records("testnet"));
            assert_eq!(left, (vec![], vec![]), "{plugin} {command} {broken}");
        }
    }
    assert_eq!(call(&sandbox, "ADD", &config).ips().len(), 1);
    let mut itself = config;
    itself["ipam"]["delegates"] = json!(["ipam-delegated"]);
    call(&sandbox, "DEL", &itself).nothing();
    sandbox.holds_nothing("testnet");
}

#[test]
fn without_a_record_an_unusable_version_counts_as_the_newest() {
    let sandbox = Sandbox::default();
    let config = good(&sandbox);
    for version in [json!(null), json!("0.2.0"), json!(7)] {
        for command in ["DEL", "GC"] {
            assert_eq!(call(&sandbox, "ADD", &config).ips().len(), 1);
            fs::remove_dir_all(sandbox.state_dir()).unwrap();
            let mut broken = config.clone();
            broken["cniVersion"] = version.clone();
            call(&sandbox, command, &broken).nothing();
            assert!(
                sandbox.reserved("testnet").is_empty(),
                "{command} {version}"
            );
        }
    }
}

#[test]
fn a_del_that_knows_neither_delegates_nor_the_record_is_refused() {
    let sandbox = Sandbox::default();
    let config = good(&sandbox);
    assert_eq!(call(&sandbox, "ADD", &config).ips(), ["10.7.0.2"]);
    let record = sandbox.state_dir().join("testnet/c1:eth0.json");
    fs::write(&record, "damaged\n").unwrap();
    let mut broken = config.clone();
    broken["ipam"]["delegates"] = json!(null);
    call(&sandbox, "DEL", &broken).refused(5, "ipam.delegates");
    assert!(record.exists());
    broken["ipam"]["stateDir"] = json!(7);
    call(&sandbox, "DEL", &broken).refused(7, "ipam.stateDir");
    assert_eq!(sandbox.reserved("testnet"), ["10.7.0.2"]);
    call(&sandbox, "DEL", &config).nothing();
    assert!(sandbox.reserved("testnet").is_empty());
}

/// A route, an address and DNS with one value of a wrong type each: the list, and its key.
fn wrong_types() -> Vec<(&'static str, Value, &'static str)> {
    let route = |key: &str, value: Value| json!([{"dst": "0.0.0.0/0", key: value}]);
    vec![
        ("routes", route("gw", json!(7)), "routes[0].gw"),
        ("routes", route("mtu", json!("1400")), "routes[0].mtu"),
        ("routes", route("MTU", json!(1400.5)), "routes[0].mtu"),
        ("routes", route("advmss", json!(true)), "routes[0].advmss"),
        ("routes", route("priority", json!([])), "routes[0].priority"),
        ("routes", route("table", json!("main")), "routes[0].table"),
        ("routes", route("scope", json!("link")), "routes[0].scope"),
        ("routes", json!([{"dst": "0.0.0.0"}]), "routes[0].dst"),
        ("routes", json!({}), "routes"),
        ("dns", json!({"nameservers": "10.0.0.1"}), "dns.nameservers"),
        ("dns", json!({"domain": []}), "dns.domain"),
        ("dns", json!({"Search": [7]}), "dns.search[0]"),
        ("dns", json!({"options": {}}), "dns.options"),
    ]
}

#[test]
fn a_value_that_the_main_plugin_cannot_read_is_refused_before_anything_is_reserved() {
    let sandbox = Sandbox::default();
    for (key, value, place) in wrong_types() {
        let mut of_rules = sandbox.config("1.1.0", &RULES_CHAIN, &json!({}));
        of_rules["ipam"]["pools"] = json!({"a": {"subnet": "10.7.0.0/24", key: value}});
        of_rules["ipam"]["rules"] = json!([{"pools": ["a"]}]);
        let mut of_config = good(&sandbox);
        of_config["ipam"][key] = value;
        for (config, place) in [
            (of_rules, format!("ipam.pools.a.{place}")),
            (of_config, format!("ipam.{place}")),
        ] {
            // Nobody reads ipam.dns.
            if place.starts_with("ipam.dns") {
                continue;
            }
            for command in ["ADD", "STATUS"] {
                let call = sandbox.call("ipam-delegated", command, &config);
                gets(&sandbox, call, 7, &[&place]);
            }
            if place.starts_with("ipam.routes") {
                continue;
            }
            sandbox.write_conflist("10-test.conflist", &config);
            let checked = sandbox.ipamctl(&["check"]).run();
            assert!(!checked.status.success(), "{place}: {checked:?}");
            assert!(checked.stdout.contains(&place), "{place}: {checked:?}");
        }
    }
}

#[test]
fn a_delegates_result_that_the_main_plugin_cannot_read_is_refused_and_undone() {
    let ips = |key: &str, value: Value| {
        let mut ip = json!({"address": "10.1.0.9/24"});
        ip[key] = value;
        json!([ip])
    };
    let mut all = wrong_types();
    all.extend([
        ("ips", ips("address", json!("10.1.0.9")), "ips[0].address"),
        ("ips", ips("gateway", json!("x")), "ips[0].gateway"),
        ("ips", ips("interface", json!("eth0")), "ips[0].interface"),
        ("IPs", json!({}), "ips"),
        ("interfaces", json!([{"mac": 7}]), "interfaces[0].mac"),
        ("cniVersion", json!(1), "cniVersion"),
    ]);
    let body =
        r#"echo "$CNI_COMMAND" >> ${0%/*}/../calls; [ $CNI_COMMAND != ADD ] || echo "$RESULT""#;
    for names in [
        &["ipam-ds-ranges", "ipam-da-host-local", "other"][..],
        &["other", "ipam-ds-ranges", "ipam-da-host-local"],
    ] {
        let sandbox = Sandbox::default().with_script("other", body);
        let mut config = good(&sandbox);
        config["ipam"]["delegates"] = json!(names);
        for (key, value, place) in &all {
            let result = json!({"cniVersion": "1.1.0"}).to_string();
            let result = result.replace('}', &format!(",{key:?}:{value}}}"));
            let call = sandbox.call("ipam-delegated", "ADD", &config);
            let words = ["other: ", &format!("result.{place}")];
            gets(&sandbox, call.env("RESULT", result), 105, &words);
            assert!(sandbox.records("testnet").is_empty(), "{place}");
            let calls = fs::read_to_string(sandbox.root().join("calls")).unwrap();
            assert!(calls.ends_with("ADD\nDEL\n"), "{calls}");
        }
    }
}

#[test]
fn the_tools_read_what_add_has_accepted() {
    let sandbox = Sandbox::default();
    let mut config = sandbox.config(
        "1.1.0",
        &DELEGATES,
        &json!({"ranges": [[{"subnet": "10.7.0.0/24"}]]}),
    );
    config.as_object_mut().unwrap().remove("type");
    config["ipam"].as_object_mut().unwrap().remove("type");
    config["plugins"] = json!("none");
    assert_eq!(call(&sandbox, "ADD", &config).ips(), ["10.7.0.2"]);
    for words in [&["ls"][..], &["leaks"], &["gc"], &["metrics"]] {
        let output = sandbox.ipamctl(words).run();
        assert_ne!(output.status.code(), Some(2), "{words:?}: {output:?}");
        assert_eq!(output.stderr, "", "{words:?}");
    }
    let listed = sandbox.ipamctl(&["ls"]).run();
    listed.prints(["10.7.0.2"]);
    assert_eq!(sandbox.reserved("testnet"), ["10.7.0.2"]);
}
