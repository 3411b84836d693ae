//! `check` compares a network's pools with what is reserved in other directories.

use std::fs;

use harness::{RULES_CHAIN, Sandbox};
use serde_json::{Value, json};

use super::check::{keys, sandbox};
use super::{GONE, OURS, THERE, add, json_of};

fn ranges() -> Value {
    json!({"ranges": [[{"subnet": "10.77.0.0/28"}]]})
}

/// A catalogue with one pool, with these keys beside its subnet.
fn pool(more: &Value) -> Value {
    let mut pool = more.clone();
    pool["subnet"] = json!("10.77.0.0/28");
    json!({"pools": {"blue": pool}, "rules": [{"pools": ["blue"]}]})
}

/// A delegate chain and its keys.
type Ipam<'a> = (&'a [&'a str], Value);

/// Writes the conflist of a network, and returns its configuration.
fn conflist(sandbox: &Sandbox, (delegates, ipam): &Ipam<'_>, name: &str) -> Value {
    let mut config = sandbox.config("1.0.0", delegates, ipam);
    config["name"] = json!(name);
    sandbox.write_conflist("10-testnet.conflist", &config);
    config
}

/// The findings after a change of a network with a living container and one that has ended.
fn after(before: &Ipam<'_>, later: impl FnOnce(&Sandbox) -> Ipam<'static>, name: &str) -> Value {
    let sandbox = sandbox();
    let config = conflist(&sandbox, before, "testnet");
    assert_eq!(keys(&sandbox), [""; 0]);
    add(&sandbox, &config, "living", THERE);
    add(&sandbox, &config, "ended", GONE);
    assert_eq!(keys(&sandbox), [""; 0]);
    conflist(&sandbox, &later(&sandbox), name);
    json_of(&sandbox, &["check"])
}

#[track_caller]
fn assert_found(found: &Value, severity: &str, key: &str) {
    let all = found.as_array().unwrap();
    let is_it = |one: &&Value| one["key"] == key && one["severity"] == severity;
    let one = all.iter().find(is_it).unwrap_or_else(|| panic!("{found}"));
    let problem = one["problem"].as_str().unwrap();
    assert!(problem.contains("living"), "{found}");
    assert!(!problem.contains("ended"), "{found}");
}

#[test]
fn a_key_that_moves_reservations_is_found_with_the_container_that_loses_its_address() {
    let none = &json!({});
    let space = |name: &str| pool(&json!({ "space": name }));
    let pools = "ipam.pools.blue";
    let found = |before: Ipam<'_>, later: Ipam<'static>, key: &str| {
        assert_found(&after(&before, |_| later, "testnet"), "error", key);
    };
    found((&OURS, ranges()), (&RULES_CHAIN, pool(none)), pools);
    found((&RULES_CHAIN, pool(none)), (&OURS, ranges()), "ipam.ranges");
    found(
        (&RULES_CHAIN, pool(none)),
        (&RULES_CHAIN, space("tenants")),
        pools,
    );
    found(
        (&RULES_CHAIN, space("tenants")),
        (&RULES_CHAIN, pool(none)),
        pools,
    );
}

#[test]
fn a_folder_that_was_moved_is_found_by_the_default_or_by_a_record() {
    for (key, severity, of) in [
        ("dataDir", "error", "ipam.ranges"),
        ("stateDir", "warning", "ipam.stateDir"),
    ] {
        let moved = |sandbox: &Sandbox| {
            let mut ipam = ranges();
            ipam[key] = json!(sandbox.root().join("moved"));
            (&OURS[..], ipam)
        };
        assert_found(&after(&(&OURS, ranges()), moved, "testnet"), severity, of);
    }
    // Back from a folder that only the record names.
    let sandbox = sandbox();
    let mut ipam = ranges();
    ipam["dataDir"] = json!(sandbox.root().join("moved"));
    let config = conflist(&sandbox, &(&OURS, ipam), "testnet");
    add(&sandbox, &config, "living", THERE);
    conflist(&sandbox, &(&OURS, ranges()), "testnet");
    assert_found(&json_of(&sandbox, &["check"]), "error", "ipam.ranges");
}

#[test]
fn a_renamed_network_is_found_and_who_has_lost_an_address_is_named() {
    let renamed = after(&(&OURS, ranges()), |_| (&OURS, ranges()), "other");
    assert_found(&renamed, "warning", "ipam.ranges");
    let sandbox = sandbox();
    let config = conflist(&sandbox, &(&OURS, ranges()), "testnet");
    add(&sandbox, &config, "living", THERE);
    let config = conflist(&sandbox, &(&RULES_CHAIN, pool(&json!({}))), "testnet");
    add(&sandbox, &config, "second", THERE);
    let found = json_of(&sandbox, &["check"]);
    let problem = found[0]["problem"].as_str().unwrap();
    let lost = "10.77.0.2 of living (shop/web-1), lost to second";
    assert!(problem.starts_with(lost), "{found}");
}

#[test]
fn a_change_that_gives_no_address_again_has_no_finding() {
    let space = pool(&json!({"space": "testnet"}));
    let elsewhere = json!({"ranges": [[{"subnet": "10.78.0.0/28"}]]});
    let wider = json!({"ranges": [[{"subnet": "10.77.0.0/24"}]]});
    for later in [
        (&RULES_CHAIN[..], space),
        (&OURS, elsewhere),
        (&OURS, wider),
        (&["ipam-ds-ranges", "host-local"], ranges()),
    ] {
        let found = after(&(&OURS, ranges()), |_| later, "testnet");
        assert_eq!(found, json!([]));
    }
    // A folder that is reached by two paths is one.
    let linked = |sandbox: &Sandbox| {
        let link = sandbox.root().join("link");
        std::os::unix::fs::symlink(sandbox.data_dir(), &link).unwrap();
        assert!(fs::metadata(&link).unwrap().is_dir());
        let mut ipam = ranges();
        ipam["dataDir"] = json!(link);
        (&OURS[..], ipam)
    };
    assert_eq!(after(&(&OURS, ranges()), linked, "testnet"), json!([]));
}
