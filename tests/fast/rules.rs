//! `ipam-ds-rules`: pools by facts about a container.

use std::fs;

use harness::Sandbox;
use serde_json::{Value, json};

mod files;

const CHAIN: [&str; 2] = ["ipam-ds-rules", "ipam-da-host-local"];

fn catalogue() -> Value {
    json!({
        "pools": {
            "web": {"subnet": "10.20.0.0/24", "routes": [{"dst": "10.0.0.0/8"}]},
            "web6": {"subnet": "fd00:20::/64"},
            "db": {"ranges": [{"subnet": "10.30.0.0/24"}, {"subnet": "10.31.0.0/24"}],
                   "dns": {"nameservers": ["10.30.0.2"]}},
            "rest": {"subnet": "10.99.0.0/16"},
        },
        "rules": [
            {"when": {"K8S_POD_NAMESPACE": "prod", "K8S_POD_NAME": "db-*"}, "pools": ["db"]},
            {"when": {"K8S_POD_NAMESPACE": ["prod", "stage"]}, "pools": ["web", "web6"]},
            {"when": {"annotation:ipam/pool": ["web", "db"]}, "pools": ["${annotation:ipam/pool}"]},
            {"when": {"label:tier": {"not": ["x", null]}}, "pools": ["web"]},
            {"pools": ["rest"]},
        ],
        "routes": [{"dst": "0.0.0.0/0"}],
    })
}

#[test]
fn each_pod_gets_addresses_of_the_pools_of_its_rule() {
    let sandbox = Sandbox::default();
    let config = sandbox.config("1.1.0", &CHAIN, &catalogue());
    let add = |namespace: &str, pod: &str| {
        let output = sandbox.pod_call("ADD", &config, namespace, pod).run();
        output.result()
    };
    let db = add("prod", "db-0");
    assert_eq!(harness::answer_of(&db), ["10.30.0.2"]);
    assert_eq!(db["dns"], json!({"nameservers": ["10.30.0.2"]}));
    assert_eq!(db["routes"], json!([{"dst": "0.0.0.0/0"}]));
    assert_eq!(db.get("pools"), None);
    let web = add("stage", "api");
    assert_eq!(harness::answer_of(&web), ["10.20.0.2", "fd00:20::2"]);
    assert_eq!(
        web["routes"],
        json!([{"dst": "10.0.0.0/8"}, {"dst": "0.0.0.0/0"}])
    );
    assert_eq!(harness::answer_of(&add("dev", "x")), ["10.99.0.2"]);

    let mut annotated = config.clone();
    annotated["runtimeConfig"] =
        json!({"io.kubernetes.cri.pod-annotations": {"ipam/pool": "db", "other": "y"}});
    let output = sandbox.pod_call("ADD", &annotated, "dev", "y").run();
    assert_eq!(output.ips(), ["10.30.0.3"]);
    let mut labelled = config.clone();
    labelled["args"] = json!({"cni": {"labels": [{"key": "tier", "value": "front"}]}});
    let output = sandbox.pod_call("ADD", &labelled, "dev", "z").run();
    assert_eq!(output.ips(), ["10.20.0.3"]);

    assert_eq!(sandbox.reserved("pools").len(), 6);
    for (namespace, pod) in [
        ("prod", "db-0"),
        ("stage", "api"),
        ("dev", "x"),
        ("dev", "y"),
        ("dev", "z"),
    ] {
        sandbox
            .pod_call("DEL", &config, namespace, pod)
            .run()
            .nothing();
    }
    assert_eq!(sandbox.reserved("pools"), [""; 0]);
}

