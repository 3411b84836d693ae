//! `check` finds each trap, and has no finding for a correct conflist.

use std::fs;

use harness::{RULES_CHAIN, Sandbox, assert_has, needs};
use serde_json::{Value, json};

use super::{OURS, json_of, network};

/// A sandbox whose main plugins are installed and support every version.
pub(super) fn sandbox() -> Sandbox {
    let versions = r#"echo '{"cniVersion":"1.1.0","supportedVersions":["0.3.0","0.3.1","0.4.0","1.0.0","1.1.0"]}'"#;
    Sandbox::default()
        .with_script("bridge", versions)
        .with_script("macvlan", versions)
        .with_script("host-local", versions)
        .with_script("ipam-gc", versions)
        .with_script(
            "old-plugin",
            r#"echo '{"cniVersion":"0.4.0","supportedVersions":["0.3.1","0.4.0"]}'"#,
        )
}

/// The keys of the findings in the one conflist of the sandbox.
pub(super) fn keys(sandbox: &Sandbox) -> Vec<String> {
    let findings = json_of(sandbox, &["check"]);
    let found = findings.as_array().unwrap().iter();
    found
        .inspect(|finding| {
            for part in ["file", "problem", "instead"] {
                assert!(!finding[part].as_str().unwrap().is_empty(), "{finding}");
            }
        })
        .map(|finding| finding["key"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_sane_conflist_has_no_finding() {
    let sandbox = sandbox();
    network(&sandbox);
    let output = sandbox.ipamctl(&["check"]).run();
    output.ends(0).prints(["Nothing is found."]);
}

#[test]
fn networks_that_share_a_catalogue_or_have_a_space_each_have_no_finding() {
    let sandbox = sandbox();
    let chain = ["ipam-ds-rules", "ipam-da-host-local"];
    let catalogue = json!({"web": {"subnet": "10.1.0.0/24"}, "db": {"subnet": "10.2.0.0/24"}});
    for (name, pools, gateway) in [
        ("web", catalogue.clone(), true),
        ("db", catalogue, true),
        (
            "vlan7",
            json!({"vlan7": {"subnet": "10.9.0.0/24", "space": "vlan7"}}),
            false,
        ),
        (
            "vlan8",
            json!({"vlan8": {"subnet": "10.9.0.0/24", "space": "vlan8"}}),
            false,
        ),
    ] {
        let ipam = json!({"pools": pools, "rules": [{"pools": [name]}]});
        let mut config = sandbox.config("1.0.0", &chain, &ipam);
        config["name"] = json!(name);
        config["isGateway"] = json!(gateway);
        sandbox.write_conflist(&format!("{name}.conflist"), &config);
    }
    assert_eq!(keys(&sandbox), [""; 0]);
}

#[test]
fn two_pools_of_one_space_are_compared_though_their_folders_differ() {
    let sandbox = sandbox();
    let chain = ["ipam-ds-rules", "ipam-da-host-local"];
    for name in ["web", "db"] {
        let pool = json!({"subnet": "10.9.0.0/24", "space": "vlan7"});
        let data_dir = sandbox.data_dir().join(name);
        let ipam =
            json!({"pools": {name: pool}, "rules": [{"pools": [name]}], "dataDir": data_dir});
        let mut config = sandbox.config("1.0.0", &chain, &ipam);
        config["name"] = json!(name);
        sandbox.write_conflist(&format!("{name}.conflist"), &config);
    }
    assert_eq!(keys(&sandbox), ["ipam.pools.db", "ipam.pools.web"]);
}

/// Checks the finding of a network with these keys, and further ones of its plugin.
#[track_caller]
fn assert_found(version: &str, delegates: &[&str], ipam: &Value, plugin: &Value, key: &str) {
    let sandbox = sandbox();
    let mut config = sandbox.config(version, delegates, ipam);
    let keys_of_plugin = config.as_object_mut().unwrap();
    keys_of_plugin.extend(plugin.as_object().unwrap().clone());
    sandbox.write_conflist("10-testnet.conflist", &config);
    assert_eq!(keys(&sandbox), [key]);
    sandbox.ipamctl(&["check"]).run().ends(1);
}

#[test]
fn each_trap_is_found_and_its_key_named() {
    let ranges = json!({"ranges": [[{"subnet": "10.77.0.0/24"}]]});
    let none = json!({});
    let with = |key: &str, value: Value| {
        let mut ipam = ranges.clone();
        ipam[key] = value;
        ipam
    };
    let two = json!({"ranges": [[{"subnet": "10.77.0.0/24"}, {"subnet": "10.79.0.0/24"}]]});
    let wrong = json!({"ranges": [[{"subnet": "10.77.0.9/24"}]]});
    let timeout = with("delegateTimeout", json!("soon"));
    let ranges = &ranges;
    let find = |delegates: &[&str], ipam: &Value, key: &str| {
        assert_found("1.0.0", delegates, ipam, &none, key);
    };
    let direct = with("type", json!("ipam-da-host-local"));
    find(&[], &direct, "plugins[0].ipam.type");
    find(&["ipam-ds-ranges", "no-such"], ranges, "ipam.delegates[1]");
    find(
        &["ipam-ds-ranges", "old-plugin"],
        ranges,
        "ipam.delegates[1]",
    );
    find(&["ipam-ds-ranges"], ranges, "ipam.delegates");
    find(&["ipam-da-host-local"], ranges, "ipam.delegates[0]");
    let probe_first = ["ipam-ds-ranges", "ipam-dc-probe", "ipam-da-host-local"];
    find(&probe_first, ranges, "ipam.delegates[1]");
    find(&OURS, &timeout, "ipam.delegateTimeout");
    find(&OURS, &none, "ipam.ranges");
    find(&OURS, &wrong, "ipam.ranges[0][0].subnet");
    let found = |version: &str, ipam: &Value, plugin: Value, key: &str| {
        assert_found(version, &OURS, ipam, &plugin, key);
    };
    let old = json!({"type": "old-plugin"});
    found("1.0.0", ranges, old, "plugins[0].type");
    found("1.0.0", &two, json!({"isGateway": true}), "isGateway");
    found("1.1.0", ranges, json!({}), "plugins");
    found("0.2.0", ranges, json!({}), "cniVersion");
}

#[test]
fn networks_that_share_addresses_are_found_unless_they_share_a_named_pool() {
    let sandbox = sandbox();
    network(&sandbox);
    let mut other = sandbox.config(
        "1.0.0",
        &OURS,
        &json!({"ranges": [[{"subnet": "10.77.0.128/25"}]]}),
    );
    other["name"] = json!("other");
    sandbox.write_conflist("20-other.conflist", &other);
    assert_eq!(keys(&sandbox), ["ipam.ranges"; 2]);
    // With a file as its argument, `check` has only that file's findings.
    let file = sandbox.conf_dir().join("20-other.conflist");
    let found = json_of(&sandbox, &["check", file.to_str().unwrap()]);
    assert_eq!(found.as_array().unwrap().len(), 1);
    assert_has(
        found[0]["problem"].as_str().unwrap(),
        ["10-testnet.conflist"],
    );
    other["name"] = json!("testnet");
    sandbox.write_conflist("20-other.conflist", &other);
    assert_eq!(keys(&sandbox), ["name"]);
}

#[test]
fn a_data_dir_that_a_reboot_empties_while_records_stay_is_found() {
    needs!("root", "/dev/shm");
    let sandbox = sandbox();
    let volatile = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut config = network(&sandbox);
    config["ipam"]["dataDir"] = json!(volatile.path());
    sandbox.write_conflist("10-testnet.conflist", &config);
    // If the sandbox itself is on such a file system, both are emptied.
    let expected: &[&str] = if is_volatile(&sandbox) {
        &[]
    } else {
        &["ipam.dataDir"]
    };
    assert_eq!(keys(&sandbox), expected);
}

fn is_volatile(sandbox: &Sandbox) -> bool {
    let stat = rustix::fs::statfs(sandbox.root()).unwrap();
    stat.f_type == 0x0102_1994
}

#[test]
fn no_exec_runs_no_plugin() {
    let sandbox = sandbox().with_script("bridge2", r#"echo ran > "$0.ran""#);
    let mut config = network(&sandbox);
    config["type"] = json!("bridge2");
    sandbox.write_conflist("10-testnet.conflist", &config);
    let ran = sandbox.plugins().join("bridge2.ran");
    sandbox.ipamctl(&["check", "--no-exec"]).run().ends(0);
    assert!(!ran.exists());
    sandbox.ipamctl(&["check"]).run().ends(1);
    assert!(ran.exists());
}

#[test]
fn a_catalogue_that_is_refused_is_found_with_its_file_and_rule() {
    let sandbox = sandbox();
    let folder = sandbox.root().join("ipam.d");
    fs::create_dir(&folder).unwrap();
    let unreached = json!({"rules": [{"pools": ["web"]}]});
    fs::write(folder.join("50.json"), unreached.to_string()).unwrap();
    let ipam = json!({
        "pools": {"web": {"subnet": "10.77.0.0/24"}}, "rules": [{"pools": ["web"]}],
        "poolsDir": folder,
    });
    let config = sandbox.config("1.0.0", &RULES_CHAIN, &ipam);
    sandbox.write_conflist("10-testnet.conflist", &config);
    let found = json_of(&sandbox, &["check"]);
    let problem = found[0]["problem"].as_str().unwrap();
    assert!(
        problem
            .ends_with("50.json: rules[0]: it is never reached, since ipam.rules[0] always holds"),
        "{found}"
    );
    sandbox.ipamctl(&["check"]).run().ends(1);

    // A network has ranges that are in a pool of the catalogue.
    fs::remove_file(folder.join("50.json")).unwrap();
    let other = json!({"ranges": [[{"subnet": "10.77.0.128/25"}]]});
    let mut other = sandbox.config("1.0.0", &OURS, &other);
    other["name"] = json!("other");
    other["bridge"] = json!("other0");
    sandbox.write_conflist("20-other.conflist", &other);
    let found = json_of(&sandbox, &["check"]);
    assert!(found.to_string().contains("ipam.pools.web"), "{found}");
}

#[test]
fn the_default_network_is_the_first_file_of_its_folder() {
    let sandbox = sandbox();
    network(&sandbox);
    let file = sandbox.conf_dir().join("10-testnet.conflist");
    let words = ["check", "--default", file.to_str().unwrap()];
    assert_eq!(json_of(&sandbox, &words), json!([]));
    sandbox.write_conf("05-other.conf", "{");
    let found = json_of(&sandbox, &words);
    assert_eq!(found[0]["severity"], "error");
    let problem = found[0]["problem"].as_str().unwrap();
    assert!(problem.contains("05-other.conf"), "{problem}");
}

#[test]
fn what_nobody_reads_and_who_may_not_be_named_so_is_found() {
    let of = |sandbox: &Sandbox, name: &str, ipam: &Value| {
        let mut config = sandbox.config("1.0.0", &OURS, ipam);
        config["name"] = json!(name);
        sandbox.write_conflist("10-testnet.conflist", &config);
        keys(sandbox)
    };
    let ranges = json!([[{"subnet": "10.77.0.0/24"}]]);
    for (key, value) in [("args", json!({"cni": {}})), ("dns", json!({}))] {
        let mut ipam = json!({"ranges": ranges});
        ipam[key] = value;
        assert_eq!(of(&sandbox(), "testnet", &ipam), [format!("ipam.{key}")]);
    }
    let calico = json!({"ranges": [[{"subnet": "usePodCidr"}]]});
    let sandbox = sandbox();
    assert_eq!(of(&sandbox, "testnet", &calico).len(), 1);
    let found = sandbox.ipamctl(&["check"]).run().stdout;
    assert!(found.contains("${podCIDR}"), "{found}");
    // The directories of named pools and of Docker's networks.
    for name in ["pools", "docker"] {
        let found = of(&sandbox, name, &json!({"ranges": ranges}));
        assert_eq!(found.len(), 1, "{name}: {found:?}");
        let without = json_of(&sandbox, &["check", "--no-exec"]);
        assert_eq!(without[0]["severity"], "error", "{name}: {without}");
    }
}

#[test]
fn two_plugins_of_one_conflist_that_share_folders_are_found() {
    let sandbox = sandbox();
    let ranges = json!({"ranges": [[{"subnet": "10.77.0.0/24"}]]});
    let config = sandbox.config("1.0.0", &OURS, &ranges);
    let check = |of_second: &Value| {
        let mut two = [config.clone(), config.clone()];
        two[0]["type"] = json!("bridge");
        two[1]["type"] = json!("macvlan");
        let ipam = two[1]["ipam"].as_object_mut().unwrap();
        ipam.extend(of_second.as_object().unwrap().clone());
        let list = json!({"cniVersion": "1.0.0", "name": "testnet", "plugins": two});
        sandbox.write_conf("10-testnet.conflist", &list.to_string());
        keys(&sandbox)
    };
    let own = |name: &str| json!(sandbox.root().join(name));
    let (state, data) = ("plugins[1].ipam.stateDir", "plugins[1].ipam.dataDir");
    assert_eq!(check(&json!({})), [state, data]);
    assert_eq!(check(&json!({"stateDir": own("s")})), [data]);
    assert_eq!(check(&json!({"dataDir": own("d")})), [state]);
    assert!(check(&json!({"stateDir": own("s"), "dataDir": own("d")})).is_empty());
    // host-local has no records, and would release the other's addresses.
    assert_eq!(check(&json!({"type": "host-local"})), [data]);
}

#[test]
fn a_disk_that_is_not_mounted_is_found() {
    for key in ["dataDir", "stateDir"] {
        let sandbox = sandbox();
        network(&sandbox);
        let folder = sandbox.root().join("away/folder");
        let link = match key {
            "dataDir" => sandbox.data_dir(),
            _ => sandbox.state_dir(),
        };
        std::os::unix::fs::symlink(folder, link).unwrap();
        let found = keys(&sandbox);
        let key = format!("ipam.{key}");
        assert!(found.contains(&key), "{found:?}");
    }
}
