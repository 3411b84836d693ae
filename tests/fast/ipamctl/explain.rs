//! `explain` names the rule and its pools, and reserves nothing.

use std::fs;

use harness::Sandbox;
use serde_json::json;

use super::{json_of, network, status};

#[test]
fn the_pools_of_the_selector_are_shown_and_a_request_that_no_pool_has_is_a_refusal() {
    let sandbox = Sandbox::default();
    network(&sandbox);
    let conflist = sandbox.conf_dir().join("10-testnet.conflist");
    let file = conflist.to_str().unwrap();
    let explained = json_of(&sandbox, &["explain", file, "IP=10.77.0.70"]);
    let pool = json!({"ranges": [{"subnet": "10.77.0.0/24", "exclude": ["10.77.0.64/28"]}],
                      "requested-ip": "10.77.0.70"});
    assert_eq!(explained["pools"], json!([pool]));
    assert_eq!(sandbox.reserved("testnet"), [""; 0]);
    let output = sandbox.ipamctl(&["explain", file, "IP=nowhere"]).run();
    assert_eq!(status(&output), Some(2), "{output:?}");
    assert!(output.stderr.contains("would be refused"), "{output:?}");
}

#[test]
fn the_rule_that_decides_is_named_with_its_pools() {
    let sandbox = Sandbox::default();
    let folder = sandbox.root().join("ipam.d");
    fs::create_dir(&folder).unwrap();
    let rest = json!({"pools": {"rest": {"subnet": "10.2.0.0/24"}},
                      "rules": [{"pools": ["rest"], "sticky": "${containerID}"}]});
    fs::write(folder.join("99-rest.json"), rest.to_string()).unwrap();
    let ipam = json!({
        "pools": {"web": {"subnet": "10.1.0.0/24"}},
        "rules": [
            {"when": {"K8S_POD_NAMESPACE": ["shop", "web-*"]}, "pools": ["web"]},
            {"when": {"label:tier": {"not": "db"}, "K8S_POD_NAME": "x"}, "pools": ["web"]},
            {"when": {"annotation:ipam/pool": "web"}, "pools": ["${annotation:ipam/pool}"]},
        ],
        "poolsDir": folder,
    });
    let config = sandbox.config("1.0.0", &["ipam-ds-rules", "ipam-da-host-local"], &ipam);
    sandbox.write_conflist("10-testnet.conflist", &config);
    let conflist = sandbox.conf_dir().join("10-testnet.conflist");
    let file = conflist.to_str().unwrap();
    let words = [
        "explain",
        file,
        "K8S_POD_NAMESPACE=prod",
        "label:tier=db",
        "containerID=c1",
    ];
    let explained = json_of(&sandbox, &words);
    let last = format!("{}: rules[0]", folder.join("99-rest.json").display());
    assert_eq!(explained["rule"], last);
    assert_eq!(explained["pools"][0]["name"], "rest");
    assert_eq!(explained["pools"][0]["sticky"], "c1");
    let annotated = json_of(&sandbox, &["explain", file, "annotation:ipam/pool=web"]);
    assert_eq!(annotated["rule"], "ipam.rules[2]");
    // All pools of the catalogue are listed, even unused ones.
    let rows = json_of(&sandbox, &["pools"]);
    let pools = rows.as_array().unwrap().iter();
    let names: Vec<&str> = pools.filter_map(|pool| pool["pool"].as_str()).collect();
    assert_eq!(names, ["rest", "web"]);
}
