//! `explain`: what an ADD would get is what the next ADD gets.

use harness::Sandbox;
use serde_json::json;

use super::{THERE, add, id, json_of, network, status};

#[test]
fn the_address_that_is_explained_is_the_one_that_the_next_add_gets() {
    let sandbox = Sandbox::default();
    let config = network(&sandbox);
    let file = sandbox.conf_dir().join("10-testnet.conflist");
    let file = file.to_str().unwrap();
    for i in 0..5 {
        let explained = json_of(&sandbox, &["explain", file]);
        let container = id(&format!("a{i}"));
        let got = sandbox
            .call("ipam-delegated", "ADD", &config)
            .container(&container)
            .run()
            .ips();
        assert_eq!(explained["pools"][0]["address"], got[0].as_str());
    }
    let requested = json_of(&sandbox, &["explain", file, "IP=10.77.0.70"]);
    assert_eq!(requested["pools"][0]["address"], "10.77.0.70");
    let taken = sandbox.ipamctl(&["explain", file, "IP=10.77.0.2"]).run();
    assert_eq!(status(&taken), Some(1), "{taken:?}");
    assert_eq!(sandbox.reserved("testnet").len(), 5);
}

#[test]
fn a_third_party_selector_gets_the_facts_and_runs_unless_that_is_forbidden() {
    let sandbox = Sandbox::default().with_script(
        "ipam-ds-noting",
        r#"cat > "$CNI_PATH/stdin"; echo "$CNI_COMMAND $CNI_CONTAINERID $CNI_ARGS" >> "$CNI_PATH/noted"
echo '{"cniVersion":"1.0.0","ips":[],"pools":[{"name":"blue","subnet":"10.5.0.0/24"}]}'"#,
    );
    let delegates = ["ipam-ds-noting", "ipam-da-host-local"];
    let config = sandbox.config("1.0.0", &delegates, &json!({}));
    sandbox.write_conflist("10-testnet.conflist", &config);
    let file = sandbox.conf_dir().join("10-testnet.conflist");
    let file = file.to_str().unwrap();
    let noted = sandbox.plugins().join("noted");
    let forbidden = json_of(&sandbox, &["explain", "--no-exec", file]);
    assert!(forbidden["unknown"].as_str().unwrap().contains("--no-exec"));
    assert!(!noted.exists());
    let explained = json_of(
        &sandbox,
        &[
            "explain",
            file,
            "K8S_POD_NAME=db-0",
            "containerID=c7",
            "annotation:ipam/pool=blue",
            "label:tier=db",
        ],
    );
    assert_eq!(explained["pools"][0]["pool"], "blue");
    assert_eq!(explained["pools"][0]["address"], "10.5.0.2");
    let noted = std::fs::read_to_string(noted).unwrap();
    assert_eq!(noted.trim(), "ADD c7 IgnoreUnknown=1;K8S_POD_NAME=db-0");
    let stdin = std::fs::read_to_string(sandbox.plugins().join("stdin")).unwrap();
    let stdin: serde_json::Value = serde_json::from_str(&stdin).unwrap();
    assert_eq!(stdin["args"]["cni"]["labels"]["tier"], "db");
    let annotations = &stdin["runtimeConfig"]["io.kubernetes.cri.pod-annotations"];
    assert_eq!(annotations["ipam/pool"], "blue");
    // Nothing was reserved or recorded.
    assert!(sandbox.reserved("blue").is_empty() && sandbox.records("testnet").is_empty());
}

#[test]
fn a_full_pool_is_explained_as_a_refusal() {
    let sandbox = Sandbox::default();
    let ranges = json!({"ranges": [[{"subnet": "10.78.0.0/30"}]]});
    let delegates = ["ipam-ds-ranges", "ipam-da-host-local"];
    let config = sandbox.config("1.0.0", &delegates, &ranges);
    sandbox.write_conflist("10-testnet.conflist", &config);
    add(&sandbox, &config, &id("a1"), THERE);
    let file = sandbox.conf_dir().join("10-testnet.conflist");
    let output = sandbox.ipamctl(&["explain", file.to_str().unwrap()]).run();
    assert_eq!(status(&output), Some(1));
    assert!(
        output
            .stdout
            .contains("would be refused: no address is free"),
        "{output:?}"
    );
}
