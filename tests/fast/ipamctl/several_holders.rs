//! Lists of one of several runtimes, lists that are cut off, and addresses that another plugin may hold:
//! `gc` releases nothing of others.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use harness::assert_has;
use serde_json::{Value, json};

use super::collection::{leaks, record_of};
use super::{GONE, HOSTS, THERE, add, id, json_of, with, with_list};

#[test]
fn a_container_in_no_list_whose_namespace_is_there_is_left_and_shown_with_its_command() {
    let (sandbox, config) = with(&[]);
    // A build step is in no list.
    add(&sandbox, &config, "buildah-buildah1", THERE);
    let run = |command: &str| with_list(&sandbox, command, &id("a1")).stdout;
    let kept = run("gc");
    assert_has(
        &kept,
        ["kept: its network namespace /proc/self/ns/uts is there"],
    );
    let command = "release --network testnet --ifname eth0 buildah-buildah1";
    assert!(kept.contains(command), "{kept}");
    assert_eq!(sandbox.reserved("testnet").len(), 1);
    assert!(run("leaks").contains(command));
    let listed = sandbox.ipamctl(&["leaks", "--json", "--yes", "--valid", "-"]);
    let listed = listed.stdin(id("a1")).run();
    listed.ends(0);
    let rows: Value = listed.json();
    assert_eq!(rows[0]["evidence"], json!(["not-valid", "netns-there"]));
    // Without a list, nobody says that it is gone.
    assert_eq!(leaks(&sandbox, &[]), []);
}

#[test]
fn the_hosts_own_namespace_keeps_no_container_that_the_list_does_not_name() {
    let (sandbox, _) = with(&[("a1", HOSTS)]);
    assert_eq!(leaks(&sandbox, &[]), [(id("a1"), json!(["unknown"]))]);
    let output = with_list(&sandbox, "gc", &id("a2"));
    output.prints([": released"]);
    assert_eq!(sandbox.reserved("testnet"), [""; 0]);
}

#[test]
fn an_address_that_its_attachments_record_does_not_name_is_released_by_a_person_only() {
    // Started again after a boot, before which its record was lost.
    let (sandbox, config) = with(&[("a1", GONE)]);
    fs::remove_dir_all(sandbox.state_dir()).unwrap();
    add(&sandbox, &config, &id("a1"), THERE);
    let rows = json_of(&sandbox, &["leaks"]);
    assert_eq!(rows.as_array().unwrap().len(), 1, "{rows}");
    assert_eq!(rows[0]["addresses"], json!(["10.77.0.2"]));
    assert_eq!(rows[0]["evidence"], json!(["other-addresses"]));
    for list in [id("a1"), id("a2")] {
        with_list(&sandbox, "gc", &list);
        assert_eq!(sandbox.reserved("testnet").len(), 2);
    }
    // Another plugin of the conflist may hold it.
    let second = sandbox.root().join("second");
    let plugin = |state_dir: &Path| {
        let mut plugin = config.clone();
        plugin["type"] = json!("bridge");
        plugin["ipam"]["stateDir"] = json!(state_dir);
        plugin
    };
    let two = [plugin(&sandbox.state_dir()), plugin(&second)];
    let list = json!({"cniVersion": "1.0.0", "name": "testnet", "plugins": two});
    sandbox.write_conf("10-testnet.conflist", &list.to_string());
    let recorded = record_of(&sandbox.state_dir(), &id("a1"));
    let other = record_of(&second, &id("a1"));
    fs::create_dir_all(other.parent().unwrap()).unwrap();
    let private = PermissionsExt::from_mode(0o700);
    fs::set_permissions(other.parent().unwrap(), private).unwrap();
    fs::copy(&recorded, &other).unwrap();
    assert_eq!(leaks(&sandbox, &[]), []);
    fs::remove_file(&other).unwrap();
    let command = rows[0]["release"].as_str().unwrap();
    assert!(command.ends_with("--ifname eth0 10.77.0.2"), "{command}");
    let released = sandbox
        .ipamctl(&["release", "--ifname", "eth0", "10.77.0.2"])
        .run();
    released.prints(["by its file only"]);
    assert_eq!(sandbox.reserved("testnet"), ["10.77.0.3"]);
    assert_eq!(leaks(&sandbox, &[]), []);
}

#[test]
fn a_list_that_is_cut_off_within_an_id_releases_nothing() {
    let (sandbox, config) = with(&[]);
    for container in ["a1", "a2"] {
        add(&sandbox, &config, &id(container), GONE);
    }
    let list = format!("{}\n{}", id("a1"), &id("a2")[..40]);
    for command in ["gc", "leaks"] {
        let refused = with_list(&sandbox, command, &list);
        refused.failed(2, [&id("a2")]);
        assert_eq!(sandbox.reserved("testnet").len(), 2);
    }
}