#[test]
fn what_was_chosen_on_add_counts_until_del() {
    // The runtime's arguments, other annotations, rules and the catalogue don't matter then.
    let edited = json!({"io.kubernetes.cri.pod-annotations": {"ipam/pool": "web"}});
    let sandbox = Sandbox::default();
    let mut config = sandbox.config("1.1.0", &CHAIN, &catalogue());
    config["runtimeConfig"] = json!({"io.kubernetes.cri.pod-annotations": {"ipam/pool": "db"}});
    let mut changed = config.clone();
    changed["runtimeConfig"] = edited;
    let mut unruled = config.clone();
    unruled["ipam"]["rules"] = json!([{"when": {"X": "y"}, "pools": ["web"]}]);
    let mut broken = config.clone();
    broken["ipam"]["pools"] = json!(7);
    for (i, today) in [&changed, &unruled, &broken, &config]
        .into_iter()
        .enumerate()
    {
        for with_record in [true, false] {
            for command in ["DEL", "GC"] {
                let pod = format!("p{i}");
                let added = sandbox.pod_call("ADD", &config, "dev", &pod).run().result();
                assert_eq!(sandbox.reserved("pools").len(), 1);
                if !with_record {
                    fs::remove_dir_all(sandbox.state_dir()).unwrap();
                }
                let mut later = today.clone();
                later["prevResult"] = added;
                let run = |command: &str, config: &Value| {
                    let call = sandbox.call("ipam-delegated", command, config);
                    call.container(&format!("dev-{pod}")).run()
                };
                // CHECK of its earlier choice succeeds without a readable catalogue.
                run("CHECK", &later).nothing();
                later["cni.dev/valid-attachments"] = json!([]);
                run(command, &later).nothing();
                assert_eq!(sandbox.reserved("pools"), [""; 0], "{command} {today}");
                assert_eq!(sandbox.records("testnet"), [""; 0]);
            }
        }
    }
}

#[test]
fn both_addresses_are_released_though_one_pool_is_another_today_and_no_record_is_left() {
    let sandbox = Sandbox::default();
    let mut config = sandbox.config("1.1.0", &CHAIN, &catalogue());
    config["ipam"]["rules"] = json!([{"pools": ["web", "${annotation:p}"]}]);
    config["runtimeConfig"] = json!({"io.kubernetes.cri.pod-annotations": {"p": "db"}});
    let added = sandbox.pod_call("ADD", &config, "dev", "p").run().result();
    fs::remove_dir_all(sandbox.state_dir()).unwrap();
    config["runtimeConfig"] = json!({"io.kubernetes.cri.pod-annotations": {"p": "rest"}});
    config["prevResult"] = added;
    sandbox.pod_call("DEL", &config, "dev", "p").run().nothing();
    for pool in ["web", "db"] {
        assert_eq!(sandbox.reserved(pool), [""; 0], "{pool}");
    }
}

#[test]
fn a_tenants_full_pool_makes_the_node_unready_for_nobody() {
    let sandbox = Sandbox::default();
    let ipam = json!({
        "pools": {"small": {"subnet": "10.1.0.0/29", "exclude": ["10.1.0.4/30"]}, "rest": {"subnet": "10.2.0.0/24"}},
        "rules": [{"when": {"K8S_POD_NAMESPACE": "tenant"}, "pools": ["small"]}, {"pools": ["rest"]}],
    });
    let config = sandbox.config("1.1.0", &CHAIN, &ipam);
    let add = |namespace: &str, pod: &str| sandbox.pod_call("ADD", &config, namespace, pod).run();
    assert_eq!(add("tenant", "a").ips(), ["10.1.0.2"]);
    assert_eq!(add("tenant", "b").ips(), ["10.1.0.3"]);
    let error = add("tenant", "c").error();
    assert_eq!(error["code"], 11);
    let msg = error["msg"].as_str().unwrap();
    assert!(msg.ends_with("all 2 are reserved, 3 are excluded"), "{msg}");
    sandbox.pod_call("STATUS", &config, "", "").run().nothing();
    assert_eq!(add("other", "d").ips(), ["10.2.0.2"]);
}

