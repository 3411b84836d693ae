//! Calls `ipam-ds-rules` as runtimes do, with the recorded calls of `testdata/calls`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use harness::{Output, RULES_CHAIN, Sandbox, names, repository};
use serde::Deserialize;
use serde_json::{Value, json};

/// The recorded ADDs: the address that each gets, and the conditions on its facts, each with a variant
/// that doesn't hold.
fn adds() -> BTreeMap<String, Recorded> {
    let all = json!({
        "podman-add": {"ip": "10.77.0.2", "facts": {
            "K8S_POD_NAME": ["web", "we"],
            // podman passes no namespace.
            "K8S_POD_NAMESPACE": [null, "*"],
            "containerID": ["e0506d7163c8*", "e0506d7163c8"],
            "ifname": ["eth?", "eth"],
            "network": ["mynet", "podman"],
        }},
        // `--ip`
        "podman-add-with-address-and-namespace": {"ip": "10.77.0.9", "facts": {
            "K8S_POD_NAME": [["web", "db"], ["web", "d"]],
            "K8S_POD_NAMESPACE": ["prod", {"not": "prod"}],
        }},
        // ctr passes the container's name only in its ID, and no annotation.
        "ctr-add": {"ip": "10.77.0.2", "facts": {
            "containerID": ["prod-*", "default-*"],
            "K8S_POD_NAME": [null, "db-0"],
            "annotation:ipam/pool": [null, "db"],
            "label:pool": [null, "web"],
        }},
        "containerd-pod-add": {"ip": "10.77.0.2", "facts": {
            "K8S_POD_NAMESPACE": ["default", "kube-*"],
            "K8S_POD_NAME": ["nginx-*", {"not": "nginx-*"}],
            "K8S_POD_UID": ["hdishd83djaidwnduwk28bcsb", null],
            "annotation:failpoint.cni.containerd.io/confpath": ["/tmp/*.json", null],
        }},
        "containerd-pod-add-without-capability": {"ip": "10.77.0.2", "facts": {
            "K8S_POD_NAME": ["nginx-sandbox", "nginx"],
            "annotation:failpoint.cni.containerd.io/confpath": [null, "*"],
        }},
        "cri-o-pod-add": {"ip": "10.77.0.2", "facts": {
            "K8S_POD_NAMESPACE": ["redhat.test.crio", "redhat?"],
            "K8S_POD_NAME": ["podsandbox1", "podsandbox2"],
            "annotation:owner": ["hmeng", "HMENG"],
            "annotation:com.example.test": ["sandbox annotation", "sandbox"],
        }},
        "nomad-add": {"ip": "10.77.0.2", "facts": {
            "NOMAD_JOB_ID": ["mock-*", "mock"],
            "NOMAD_GROUP_NAME": ["web", "db"],
            "NOMAD_NAMESPACE": [{"not": "dev"}, "dev"],
            "NOMAD_REGION": ["global", null],
            "NOMAD_ALLOC_ID": ["7cd08c6c-86c8-0bfa-f7ca-338466447711", ""],
            "containerID": ["7cd08c6c-86c8-0bfa-f7ca-338466447711", "mock-service"],
        }},
        "nomad-add-with-cni-args": {"ip": "10.77.0.2", "facts": {
            "first_arg": ["example", "example_2"],
            "new_arg": ["example_*", null],
            "FIRST_ARG": [null, "example"],
        }},
        "nomad-add-with-transparent-proxy": {"ip": "10.77.0.2", "facts": {
            "extra_arg": ["example", null],
            "CONSUL_IPTABLES_CONFIG": ["{*192.168.1.117*}", null],
            "NOMAD_JOB_ID": ["mock-service", null],
        }},
        // Nomad omits values with a semicolon.
        "nomad-add-with-invalid-job-id": {"ip": "10.77.0.2", "facts": {
            "NOMAD_JOB_ID": [null, "*"],
            "NOMAD_NAMESPACE": [null, "*"],
            "NOMAD_GROUP_NAME": ["web", null],
        }},
    });
    serde_json::from_value(all).unwrap()
}

/// A recorded ADD.
#[derive(Deserialize)]
struct Recorded {
    ip: String,
    facts: BTreeMap<String, [Value; 2]>,
}

