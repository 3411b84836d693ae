//! Replicas, overflow, pools by node: the examples of the page, and what each promises.

use std::fs;

use harness::{Output, RULES_CHAIN, Sandbox, blocks, document};
use serde_json::{Value, json};

/// A sandbox and a configuration whose `poolsDir` has the block of the page with this text.
fn example(text: &str) -> (Sandbox, Value) {
    let sandbox = Sandbox::default();
    let folder = sandbox.root().join("ipam.d");
    fs::create_dir(&folder).unwrap();
    let mut examples = blocks(&document("docs/choosing-pools.md"), "json");
    examples.retain(|block| block.contains(text));
    let [example] = &examples[..] else {
        panic!("{text}: {examples:?}");
    };
    fs::write(folder.join("10.json"), example).unwrap();
    let config = sandbox.config("1.1.0", &RULES_CHAIN, &json!({"poolsDir": folder}));
    (sandbox, config)
}

fn add(sandbox: &Sandbox, config: &Value, namespace: &str, pod: &str) -> Output {
    sandbox.run_for_pod("ADD", config, namespace, pod)
}

#[test]
fn each_replica_has_the_address_of_its_number_and_nobody_else_one_of_the_range() {
    let (sandbox, config) = example("\"index\"");
    sandbox.run("STATUS", &config).nothing();
    let add = |pod: &str| add(&sandbox, &config, "shop", pod);
    assert_eq!(add("db-3").ips(), ["10.86.0.23"]);
    assert_eq!(add("db-0").ips(), ["10.86.0.20"]);
    let others: Vec<String> = (0..30)
        .flat_map(|i| add(&format!("web-{i}")).ips())
        .collect();
    assert!(others.contains(&"10.86.0.19".to_owned()));
    assert!(others.contains(&"10.86.0.40".to_owned()));
    let is_pinned = |ip: &String| ip.starts_with("10.86.0.2") && ip.len() == 10;
    assert!(!others.iter().any(is_pinned), "{others:?}");
    add("db-20").refused(7, "\"db-20\": number 20 is beyond 10.86.0.20-10.86.0.39");
    add("db-x2x47").refused(7, "\"db-x2x47\" neither is nor ends in -NUMBER");
    // A second container with a replica's name, and one that asks for a replica's address.
    let twice = sandbox
        .pod_call("ADD", &config, "shop", "db-3")
        .container("again");
    twice
        .run()
        .refused(111, "is reserved already to shop-db-3 eth0");
    let mut asks = config.clone();
    asks["args"] = json!({"cni": {"ips": ["10.86.0.30/24"]}});
    let asked = sandbox.run_for_pod("ADD", &asks, "lab", "x");
    asked.refused(111, "10.86.0.30 of pool db is pinned by another rule");
    sandbox
        .run_for_pod("DEL", &config, "shop", "db-3")
        .nothing();
    assert_eq!(add("db-3").ips(), ["10.86.0.23"]);
}

