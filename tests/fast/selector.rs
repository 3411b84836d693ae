//! `ipam-ds-ranges` without a chain: from host-local's configuration to pools.

use harness::{RANGES_CHAIN, Sandbox};
use serde_json::{Value, json};

fn config(sandbox: &Sandbox, ipam: &Value) -> Value {
    let mut config = sandbox.config("1.1.0", &[], ipam);
    config["cni.dev/valid-attachments"] = json!([]);
    config
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
            output.warns(["WARN", word]);
        }
        for command in ["ADD", "CHECK", "STATUS"] {
            assert_eq!(call(command).error()["code"], 7, "{command}");
        }
    }
}

#[test]
fn check_without_prev_result_is_refused_by_every_plugin() {
    let sandbox = Sandbox::default();
    let config = sandbox.config("1.0.0", &RANGES_CHAIN, &json!({"subnet": "10.1.0.0/24"}));
    for plugin in ["ipam-ds-ranges", "ipam-da-host-local", "ipam-delegated"] {
        sandbox
            .call(plugin, "CHECK", &config)
            .run()
            .refused(7, "prevResult is missing");
    }
}

/// A comparison of all pairs took a minute and a half.
#[test]
fn ten_thousand_range_sets_yield_ten_thousand_pools_and_an_overlap_is_found() {
    let sandbox = Sandbox::default();
    let subnet = |i: usize| format!("10.{}.{}.0/24", i / 256, i % 256);
    let mut sets: Vec<Value> = (0..10_000)
        .map(|i| json!([{ "subnet": subnet(i) }]))
        .collect();
    let select = |sets: &[Value]| {
        let config = sandbox.config("1.0.0", &[], &json!({ "ranges": sets }));
        sandbox.call("ipam-ds-ranges", "ADD", &config).run()
    };
    let selected = select(&sets).result();
    assert_eq!(selected["pools"].as_array().unwrap().len(), 10_000);

    let mut config = sandbox.config("1.1.0", &[], &json!({}));
    config["prevResult"] = selected;
    let status = sandbox.call("ipam-da-host-local", "STATUS", &config);
    status.run().nothing();

    sets.push(json!([{"subnet": "10.9.8.128/25"}]));
    assert_eq!(
        select(&sets).error()["msg"],
        "ipam.ranges[10000]: 10.9.8.129-10.9.8.254 overlaps 10.9.8.1-10.9.8.254 of ipam.ranges[2312]"
    );
}
