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
    for (ipam, words) in [
        (json!({}), ["ipam.ranges", "missing"]),
        (json!({"ranges": []}), ["ipam.ranges", "empty"]),
        (
            json!({"ranges": "10.7.0.0/24"}),
            ["ipam.ranges", "\"10.7.0.0/24\""],
        ),
        (
            json!({"ranges": [[{}]]}),
            ["ipam.ranges[0][0].subnet", "missing"],
        ),
        (
            json!({"ranges": [[{"subnet": "10.7.0.9/24"}]]}),
            ["ipam.ranges[0][0].subnet", "10.7.0.9/24"],
        ),
        (
            json!({"subnet": "10.7.0.0/24", "rangeStart": "x"}),
            ["ipam.rangeStart", "\"x\""],
        ),
        (
            json!({"ranges": [[{"subnet": "10.7.0.0/24", "exclude": ["10.7.0.0-9"]}]]}),
            ["ipam.ranges[0][0].exclude[0]", "10.7.0.0-9"],
        ),
        (
            json!({"subnet": "10.7.0.0/24", "ranges": [[{"subnet": "10.7.0.128/25"}]]}),
            ["ipam.ranges[0]", "10.7.0.129-10.7.0.254"],
        ),
    ] {
        let config = sandbox.config("1.1.0", &DELEGATES, &ipam);
        for (plugin, prefix) in [
            ("ipam-ds-ranges", ""),
            ("ipam-delegated", "ipam-ds-ranges: "),
        ] {
            let first = format!("{prefix}{}", words[0]);
            gets(
                &sandbox,
                sandbox.call(plugin, "ADD", &config),
                7,
                &[&first, words[1]],
            );
        }
    }
}

#[test]
fn a_key_that_occurs_twice_in_a_range_is_refused_by_selector_and_allocator() {
    let sandbox = Sandbox::default();
    let twice = r#"{"subnet":"10.7.0.0/24","subnet":"10.8.0.0/24"}"#;
    let config = serde_json::to_string(&good(&sandbox)).unwrap();
    let own = config.replace(r#"{"subnet":"10.7.0.0/24"}"#, twice);
    assert_ne!(own, config);
    let handed = config.replace(r#""ips":[]"#, &format!(r#""ips":[],"pools":[{twice}]"#));
    assert_ne!(handed, config);
    for (plugin, stdin, key) in [
        ("ipam-ds-ranges", &own, "ipam.ranges[0][0].subnet"),
        ("ipam-delegated", &own, "ipam.ranges[0][0].subnet"),
        ("ipam-da-host-local", &handed, "prevResult.pools[0].subnet"),
    ] {
        let call = sandbox.call(plugin, "ADD", &Value::Null);
        let call = call.stdin(stdin.clone().into_bytes());
        gets(&sandbox, call, 7, &[key, "twice"]);
    }
}

#[test]
fn an_invalid_range_of_the_runtime_is_refused() {
    let sandbox = Sandbox::default();
    for (ranges, words) in [
        (
            json!([[{"subnet": "10.9.0.1/24"}]]),
            ["runtimeConfig.ipRanges[0][0].subnet", "10.9.0.1/24"],
        ),
        (
            json!([[{"subnet": "10.7.0.0/16"}]]),
            ["ipam.ranges[0]", "runtimeConfig.ipRanges[0]"],
        ),
    ] {
        let mut config = good(&sandbox);
        config["runtimeConfig"] = json!({"ipRanges": ranges});
        gets(
            &sandbox,
            sandbox.call("ipam-delegated", "ADD", &config),
            7,
            &words,
        );
    }
}

#[test]
fn a_request_that_no_pool_serves_is_refused() {
    let sandbox = Sandbox::default();
    let call = |key: &str, ips: Value| {
        let mut config = good(&sandbox);
        match key {
            "args.cni.ips" => config["args"] = json!({"cni": {"ips": ips}}),
            _ => config["runtimeConfig"] = json!({"ips": ips}),
        }
        sandbox.call("ipam-delegated", "ADD", &config)
    };
    for key in ["args.cni.ips", "runtimeConfig.ips"] {
        for (ips, element, value) in [
            (json!(["10.8.0.5"]), "[0]", "10.8.0.5"),
            (json!(["10.7.0.5", "10.7.0.6"]), "[1]", "10.7.0.6"),
            (json!(["10.7.0.5", "fd00::5"]), "[1]", "fd00::5"),
            (json!(["x"]), "[0]", "\"x\""),
            (json!([""]), "[0]", "\"\""),
            (json!([5]), "[0]", "`5`"),
        ] {
            gets(
                &sandbox,
                call(key, ips),
                7,
                &[&format!("{key}{element}"), value],
            );
        }
        gets(&sandbox, call(key, json!("10.7.0.5")), 7, &[key]);
        // The gateway is in the pool, but is never given.
        gets(
            &sandbox,
            call(key, json!(["10.7.0.1"])),
            7,
            &["10.7.0.1", "gateway"],
        );
    }
    let config = good(&sandbox);
    let call = sandbox
        .call("ipam-delegated", "ADD", &config)
        .env("CNI_ARGS", "IP=10.8.0.5");
    gets(&sandbox, call, 7, &["CNI_ARGS", "10.8.0.5"]);
}

#[test]
fn an_allocator_refuses_invalid_pools_routes_and_paths() {
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
    let pool = json!([{"subnet": "10.7.0.0/24"}]);
    let missing = ["prevResult.pools", "missing"];
    gets(&sandbox, add(&[]), 7, &missing);
    gets(&sandbox, add(&[("pools", json!([]))]), 7, &missing);
    gets(
        &sandbox,
        add(&[("pools", json!({}))]),
        7,
        &["prevResult.pools", "map"],
    );
    gets(
        &sandbox,
        add(&[("pools", json!([{}]))]),
        7,
        &["prevResult.pools[0].ranges"],
    );
    for name in ["", "../x", "a/b", "."] {
        let pools = json!([{"name": name, "subnet": "10.7.0.0/24"}]);
        gets(
            &sandbox,
            add(&[("pools", pools)]),
            7,
            &["prevResult.pools[0].name", name],
        );
    }
    let overlapping = json!([{"subnet": "10.7.0.0/24"}, {"subnet": "10.7.0.0/25"}]);
    gets(
        &sandbox,
        add(&[("pools", overlapping)]),
        7,
        &["prevResult.pools[1]", "overlaps"],
    );
    let routes = ("ipam.routes", json!([{"dst": "x"}]));
    let call = add(&[("pools", pool.clone()), routes]);
    gets(&sandbox, call, 7, &["ipam.routes[0].dst: \"x\""]);
    let call = add(&[
        ("pools", pool.clone()),
        ("ipam.resolvConf", json!("/nowhere/resolv.conf")),
    ]);
    gets(
        &sandbox,
        call,
        5,
        &["ipam.resolvConf", "/nowhere/resolv.conf"],
    );
    let call = add(&[("pools", pool.clone()), ("ipam.dataDir", json!(5))]);
    gets(&sandbox, call, 7, &["ipam.dataDir", "`5`"]);
    let file = sandbox.root().join("a-file");
    fs::write(&file, "").unwrap();
    let call = add(&[("pools", pool), ("ipam.dataDir", json!(file))]);
    gets(&sandbox, call, 5, &[file.to_str().unwrap()]);
}