#[test]
fn a_full_pool_overflows_into_the_next_and_all_are_counted_when_they_are_full() {
    let (sandbox, mut config) = example("\"spare\"");
    // The page's spare pool is larger.
    let file = sandbox.root().join("ipam.d/10.json");
    let page = fs::read_to_string(&file).unwrap();
    fs::write(&file, page.replace("10.87.1.0/24", "10.87.1.0/29")).unwrap();
    let add = |namespace: &str, pod: &str, config: &Value| add(&sandbox, config, namespace, pod);
    let shop: Vec<String> = (0..6)
        .flat_map(|i| add("shop", &format!("p{i}"), &config).ips())
        .collect();
    assert_eq!(shop[..2], ["10.87.0.2", "10.87.0.3"]);
    assert_eq!(shop[4..], ["10.87.0.6", "10.87.1.2"]);
    // A request may be in any of the pools.
    let mut requests = config.clone();
    requests["args"] = json!({"cni": {"ips": ["10.87.1.6"]}});
    assert_eq!(add("shop", "asks", &requests).ips(), ["10.87.1.6"]);
    add("shop", "again", &requests).refused(111, "10.87.1.6, requested of pool spare");
    // Another rule overflows into the same pool.
    let lab: Vec<String> = (0..8)
        .flat_map(|i| add("lab", &format!("p{i}"), &config).ips())
        .collect();
    assert_eq!(lab[5..], ["10.87.1.3", "10.87.1.4", "10.87.1.5"]);
    let full = "pool shop (10.87.0.1-10.87.0.6) has no address left: all 5 are reserved; \
        pool spare (10.87.1.1-10.87.1.6) has no address left: all 5 are reserved";
    add("shop", "p6", &config).refused(11, full);
    sandbox.run_for_pod("DEL", &config, "shop", "p5").nothing();
    assert_eq!(add("shop", "p6", &config).ips(), ["10.87.1.2"]);
    let result = add("shop", "p7", &config).error();
    assert_eq!(result["code"], 11);
    let mut check = config.clone();
    check["prevResult"] = json!({"cniVersion": "1.1.0", "ips": [{"address": "10.87.1.2/29"}]});
    sandbox.run_for_pod("CHECK", &check, "shop", "p6").nothing();
    // Without records, DEL finds the addresses in the pools' directories.
    fs::remove_dir_all(sandbox.state_dir()).unwrap();
    for (namespace, pods) in [("shop", 7), ("lab", 8)] {
        for pod in 0..pods {
            let call = sandbox.pod_call("DEL", &config, namespace, &format!("p{pod}"));
            call.run().nothing();
        }
    }
    assert_eq!(sandbox.reserved("pools"), ["10.87.1.6"]);
    config["cni.dev/valid-attachments"] = json!([]);
    sandbox.run("GC", &config).nothing();
    assert_eq!(sandbox.reserved("pools"), [""; 0]);
}

/// Also if the pools have different spaces, and one of them no name.
#[test]
fn the_answer_has_the_routes_and_the_dns_of_the_pool_that_yielded_the_address() {
    let sandbox = Sandbox::default();
    let pool = |subnet: &str, via: &str| json!({"subnet": subnet, "routes": [{"dst": "10.0.0.0/8", "gw": via}], "dns": {"nameservers": [via]}});
    let mut first = pool("10.1.0.0/30", "10.1.0.1");
    first["space"] = json!("red");
    first["or"] = json!([
        pool("10.2.0.0/30", "10.2.0.1"),
        pool("10.3.0.0/30", "10.3.0.1")
    ]);
    let ipam = json!({"pools": [first], "routes": [{"dst": "0.0.0.0/0"}]});
    let config = sandbox.config("1.1.0", &["ipam-ds-static", "ipam-da-host-local"], &ipam);
    for i in 1..4 {
        let result = sandbox.run_for("ADD", &format!("c{i}"), &config).result();
        assert_eq!(result["ips"][0]["address"], format!("10.{i}.0.2/30"));
        let gw = format!("10.{i}.0.1");
        assert_eq!(result["ips"][0]["gateway"], gw);
        let routes = json!([{"dst": "10.0.0.0/8", "gw": gw}, {"dst": "0.0.0.0/0"}]);
        assert_eq!(
            (&result["routes"], &result["dns"]),
            (&routes, &json!({"nameservers": [gw]}))
        );
    }
    assert_eq!(sandbox.reserved("red"), ["10.1.0.2"]);
    assert_eq!(sandbox.reserved("testnet"), ["10.2.0.2", "10.3.0.2"]);
    for i in 1..4 {
        sandbox.run_for("DEL", &format!("c{i}"), &config).nothing();
    }
    assert_eq!(
        (sandbox.reserved("red"), sandbox.reserved("testnet")),
        (vec![], vec![])
    );
}

#[test]
fn each_rack_has_its_pool() {
    let (sandbox, mut config) = example("\"rack7\"");
    for (node, subnet) in [("r7-3", "10.85.7."), ("r8-1", "10.85.8.")] {
        config["ipam"]["node"] = json!(node);
        let ips = add(&sandbox, &config, "shop", node).ips();
        assert!(ips[0].starts_with(subnet), "{node}: {ips:?}");
    }
    config["ipam"]["node"] = json!("r9-1");
    add(&sandbox, &config, "shop", "x").refused(7, "node=\"r9-1\"");
}