#[test]
fn a_refusal_lists_the_facts() {
    let sandbox = Sandbox::default();
    let ipam = json!({"pools": {"p": {"subnet": "10.1.0.0/24"}},
                      "rules": [{"when": {"A": "1"}, "pools": ["p"]}]});
    let config = sandbox.config("1.1.0", &CHAIN, &ipam);
    let error = sandbox.pod_call("ADD", &config, "prod", "a").run().error();
    assert_eq!(error["code"], 7);
    assert_eq!(
        error["msg"],
        concat!(
            "ipam-ds-rules: no rule of ipam.rules and ipam.poolsDir holds for ",
            r#"IgnoreUnknown="1", K8S_POD_NAME="a", K8S_POD_NAMESPACE="prod", "#,
            r#"containerID="prod-a", ifname="eth0", network="testnet""#
        )
    );
    // Unreadable facts fail before any rule is tried.
    let mut labels = config.clone();
    labels["args"] = json!({"cni": {"labels": {"a": "b"}}});
    let error = sandbox.pod_call("ADD", &labels, "prod", "a").run().error();
    assert_eq!(
        error["msg"],
        "ipam-ds-rules: args.cni.labels: invalid type: map, expected a sequence"
    );
}

#[test]
fn a_pool_without_ranges_is_handed_on_by_its_name() {
    let sandbox = Sandbox::default().with_script(
        "lan-allocator",
        r#"[ "$CNI_COMMAND" = ADD ] || exit 0
           cat > "${0%/*}/../stdin"
           echo '{"cniVersion":"1.0.0","ips":[{"address":"192.0.2.7/24"}]}'"#,
    );
    let ipam =
        json!({"pools": {"lan": {"vlan": 7}}, "rules": [{"pools": ["lan"], "ip": "192.0.2.7"}]});
    let config = sandbox.config("1.0.0", &["ipam-ds-rules", "lan-allocator"], &ipam);
    let output = sandbox.pod_call("ADD", &config, "prod", "a").run();
    assert_eq!(output.ips(), ["192.0.2.7"]);
    let given: Value =
        serde_json::from_slice(&fs::read(sandbox.root().join("stdin")).unwrap()).unwrap();
    assert_eq!(
        given["prevResult"]["pools"],
        json!([{"name": "lan", "vlan": 7, "requested-ip": "192.0.2.7", "rule": "ipam.rules[0]"}])
    );
}

#[test]
fn the_static_selector_hands_on_what_is_configured() {
    let sandbox = Sandbox::default();
    let chain = ["ipam-ds-static", "ipam-da-host-local"];
    let ipam = json!({"pools": [
        {"name": "blue", "subnet": "10.1.0.0/24", "requested-ip": "10.1.0.77"},
        {"subnet": "fd00::/64"},
    ]});
    let config = sandbox.config("1.1.0", &chain, &ipam);
    let run = |command: &str| sandbox.call("ipam-delegated", command, &config).run();
    assert_eq!(run("ADD").ips(), ["10.1.0.77", "fd00::2"]);
    assert_eq!(sandbox.reserved("pools"), ["10.1.0.77"]);
    run("DEL").nothing();
    assert_eq!(sandbox.reserved("pools"), [""; 0]);
    let none = sandbox.config("1.1.0", &chain, &json!({}));
    let error = sandbox.call("ipam-delegated", "ADD", &none).run().error();
    assert_eq!(
        error["msg"],
        "ipam-ds-static: ipam.pools is missing: it must be an array of pools"
    );
}

#[test]
fn a_pool_of_an_earlier_selector_that_overlaps_the_catalogue_is_refused() {
    let sandbox = Sandbox::default();
    let chain = ["ipam-ds-ranges", "ipam-ds-rules", "ipam-da-host-local"];
    let ipam = json!({
        "ranges": [[{"subnet": "10.30.0.0/24", "rangeStart": "10.30.0.128"}]],
        "pools": {"db": {"subnet": "10.30.0.0/24"}, "other": {"subnet": "10.40.0.0/24"}, "lan": {}},
        "rules": [{"when": {"K8S_POD_NAME": "db"}, "pools": ["db"]}, {"pools": ["other"]}],
    });
    let mut config = sandbox.config("1.1.0", &chain, &ipam);
    let message = "ipam-ds-rules: prevResult.pools[0]: 10.30.0.128-10.30.0.254 overlaps pool db of the catalogue";
    for (command, pod) in [("ADD", "db"), ("ADD", "x"), ("STATUS", "")] {
        let error = sandbox
            .pod_call(command, &config, "prod", pod)
            .run()
            .error();
        assert_eq!(
            (&error["code"], &error["msg"]),
            (&json!(7), &json!(message))
        );
    }
    config["ipam"]["ranges"] = json!([[{"subnet": "10.50.0.0/24"}]]);
    let output = sandbox.pod_call("ADD", &config, "prod", "db").run();
    assert_eq!(output.ips(), ["10.50.0.2", "10.30.0.2"]);
}

