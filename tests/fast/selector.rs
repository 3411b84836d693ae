//! `ipam-ds-ranges` without a chain: from host-local's configuration to pools.

use harness::Sandbox;
use serde_json::{Value, json};

fn config(sandbox: &Sandbox, ipam: &Value) -> Value {
    let mut config = sandbox.config("1.1.0", &[], ipam);
    config["cni.dev/valid-attachments"] = json!([]);
    config
}

#[test]
fn pools_follow_one_order_and_keep_unknown_keys() {
    let sandbox = Sandbox::default();
    let mut config = config(
        &sandbox,
        &json!({
            "subnet": "10.2.0.0/24", "gateway": "10.2.0.254",
            "ranges": [[{"subnet": "10.3.0.0/24", "vlan": 7}, {"subnet": "10.4.0.0/24"}]]
        }),
    );
    config["runtimeConfig"] = json!({"ipRanges": [[{"subnet": "10.1.0.0/24"}]]});
    config["prevResult"] = json!({});
    for command in ["ADD", "DEL", "CHECK", "GC", "STATUS"] {
        assert_eq!(
            sandbox
                .call("ipam-ds-ranges", command, &config)
                .run()
                .result(),
            json!({
                "cniVersion": "1.1.0", "ips": [], "routes": [], "dns": {},
                "pools": [
                    {"ranges": [{"subnet": "10.1.0.0/24"}]},
                    {"ranges": [{"subnet": "10.2.0.0/24", "gateway": "10.2.0.254"}]},
                    {"ranges": [{"subnet": "10.3.0.0/24", "vlan": 7}, {"subnet": "10.4.0.0/24"}]},
                ]
            }),
            "{command}"
        );
    }
}

#[test]
fn the_pools_of_an_earlier_delegate_stay() {
    let sandbox = Sandbox::default();
    let mut config = config(&sandbox, &json!({"subnet": "10.2.0.0/24"}));
    config["prevResult"] = json!({
        "cniVersion": "1.1.0",
        "interfaces": [{"name": "eth0"}],
        "ips": [{"address": "192.0.2.5/24", "interface": 0}],
        "routes": [{"dst": "192.0.2.0/24", "mtu": 1400}],
        "dns": {"domain": "example", "other": true},
        "pools": [{"name": "earlier", "subnet": "10.9.0.0/24", "x": 1}],
        "job": 17
    });
    let mut expected = config["prevResult"].clone();
    expected["pools"] = json!([
        {"name": "earlier", "subnet": "10.9.0.0/24", "x": 1},
        {"ranges": [{"subnet": "10.2.0.0/24"}]}
    ]);
    assert_eq!(
        sandbox
            .call("ipam-ds-ranges", "ADD", &config)
            .run()
            .result(),
        expected
    );
}

#[test]
fn each_request_goes_to_the_pool_that_contains_it() {
    let sandbox = Sandbox::default();
    let mut config = config(
        &sandbox,
        &json!({"ranges": [
            [{"subnet": "10.1.0.0/24"}],
            [{"subnet": "10.2.0.0/24"}],
            [{"subnet": "fd00::/64"}],
            [{"subnet": "10.4.0.0/24"}],
        ]}),
    );
    config["args"] = json!({"cni": {"ips": ["10.2.0.9/24"]}});
    config["runtimeConfig"] = json!({"ips": ["fd00::0:9", "10.2.0.9"]});
    let output = sandbox
        .call("ipam-ds-ranges", "ADD", &config)
        .env("CNI_ARGS", "IgnoreUnknown=1;K8S_POD_NAME=p;IP=10.1.0.9")
        .run();
    let pools = output.result()["pools"].clone();
    let requested: Vec<&Value> = pools
        .as_array()
        .unwrap()
        .iter()
        .map(|p| &p["requested-ip"])
        .collect();
    assert_eq!(
        requested,
        [
            &json!("10.1.0.9"),
            &json!("10.2.0.9"),
            &json!("fd00::9"),
            &Value::Null
        ]
    );
}

#[test]
fn a_request_that_no_pool_serves_any_more_does_not_stop_a_del() {
    let sandbox = Sandbox::default();
    let mut config = config(&sandbox, &json!({"subnet": "10.1.0.0/24"}));
    config["runtimeConfig"] = json!({"ips": ["10.9.0.9"]});
    let result = sandbox
        .call("ipam-ds-ranges", "DEL", &config)
        .run()
        .result();
    assert_eq!(
        result["pools"],
        json!([{"ranges": [{"subnet": "10.1.0.0/24"}]}])
    );
}

#[test]
fn unreadable_ranges_are_a_warning_on_del_and_gc_and_an_error_otherwise() {
    let sandbox = Sandbox::default();
    let unreadable_ranges = config(&sandbox, &json!({"ranges": [[{"subnet": "10.1.0.9/24"}]]}));
    let mut unreadable_result = config(&sandbox, &json!({"subnet": "10.1.0.0/24"}));
    unreadable_result["prevResult"] = json!({"ips": [{"address": "somewhere"}]});
    for (config, word) in [
        (unreadable_ranges, "10.1.0.9/24"),
        (unreadable_result, "somewhere"),
    ] {
        let call = |command| sandbox.call("ipam-ds-ranges", command, &config).run();
        for command in ["DEL", "GC"] {
            let output = call(command);
            output.nothing();
            assert!(output.stderr.contains("WARN"), "{output:?}");
            assert!(output.stderr.contains(word), "{output:?}");
        }
        for command in ["ADD", "CHECK", "STATUS"] {
            assert_eq!(call(command).error()["code"], 7, "{command}");
        }
    }
}

#[test]
fn del_of_nothing_by_a_chain_with_unreadable_ranges_succeeds_with_a_warning() {
    let sandbox = Sandbox::default();
    let delegates = ["ipam-ds-ranges", "ipam-da-host-local"];
    for ipam in [json!({}), json!({"ranges": [[{"subnet": "x"}]]})] {
        let config = sandbox.config("1.0.0", &delegates, &ipam);
        let output = sandbox.call("ipam-delegated", "DEL", &config).run();
        output.nothing();
        assert!(output.stderr.contains("ipam.ranges"), "{output:?}");
    }
}

#[test]
fn check_without_prev_result_is_refused_by_every_plugin() {
    let sandbox = Sandbox::default();
    let delegates = ["ipam-ds-ranges", "ipam-da-host-local"];
    let config = sandbox.config("1.0.0", &delegates, &json!({"subnet": "10.1.0.0/24"}));
    for plugin in ["ipam-ds-ranges", "ipam-da-host-local", "ipam-delegated"] {
        let error = sandbox.call(plugin, "CHECK", &config).run().error();
        assert_eq!(error["code"], 7, "{plugin}: {error}");
        let msg = error["msg"].as_str().unwrap();
        assert!(msg.contains("prevResult is missing"), "{plugin}: {error}");
    }
}

#[test]
fn keys_that_only_go_would_understand_are_refused() {
    let sandbox = Sandbox::default();
    let config = config(
        &sandbox,
        &json!({"ranges": [[{"subnet": "10.1.0.0/24", "RangeStart": "10.1.0.9"}]]}),
    );
    let error = sandbox.call("ipam-ds-ranges", "ADD", &config).run().error();
    assert_eq!(
        error["msg"],
        "ipam.ranges[0][0].RangeStart: write it as rangeStart"
    );
}
