//! Calls `ipam-ds-rules` as runtimes do, with the recorded calls of `testdata/calls`.

use std::collections::BTreeSet;
use std::fs;

use harness::{Call, Node, Output, Sandbox, needs, repository};
use serde_json::{Value, json};

/// The delegates of each chain.
const DELEGATES: [&str; 2] = ["ipam-ds-rules", "ipam-da-host-local"];

/// A recorded ADD, the conditions on its facts (each with a variant that doesn't hold), and the
/// expected address.
type Recorded = (
    &'static str,
    Vec<(&'static str, Value, Value)>,
    &'static str,
);

fn adds() -> Vec<Recorded> {
    let pod = "annotation:failpoint.cni.containerd.io/confpath";
    let nomad = "7cd08c6c-86c8-0bfa-f7ca-338466447711";
    vec![
        (
            "podman-add",
            vec![
                ("K8S_POD_NAME", json!("web"), json!("we")),
                // podman passes no namespace.
                ("K8S_POD_NAMESPACE", json!(null), json!("*")),
                ("containerID", json!("e0506d7163c8*"), json!("e0506d7163c8")),
                ("ifname", json!("eth?"), json!("eth")),
                ("network", json!("mynet"), json!("podman")),
            ],
            "10.77.0.2",
        ),
        (
            "podman-add-with-address-and-namespace",
            vec![
                ("K8S_POD_NAME", json!(["web", "db"]), json!(["web", "d"])),
                ("K8S_POD_NAMESPACE", json!("prod"), json!({"not": "prod"})),
            ],
            // `--ip`
            "10.77.0.9",
        ),
        (
            "ctr-add",
            vec![
                // ctr passes the container's name only in its ID, and no annotation.
                ("containerID", json!("prod-*"), json!("default-*")),
                ("K8S_POD_NAME", json!(null), json!("db-0")),
                ("annotation:ipam/pool", json!(null), json!("db")),
                ("label:pool", json!(null), json!("web")),
            ],
            "10.77.0.2",
        ),
        (
            "containerd-pod-add",
            vec![
                ("K8S_POD_NAMESPACE", json!("default"), json!("kube-*")),
                ("K8S_POD_NAME", json!("nginx-*"), json!({"not": "nginx-*"})),
                (
                    "K8S_POD_UID",
                    json!("hdishd83djaidwnduwk28bcsb"),
                    json!(null),
                ),
                (pod, json!("/tmp/*.json"), json!(null)),
            ],
            "10.77.0.2",
        ),
        (
            "containerd-pod-add-without-capability",
            vec![
                ("K8S_POD_NAME", json!("nginx-sandbox"), json!("nginx")),
                (pod, json!(null), json!("*")),
            ],
            "10.77.0.2",
        ),
        (
            "cri-o-pod-add",
            vec![
                (
                    "K8S_POD_NAMESPACE",
                    json!("redhat.test.crio"),
                    json!("redhat?"),
                ),
                ("K8S_POD_NAME", json!("podsandbox1"), json!("podsandbox2")),
                ("annotation:owner", json!("hmeng"), json!("HMENG")),
                (
                    "annotation:com.example.test",
                    json!("sandbox annotation"),
                    json!("sandbox"),
                ),
            ],
            "10.77.0.2",
        ),
        (
            "nomad-add",
            vec![
                ("NOMAD_JOB_ID", json!("mock-*"), json!("mock")),
                ("NOMAD_GROUP_NAME", json!("web"), json!("db")),
                ("NOMAD_NAMESPACE", json!({"not": "dev"}), json!("dev")),
                ("NOMAD_REGION", json!("global"), json!(null)),
                ("NOMAD_ALLOC_ID", json!(nomad), json!("")),
                ("containerID", json!(nomad), json!("mock-service")),
            ],
            "10.77.0.2",
        ),
        (
            "nomad-add-with-cni-args",
            vec![
                ("first_arg", json!("example"), json!("example_2")),
                ("new_arg", json!("example_*"), json!(null)),
                ("FIRST_ARG", json!(null), json!("example")),
            ],
            "10.77.0.2",
        ),
        (
            "nomad-add-with-transparent-proxy",
            vec![
                ("extra_arg", json!("example"), json!(null)),
                (
                    "CONSUL_IPTABLES_CONFIG",
                    json!("{*192.168.1.117*}"),
                    json!(null),
                ),
                ("NOMAD_JOB_ID", json!("mock-service"), json!(null)),
            ],
            "10.77.0.2",
        ),
        (
            // Nomad omits values with a semicolon.
            "nomad-add-with-invalid-job-id",
            vec![
                ("NOMAD_JOB_ID", json!(null), json!("*")),
                ("NOMAD_NAMESPACE", json!(null), json!("*")),
                ("NOMAD_GROUP_NAME", json!("web"), json!(null)),
            ],
            "10.77.0.2",
        ),
    ]
}

/// The recorded DELs, each with its ADD.
const DELS: [(&str, &str); 3] = [
    ("podman-del", "podman-add-with-address-and-namespace"),
    ("ctr-del", "ctr-add"),
    ("nomad-del", "nomad-add"),
];

/// Replays a recorded call, with two pools and these rules.
fn replay(sandbox: &Sandbox, name: &str, rules: &Value) -> Output {
    recorded_call(sandbox, name, rules).run()
}

/// A recorded call, with two pools and these rules.
fn recorded_call(sandbox: &Sandbox, name: &str, rules: &Value) -> Call {
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
    config["ipam"] = sandbox.config("1.0.0", &DELEGATES, &ipam)["ipam"].clone();
    let environment = recorded["environment"].as_object().unwrap();
    let command = environment["CNI_COMMAND"].as_str().unwrap();
    environment
        .iter()
        .filter(|(variable, _)| *variable != "CNI_PATH")
        .fold(
            sandbox.call("ipam-delegated", command, &config),
            |call, (variable, value)| call.env(variable, value.as_str().unwrap()),
        )
}

/// Two rules: if these conditions hold, the pool is `chosen`, otherwise `rest`.
fn chosen_when(conditions: &Value) -> Value {
    json!([{"when": conditions, "pools": ["chosen"]}, {"pools": ["rest"]}])
}

#[test]
fn each_recorded_call_is_replayed() {
    let folder = fs::read_dir(repository().join("testdata/calls")).unwrap();
    let files: BTreeSet<String> = folder
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".json").map(str::to_owned))
        .collect();
    let adds = adds();
    let replayed = adds.iter().map(|(name, ..)| *name);
    let replayed: BTreeSet<String> = replayed
        .chain(DELS.map(|(del, _)| del))
        .map(str::to_owned)
        .collect();
    assert_eq!(files, replayed);
}

