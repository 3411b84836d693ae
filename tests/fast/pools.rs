//! Pools, from the configuration to the address: excluded addresses, IPv6 that looks like IPv4,
//! and ten thousand pools.

use harness::Sandbox;
use serde_json::{Value, json};

fn add(sandbox: &Sandbox, container: &str, ipam: &Value) -> Vec<String> {
    let delegates = ["ipam-ds-ranges", "ipam-da-host-local"];
    let config = sandbox.config("1.0.0", &delegates, ipam);
    let call = sandbox.call("ipam-delegated", "ADD", &config);
    call.container(container).run().ips()
}

#[test]
fn an_excluded_address_is_given_on_request_only() {
    let sandbox = Sandbox::default();
    let excluded = json!(["10.1.0.3", "10.1.0.5-10.1.0.6"]);
    let ipam = json!({"ranges": [[{"subnet": "10.1.0.0/29", "exclude": excluded}]]});
    assert_eq!(add(&sandbox, "a", &ipam), ["10.1.0.2"]);
    assert_eq!(add(&sandbox, "b", &ipam), ["10.1.0.4"]);

    let delegates = ["ipam-ds-ranges", "ipam-da-host-local"];
    let mut config = sandbox.config("1.1.0", &delegates, &ipam);
    let call = |command: &str, config: &Value| sandbox.call("ipam-delegated", command, config);
    let error = call("STATUS", &config).run().error();
    assert_eq!(error["code"], 50);
    assert!(
        error["msg"]
            .as_str()
            .unwrap()
            .ends_with("all 2 are reserved, 3 are excluded"),
        "{error}"
    );

    config["args"] = json!({"cni": {"ips": ["10.1.0.6"]}});
    let requested = call("ADD", &config).container("c").run();
    assert_eq!(requested.ips(), ["10.1.0.6"]);
    // The rotation continues after it.
    call("DEL", &config).container("b").run().nothing();
    assert_eq!(add(&sandbox, "d", &ipam), ["10.1.0.4"]);
}

#[test]
fn a_pool_across_the_ipv4_mapped_addresses_gives_ipv6() {
    let sandbox = Sandbox::default();
    let ipam = json!({"ranges": [[
        {"subnet": "::/64", "rangeStart": "::fffe:ffff:ffff", "rangeEnd": "::ffff:0:1"}
    ]]});
    let given = ["::fffe:ffff:ffff", "::ffff:0.0.0.0", "::ffff:0.0.0.1"];
    for (container, ip) in ["a", "b", "c"].iter().zip(given) {
        assert_eq!(add(&sandbox, container, &ipam), [ip]);
    }
    assert_eq!(sandbox.reserved("testnet").len(), 3);

    let delegates = ["ipam-ds-ranges", "ipam-da-host-local"];
    let mut config = sandbox.config("1.1.0", &delegates, &ipam);
    config["prevResult"] = json!({"ips": [{"address": "::ffff:0.0.0.0/64"}]});
    let call = |command: &str, container: &str| {
        let call = sandbox.call("ipam-delegated", command, &config);
        call.container(container).run()
    };
    call("CHECK", "b").nothing();
    assert_eq!(call("STATUS", "b").code(), 50);
    call("DEL", "b").nothing();
    config["runtimeConfig"] = json!({"ips": ["::ffff:0.0.0.0"]});
    let requested = sandbox.call("ipam-delegated", "ADD", &config);
    let result = requested.container("d").run().result();
    assert_eq!(result["ips"][1]["address"], "::ffff:0.0.0.0/64");
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
