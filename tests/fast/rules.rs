//! `ipam-ds-rules`: pools by facts about a container.

use std::fs;

use harness::{RULES_CHAIN, Sandbox};
use serde_json::{Value, json};

mod files;

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
    let config = sandbox.config("1.1.0", &RULES_CHAIN, &catalogue());
    let add = |namespace: &str, pod: &str| {
        let output = sandbox.run_for_pod("ADD", &config, namespace, pod);
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
    let output = sandbox.run_for_pod("ADD", &annotated, "dev", "y");
    assert_eq!(output.ips(), ["10.30.0.3"]);
    let mut labelled = config.clone();
    labelled["args"] = json!({"cni": {"labels": [{"key": "tier", "value": "front"}]}});
    let output = sandbox.run_for_pod("ADD", &labelled, "dev", "z");
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
            .run_for_pod("DEL", &config, namespace, pod)
            .nothing();
    }
    assert_eq!(sandbox.reserved("pools"), [""; 0]);
}

#[test]
fn what_was_chosen_on_add_counts_until_del() {
    // The runtime's arguments, other annotations, rules and the catalogue don't matter then.
    let edited = json!({"io.kubernetes.cri.pod-annotations": {"ipam/pool": "web"}});
    let sandbox = Sandbox::default();
    let mut config = sandbox.config("1.1.0", &RULES_CHAIN, &catalogue());
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
                let added = sandbox.run_for_pod("ADD", &config, "dev", &pod).result();
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
fn a_tenants_full_pool_makes_the_node_unready_for_nobody() {
    let sandbox = Sandbox::default();
    let ipam = json!({
        "pools": {"small": {"subnet": "10.1.0.0/29", "exclude": ["10.1.0.4/30"]}, "rest": {"subnet": "10.2.0.0/24"}},
        "rules": [{"when": {"K8S_POD_NAMESPACE": "tenant"}, "pools": ["small"]}, {"pools": ["rest"]}],
    });
    let config = sandbox.config("1.1.0", &RULES_CHAIN, &ipam);
    let add = |namespace: &str, pod: &str| sandbox.run_for_pod("ADD", &config, namespace, pod);
    assert_eq!(add("tenant", "a").ips(), ["10.1.0.2"]);
    assert_eq!(add("tenant", "b").ips(), ["10.1.0.3"]);
    add("tenant", "c").refused(11, "all 2 are reserved, 3 are excluded");
    sandbox.run_for_pod("STATUS", &config, "", "").nothing();
    assert_eq!(add("other", "d").ips(), ["10.2.0.2"]);
}

#[test]
fn status_and_check_refuse_what_refuses_each_add_on_this_node() {
    let sandbox = Sandbox::default();
    let ipam = json!({
        "node": "r9-1",
        "pools": {"rack7": {"subnet": "10.7.0.0/24"}, "rack9": {"subnet": "10.9.0.0/24"}},
        "rules": [{"when": {"node": "r7-*"}, "pools": ["rack7"]},
                  {"when": {"K8S_POD_NAME": "x"}, "pools": ["rack9"]}],
    });
    let good = sandbox.config("1.1.0", &RULES_CHAIN, &ipam);
    let call = |command: &str, config: &Value| {
        let call = sandbox.pod_call(command, config, "prod", "db");
        call.run()
    };
    // Another pod may be one of the rule.
    assert_eq!(call("ADD", &good).code(), 7);
    call("STATUS", &good).nothing();
    let mut of_other_node = good.clone();
    of_other_node["ipam"]["rules"][1] = json!({"when": {"node": "r8-*"}, "pools": ["rack9"]});
    let mut no_such_pool = good.clone();
    no_such_pool["ipam"]["rules"] = json!([{"pools": ["${network}"]}]);
    let mut request = good.clone();
    request["ipam"]["rules"] = json!([{"pools": ["rack9"]}]);
    request["args"] = json!({"cni": {"ips": ["10.7.0.9"]}});
    for config in [of_other_node, no_such_pool, request] {
        let (add, status) = (
            call("ADD", &config).error(),
            call("STATUS", &config).error(),
        );
        assert_eq!((&add["code"], &status["code"]), (&json!(7), &json!(7)));
        sandbox.write_conflist("10-test.conflist", &config);
        let found = sandbox.ipamctl(&["check"]).run();
        let msg = status["msg"].as_str().unwrap().rsplit(": ").next().unwrap();
        assert!(found.stdout.contains(msg), "{msg}: {found:?}");
    }
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
        sandbox
            .run_for_pod(command, &config, "prod", pod)
            .error_is(7, message);
    }
    config["ipam"]["ranges"] = json!([[{"subnet": "10.50.0.0/24"}]]);
    let output = sandbox.run_for_pod("ADD", &config, "prod", "db");
    assert_eq!(output.ips(), ["10.50.0.2", "10.30.0.2"]);
}

#[test]
fn check_finds_an_address_of_a_pool_that_was_renamed() {
    let sandbox = Sandbox::default();
    let ipam = json!({"pools": {"old": {"subnet": "10.1.0.0/24"}}, "rules": [{"pools": ["old"]}]});
    let mut config = sandbox.config("1.1.0", &RULES_CHAIN, &ipam);
    let added = sandbox.run_for_pod("ADD", &config, "dev", "p").result();
    fs::remove_dir_all(sandbox.state_dir()).unwrap();
    config["ipam"]["pools"] = json!({"new": {"subnet": "10.1.0.0/24"}});
    config["ipam"]["rules"] = json!([{"pools": ["new"]}]);
    config["prevResult"] = added;
    sandbox.run_for_pod("CHECK", &config, "dev", "p").nothing();
    fs::remove_file(sandbox.data_dir().join("pools/10.1.0.2")).unwrap();
    assert_eq!(
        sandbox.run_for_pod("CHECK", &config, "dev", "p").code(),
        112
    );
}