#[test]
fn a_runtimes_facts_lead_to_the_pool() {
    for (name, conditions, address) in adds() {
        let sandbox = Sandbox::default();
        let all: Value = conditions
            .into_iter()
            .map(|(fact, condition, _)| (fact.to_owned(), condition))
            .collect();
        let result = replay(&sandbox, name, &chosen_when(&all)).result();
        assert_eq!(harness::answer_of(&result), [address], "{name}");
        assert_eq!(sandbox.reserved("pools"), [address], "{name}");
    }
}

#[test]
fn one_fact_that_differs_leads_to_the_next_rule() {
    for (name, conditions, _) in adds() {
        for (fact, _, otherwise) in &conditions {
            let sandbox = Sandbox::default();
            let all = conditions.iter().map(|(other, condition, _)| {
                let condition = if other == fact { otherwise } else { condition };
                ((*other).to_owned(), condition.clone())
            });
            let output = replay(&sandbox, name, &chosen_when(&all.collect()));
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
        let (_, conditions, _) = adds.iter().find(|(name, ..)| *name == add).unwrap();
        let all = conditions
            .iter()
            .map(|(fact, condition, _)| ((*fact).to_owned(), condition.clone()));
        // Without the facts, no rule holds.
        let rules = json!([{"when": all.collect::<Value>(), "pools": ["chosen"]}]);
        replay(&sandbox, add, &rules).result();
        assert_eq!(sandbox.reserved("pools").len(), 1, "{add}");
        replay(&sandbox, del, &rules).nothing();
        assert!(sandbox.reserved("pools").is_empty(), "{del}");
        assert!(sandbox.records("mynet").is_empty(), "{del}");
    }
}

#[test]
fn nomad_adds_again_after_a_boot_with_the_same_id_at_the_same_path() {
    needs!("root");
    let node = Node::new();
    let sandbox = Sandbox::default();
    let rules = json!([{"pools": ["chosen"]}]);
    let run = |name| recorded_call(&sandbox, name, &rules).run_on(&node);
    let netns = "/var/run/docker/netns/nonsense-ns";
    node.sh("mkdir -p /run/docker/netns");
    for last in ["2", "3", "4"] {
        node.sh(&format!("touch {netns}; unshare --net={netns} true"));
        assert_eq!(run("nomad-add").ips(), [format!("10.77.0.{last}")]);
        // Nomad makes no DEL for an allocation that a boot has ended.
        node.sh(&format!("umount {netns}; rm {netns}"));
    }
    assert_eq!(sandbox.reserved("pools"), ["10.77.0.4"]);
    run("nomad-del").nothing();
    assert!(sandbox.reserved("pools").is_empty());
    assert!(sandbox.records("mynet").is_empty());
}