impl Recorded {
    /// The conditions that hold, but for this fact.
    fn conditions(&self, but_for: Option<&str>) -> Value {
        let condition = |(fact, [holds, doesnt]): (&String, &[Value; 2])| {
            let is_other = but_for == Some(fact);
            (fact.clone(), if is_other { doesnt } else { holds }.clone())
        };
        self.facts.iter().map(condition).collect()
    }
}

/// The recorded DELs, each with its ADD.
const DELS: [(&str, &str); 3] = [
    ("podman-del", "podman-add-with-address-and-namespace"),
    ("ctr-del", "ctr-add"),
    ("nomad-del", "nomad-add"),
];

/// Replays a recorded call, with two pools and these rules.
fn replay(sandbox: &Sandbox, name: &str, rules: &Value) -> Output {
    let path = repository().join(format!("testdata/calls/{name}.json"));
    let recorded: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let ipam = json!({
        "pools": {
            "chosen": {"subnet": "10.77.0.0/24"},
            "hmeng": {"subnet": "10.78.0.0/24"},
            "rest": {"subnet": "10.79.0.0/24"},
        },
        "rules": rules,
    });
    let mut config = recorded["stdin"].clone();
    config["ipam"] = sandbox.config("1.0.0", &RULES_CHAIN, &ipam)["ipam"].clone();
    let environment = recorded["environment"].as_object().unwrap();
    let command = environment["CNI_COMMAND"].as_str().unwrap();
    environment
        .iter()
        .filter(|(variable, _)| *variable != "CNI_PATH")
        .fold(
            sandbox.call("ipam-delegated", command, &config),
            |call, (variable, value)| call.env(variable, value.as_str().unwrap()),
        )
        .run()
}

/// Two rules: if these conditions hold, the pool is `chosen`, otherwise `rest`.
fn chosen_when(conditions: &Value) -> Value {
    json!([{"when": conditions, "pools": ["chosen"]}, {"pools": ["rest"]}])
}

#[test]
fn each_recorded_call_is_replayed() {
    let files = names(repository().join("testdata/calls")).into_iter();
    let files: BTreeSet<String> = files
        .filter_map(|name| name.strip_suffix(".json").map(str::to_owned))
        .collect();
    let adds = adds();
    let dels = DELS.map(|(del, _)| del.to_owned());
    let replayed: BTreeSet<String> = adds.into_keys().chain(dels).collect();
    assert_eq!(files, replayed);
}

#[test]
fn a_runtimes_facts_lead_to_the_pool() {
    for (name, add) in adds() {
        let sandbox = Sandbox::default();
        let result = replay(&sandbox, &name, &chosen_when(&add.conditions(None))).result();
        assert_eq!(harness::answer_of(&result), [&*add.ip], "{name}");
        assert_eq!(sandbox.reserved("pools"), [&*add.ip], "{name}");
    }
}

#[test]
fn one_fact_that_differs_leads_to_the_next_rule() {
    for (name, add) in adds() {
        for fact in add.facts.keys() {
            let sandbox = Sandbox::default();
            let output = replay(&sandbox, &name, &chosen_when(&add.conditions(Some(fact))));
            // The address that podman requested is in no other pool.
            if name == "podman-add-with-address-and-namespace" {
                assert_eq!(output.error()["code"], 7, "{name}: {fact}");
            } else {
                let [ip] = &output.ips()[..] else {
                    panic!("{name}: {fact}")
                };
                assert!(ip.starts_with("10.79."), "{name}: {fact}: {ip}");
            }
        }
    }
}

#[test]
fn a_del_with_less_than_its_add_releases_the_address() {
    let adds = adds();
    for (del, add) in DELS {
        let sandbox = Sandbox::default();
        // Without the facts, no rule holds.
        let rules = json!([{"when": adds[add].conditions(None), "pools": ["chosen"]}]);
        replay(&sandbox, add, &rules).result();
        assert_eq!(sandbox.reserved("pools").len(), 1, "{add}");
        replay(&sandbox, del, &rules).nothing();
        assert!(sandbox.reserved("pools").is_empty(), "{del}");
        assert!(sandbox.records("mynet").is_empty(), "{del}");
    }
}
