//! `check` of whole plugin lists: plugins beside the main plugin, files that
//! aren't installed, plugins that hang.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use harness::{Output, Sandbox, needs};
use serde_json::{Value, json};

use super::check::{keys, sandbox};
use super::{OURS, json_of, network};

/// Writes a conflist of these plugins.
fn write_list(sandbox: &Sandbox, file: &str, version: &str, plugins: &Value) {
    let list = json!({"cniVersion": version, "name": "testnet", "plugins": plugins});
    sandbox.write_conf(file, &list.to_string());
}

/// The main plugin's entry, with these keys of `ipam`.
fn main_plugin(sandbox: &Sandbox, delegates: &[&str], ipam: &Value) -> Value {
    let mut plugin = sandbox.config("1.1.0", delegates, ipam);
    let keys = plugin.as_object_mut().unwrap();
    keys.remove("cniVersion");
    keys.remove("name");
    plugin
}

#[test]
fn ipam_gc_before_the_main_plugin_or_with_another_ipam_section_is_found() {
    let sandbox = sandbox();
    let ranges = json!({"ranges": [[{"subnet": "10.77.0.0/24"}]]});
    let main = main_plugin(&sandbox, &OURS, &ranges);
    let gc = |ipam: &Value| json!({"type": "ipam-gc", "ipam": ipam});
    let found = |plugins: Value| {
        write_list(&sandbox, "10-testnet.conflist", "1.1.0", &plugins);
        keys(&sandbox)
    };
    let same = gc(&main["ipam"]);
    assert_eq!(found(json!([main, same])), [""; 0]);
    assert_eq!(found(json!([same, main])), ["plugins[0]"]);
    assert_eq!(
        found(json!([main, {"type": "ipam-gc"}])),
        ["plugins[1].ipam"]
    );
    for (key, value) in [
        ("dataDir", json!("/elsewhere")),
        ("stateDir", json!("/elsewhere")),
        ("delegates", json!(["ipam-ds-ranges"])),
        ("ranges", json!(null)),
    ] {
        let mut other = main["ipam"].clone();
        other[key] = value;
        assert_eq!(found(json!([main, gc(&other)])), ["plugins[1].ipam"]);
    }
}

#[test]
fn ranges_that_no_runtime_is_asked_for_are_found_and_others_are_not_needed() {
    let sandbox = sandbox();
    let found = |plugins: Value| {
        write_list(&sandbox, "10-testnet.conflist", "1.0.0", &plugins);
        keys(&sandbox)
    };
    let mut main = main_plugin(&sandbox, &OURS, &json!({}));
    // Only the main plugin's declaration counts.
    let other = json!({"type": "macvlan", "capabilities": {"ipRanges": true}});
    assert_eq!(found(json!([main, other])), ["ipam.ranges"]);
    main["capabilities"] = json!({"ipRanges": true});
    assert_eq!(found(json!([main])), [""; 0]);
}

#[test]
fn a_new_file_takes_the_place_of_the_installed_one_of_its_network() {
    let sandbox = sandbox();
    network(&sandbox);
    let installed = sandbox.conf_dir().join("10-testnet.conflist");
    let new = sandbox.root().join("new.conflist");
    fs::copy(&installed, &new).unwrap();
    let check = |path: &std::path::Path| sandbox.ipamctl(&["check", path.to_str().unwrap()]).run();
    let output = check(&new);
    output.ends(0);
    // Two installed files with one network are still an error.
    let second = sandbox.conf_dir().join("20-testnet.conflist");
    fs::copy(&installed, &second).unwrap();
    check(&second).ends(1);
}

#[test]
fn a_plugin_that_hangs_on_version_is_named() {
    let sandbox = sandbox().with_script("bridge", "exec sleep 600");
    network(&sandbox);
    let found = json_of(&sandbox, &["check"]);
    assert_eq!(found[0]["key"], "plugins[0].type");
    let problem = found[0]["problem"].as_str().unwrap();
    assert!(
        problem.starts_with("bridge: did not end within 5s, and was terminated"),
        "{problem}"
    );
}

#[test]
fn without_root_folders_are_a_note_and_no_finding() {
    needs!("root");
    let sandbox = sandbox();
    network(&sandbox);
    let output = as_nobody(&sandbox, &["check", "--no-exec"]);
    output.ends(0);
    assert_eq!(output.stderr.matches("as root").count(), 1, "{output:?}");
}

/// Runs `ipamctl` without privileges, in a sandbox that everybody may enter.
pub(super) fn as_nobody(sandbox: &Sandbox, words: &[&str]) -> Output {
    fs::set_permissions(sandbox.root(), fs::Permissions::from_mode(0o755)).unwrap();
    // Not in a home directory, which another user may not enter.
    let copy = sandbox.root().join("ipamctl");
    fs::copy(sandbox.ipamctl(&[]).executable(), &copy).unwrap();
    let call = sandbox.ipamctl(words).with_executable(copy);
    call.as_user(65_534).run()
}
