//! `explain` shows the address that the next ADD gets.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use harness::{Sandbox, needs};
use serde_json::json;

use super::check_lists::as_nobody;
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
    let labels = json!([{"key": "tier", "value": "db"}]);
    assert_eq!(stdin["args"]["cni"]["labels"], labels);
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

#[test]
fn each_rule_that_does_not_hold_says_why() {
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
        ],
        "poolsDir": folder,
    });
    let config = sandbox.config("1.0.0", &["ipam-ds-rules", "ipam-da-host-local"], &ipam);
    sandbox.write_conflist("10-testnet.conflist", &config);
    let file = sandbox.conf_dir().join("10-testnet.conflist");
    let words = [
        "explain",
        file.to_str().unwrap(),
        "K8S_POD_NAMESPACE=prod",
        "label:tier=db",
        "containerID=c1",
    ];
    let explained = json_of(&sandbox, &words);
    let rule = |at: usize| explained["rules"][at].clone();
    assert_eq!(
        rule(0),
        json!({"rule": "ipam.rules[0]", "holds": false, "fact": "K8S_POD_NAMESPACE",
               "is": "prod", "mustBe": r#"["shop", "web-*"]"#})
    );
    let of_name = json!({"rule": "ipam.rules[1]", "holds": false, "fact": "K8S_POD_NAME",
                         "is": null, "mustBe": "\"x\""});
    assert_eq!(rule(1), of_name);
    let last = format!("{}: rules[0]", folder.join("99-rest.json").display());
    assert_eq!(
        (&rule(2)["rule"], &rule(2)["holds"]),
        (&json!(last), &json!(true))
    );
    assert_eq!(explained["pools"][0]["address"], "10.2.0.2");
    let said = sandbox.ipamctl(&words).run().stdout;
    assert!(
        said.contains(r#"ipam.rules[0]: doesn't hold: K8S_POD_NAMESPACE is "prod", and must be ["shop", "web-*"]"#),
        "{said}"
    );
    // No folder is created, and the address of a sticky key is considered.
    assert!(!sandbox.cache_dir().exists());
    let call = |command: &str, container: &str| {
        let call = sandbox.call("ipam-delegated", command, &config);
        call.container(container).run()
    };
    call("ADD", "c1").result();
    call("ADD", "c2").result();
    call("DEL", "c1").nothing();
    assert_eq!(json_of(&sandbox, &words)["pools"][0]["address"], "10.2.0.2");
    // All pools of the catalogue are listed, even unused ones.
    let pools = json_of(&sandbox, &["pools"]);
    let names: Vec<&str> = pools
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|pool| pool["pool"].as_str())
        .collect();
    assert_eq!(names, ["rest", "web"]);
}

#[test]
fn a_delegate_that_is_not_run_leaves_the_address_unknown() {
    let sandbox = Sandbox::default().with_script("my-filter", "touch \"$0.ran\"");
    let ranges = json!({"ranges": [[{"subnet": "10.77.0.0/24"}]]});
    let file = sandbox.conf_dir().join("10-testnet.conflist");
    for delegates in [
        ["ipam-ds-ranges", "my-filter", "ipam-da-host-local"],
        ["ipam-ds-ranges", "ipam-da-host-local", "my-filter"],
    ] {
        let config = sandbox.config("1.0.0", &delegates, &ranges);
        sandbox.write_conflist("10-testnet.conflist", &config);
        let explained = json_of(&sandbox, &["explain", file.to_str().unwrap()]);
        assert_eq!(
            explained["unknown"],
            "my-filter was not run: it is no selector"
        );
        assert_eq!(explained["pools"][0]["address"], json!(null));
    }
    assert!(!sandbox.plugins().join("my-filter.ran").exists());
}

#[test]
fn a_full_pool_leaves_no_address_in_the_others() {
    let sandbox = Sandbox::default();
    let ranges = json!({"ranges": [[{"subnet": "10.77.0.0/24"}], [{"subnet": "10.78.0.0/30"}]]});
    let delegates = ["ipam-ds-ranges", "ipam-da-host-local"];
    let config = sandbox.config("1.0.0", &delegates, &ranges);
    sandbox.write_conflist("10-testnet.conflist", &config);
    add(&sandbox, &config, &id("a1"), THERE);
    let file = sandbox.conf_dir().join("10-testnet.conflist");
    let output = sandbox.ipamctl(&["explain", file.to_str().unwrap()]).run();
    assert_eq!(status(&output), Some(1));
    assert!(!output.stdout.contains("would get"), "{output:?}");
    assert!(output.stdout.contains("would be refused"), "{output:?}");
}

#[test]
fn a_folder_that_only_root_may_read_is_named() {
    needs!("root");
    let sandbox = Sandbox::default();
    let config = network(&sandbox);
    add(&sandbox, &config, &id("a1"), THERE);
    let directory = sandbox.data_dir().join("testnet");
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();
    let file = sandbox.conf_dir().join("10-testnet.conflist");
    let output = as_nobody(&sandbox, &["explain", file.to_str().unwrap()]);
    assert_eq!(status(&output), Some(2), "{output:?}");
    let path = directory.display().to_string();
    assert!(
        output.stderr.contains(&path) && output.stderr.contains("as root"),
        "{output:?}"
    );
}
