//! Gateways: none of a call's pools is given, and a range may have none.

use harness::{RANGES_CHAIN, Sandbox};
use serde_json::{Value, json};

fn ips(sandbox: &Sandbox, config: &Value, containers: usize) -> Vec<Vec<String>> {
    let add = |i: usize| sandbox.run_for("ADD", &format!("c{i}"), config).ips();
    (0..containers).map(add).collect()
}

#[test]
fn a_gateway_of_one_range_is_given_from_no_other() {
    let sandbox = Sandbox::default();
    let first = json!({"subnet": "10.1.0.0/28", "rangeEnd": "10.1.0.5"});
    let second = json!({"subnet": "10.1.0.0/28", "rangeStart": "10.1.0.8", "gateway": "10.1.0.4"});
    for ranges in [json!([[&first], [&second]]), json!([[&second], [&first]])] {
        let config = sandbox.config("1.1.0", &RANGES_CHAIN, &json!({"ranges": ranges}));
        let given: Vec<String> = ips(&sandbox, &config, 3).concat();
        assert!(!given.contains(&"10.1.0.4".to_owned()), "{given:?}");
        let add = sandbox.run_for("ADD", "c3", &config);
        add.refused(11, "has no address left: all 3 are reserved");
        let asks = sandbox.chain_call("ADD", "asks", &config);
        let asked = asks.env("CNI_ARGS", "IP=10.1.0.4").run();
        asked.refused(7, "10.1.0.4 is the gateway of 10.1.0.0/28");
        for i in 0..3 {
            sandbox.run_for("DEL", &format!("c{i}"), &config).nothing();
        }
    }
    let one_set = json!({"ranges": [[&first, &second]]});
    let config = sandbox.config("1.1.0", &RANGES_CHAIN, &one_set);
    let given = ips(&sandbox, &config, 10).concat();
    assert!(!given.contains(&"10.1.0.4".to_owned()), "{given:?}");
}

#[test]
fn without_a_gateway_the_answer_has_none_and_a_link_gives_all_its_addresses() {
    for (subnet, given) in [
        ("10.1.0.0/30", &["10.1.0.1", "10.1.0.2"][..]),
        ("10.1.0.4/31", &["10.1.0.4", "10.1.0.5"]),
        ("10.1.0.7/32", &["10.1.0.7"]),
        ("fd00::4/127", &["fd00::4", "fd00::5"]),
        ("fd00::7/128", &["fd00::7"]),
    ] {
        let sandbox = Sandbox::default();
        let route = json!({"dst": "192.0.2.0/24"});
        let ipam = json!({"ranges": [[{"subnet": subnet, "gateway": "none"}]], "routes": [route]});
        let config = sandbox.config("1.1.0", &RANGES_CHAIN, &ipam);
        for (i, ip) in given.iter().enumerate() {
            let result = sandbox.run_for("ADD", &format!("c{i}"), &config).result();
            assert_eq!(harness::answer_of(&result), [*ip]);
            assert_eq!(result["ips"][0].get("gateway"), None);
            assert_eq!(result["routes"], json!([route]));
        }
        let full = format!("has no address left: all {} are reserved", given.len());
        sandbox.run_for("ADD", "full", &config).refused(11, &full);
    }
}

#[test]
fn a_range_without_a_gateway_is_refused_beside_a_bridge_that_takes_one() {
    let none = json!({"subnet": "10.1.0.0/24", "gateway": "none"});
    let of_ranges = (RANGES_CHAIN, json!({"ranges": [[none]]}), "ipam.ranges[0]");
    let rules = json!([{"pools": ["flat"]}]);
    let of_rules = (
        ["ipam-ds-rules", "ipam-da-host-local"],
        json!({"pools": {"flat": none}, "rules": rules}),
        "ipam.pools.flat",
    );
    let of_static = (
        ["ipam-ds-static", "ipam-da-host-local"],
        json!({"pools": [none]}),
        "prevResult.pools[0]",
    );
    for (chain, ipam, path) in [of_ranges, of_rules, of_static] {
        for key in ["isGateway", "isDefaultGateway"] {
            let sandbox = Sandbox::default();
            let mut config = sandbox.config("1.1.0", &chain, &ipam);
            config[key] = json!(true);
            let reason = format!("{path}: \"gateway\": \"none\" can't be beside {key}");
            sandbox.run("ADD", &config).refused(7, &reason);
            let status = sandbox.run("STATUS", &config);
            status.refused(7, &reason);
            config[key] = json!(false);
            sandbox.run("ADD", &config).result();
        }
    }
}

#[test]
fn a_pool_without_a_gateway_stops_no_network_that_has_no_rule_to_it() {
    let sandbox = Sandbox::default();
    let pools = json!({
        "web": {"subnet": "10.1.0.0/24"},
        "wire": {"subnet": "10.2.0.0/24", "gateway": "none"},
    });
    let rules = json!([{"when": {"network": "wire"}, "pools": ["wire"]}, {"pools": ["web"]}]);
    let chain = ["ipam-ds-rules", "ipam-da-host-local"];
    let mut config = sandbox.config("1.1.0", &chain, &json!({"pools": pools, "rules": rules}));
    config["isGateway"] = json!(true);
    sandbox.run("STATUS", &config).nothing();
    assert_eq!(sandbox.run("ADD", &config).ips(), ["10.1.0.2"]);
}

#[test]
fn tools_know_a_range_without_a_gateway() {
    let sandbox = Sandbox::default();
    let ipam = json!({"ranges": [[{"subnet": "10.1.0.0/30", "gateway": "none"}], [{"subnet": "10.2.0.0/31", "gateway": "none"}]]});
    let config = sandbox.config("1.0.0", &RANGES_CHAIN, &ipam);
    sandbox.write_conflist("10-testnet.conflist", &config);
    sandbox.run("ADD", &config).result();
    let pools = sandbox.ipamctl(&["pools", "--json"]).run().stdout;
    let pools: Value = serde_json::from_str(&pools).unwrap();
    let counts = |i: usize| [&pools[i]["size"], &pools[i]["reserved"], &pools[i]["free"]];
    assert_eq!(counts(0), [2, 1, 1]);
    assert_eq!(counts(1), [2, 1, 1]);
    let map = sandbox.ipamctl(&["map", "testnet"]).run().stdout;
    let rows: Vec<&str> = map.lines().filter(|line| line.starts_with("10.")).collect();
    assert!(
        rows[0].ends_with("█ ·") && rows[1].ends_with("█ ·"),
        "{map}"
    );
}