#[test]
fn a_del_that_says_nothing_releases_all_pools_of_the_add() {
    let sandbox = Sandbox::default();
    let mut config = sandbox.config("1.1.0", &CHAIN, &catalogue());
    config["ipam"]["rules"] = json!([{"pools": ["${annotation:p}", "web6"]}]);
    config["runtimeConfig"] = json!({"io.kubernetes.cri.pod-annotations": {"p": "db"}});
    sandbox.pod_call("ADD", &config, "dev", "p").run().result();
    fs::remove_dir_all(sandbox.state_dir()).unwrap();
    config["runtimeConfig"] = json!({"io.kubernetes.cri.pod-annotations": {"p": "web"}});
    sandbox.pod_call("DEL", &config, "dev", "p").run().nothing();
    assert_eq!(sandbox.reserved("pools"), [""; 0]);
}

#[test]
fn check_finds_an_address_of_a_pool_that_was_renamed() {
    let sandbox = Sandbox::default();
    let ipam = json!({"pools": {"old": {"subnet": "10.1.0.0/24"}}, "rules": [{"pools": ["old"]}]});
    let mut config = sandbox.config("1.1.0", &CHAIN, &ipam);
    let added = sandbox.pod_call("ADD", &config, "dev", "p").run().result();
    fs::remove_dir_all(sandbox.state_dir()).unwrap();
    config["ipam"]["pools"] = json!({"new": {"subnet": "10.1.0.0/24"}});
    config["ipam"]["rules"] = json!([{"pools": ["new"]}]);
    config["prevResult"] = added;
    sandbox
        .pod_call("CHECK", &config, "dev", "p")
        .run()
        .nothing();
    fs::remove_file(sandbox.data_dir().join("pools/10.1.0.2")).unwrap();
    assert_eq!(
        sandbox.pod_call("CHECK", &config, "dev", "p").run().code(),
        112
    );
}

#[test]
fn a_pool_has_one_rotation_at_any_place_in_a_rule() {
    let sandbox = Sandbox::default();
    let ipam = json!({
        "pools": {"a": {"subnet": "10.1.0.0/24"}, "b": {"subnet": "10.2.0.0/24"}},
        "rules": [{"when": {"K8S_POD_NAME": "first"}, "pools": ["a"]}, {"pools": ["b", "a"]}],
    });
    let config = sandbox.config("1.1.0", &CHAIN, &ipam);
    let run = |command: &str, pod: &str| sandbox.pod_call(command, &config, "dev", pod).run();
    assert_eq!(run("ADD", "first").ips(), ["10.1.0.2"]);
    run("DEL", "first").nothing();
    assert_eq!(run("ADD", "second").ips(), ["10.2.0.2", "10.1.0.3"]);
}

#[test]
fn a_selector_that_is_in_a_chain_twice_is_checked_with_both_choices() {
    let sandbox = Sandbox::default().with_script(
        "sel",
        r#"[ "$CNI_COMMAND" = ADD ] || exit 0
           if grep -q '"pools"'; then second=',{"name":"p1","subnet":"10.2.0.0/24"}'; fi
           echo '{"cniVersion":"1.1.0","pools":[{"name":"p0","subnet":"10.1.0.0/24"}'"${second-}"']}'"#,
    );
    let chain = ["sel", "sel", "ipam-da-host-local"];
    let mut config = sandbox.config("1.1.0", &chain, &json!({}));
    let run = |command: &str, config: &Value| sandbox.call("ipam-delegated", command, config).run();
    let added = run("ADD", &config).result();
    assert_eq!(harness::answer_of(&added), ["10.1.0.2", "10.2.0.2"]);
    config["prevResult"] = added;
    run("CHECK", &config).nothing();
    fs::remove_file(sandbox.data_dir().join("pools/10.2.0.2")).unwrap();
    assert_eq!(run("CHECK", &config).code(), 112);
}
