//! `pools`, `ls`, `show`, `map` and `metrics`: their complete outputs; they change nothing.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use harness::{Sandbox, assert_has, needs, repository};
use serde_json::{Value, json};

use super::check_lists::as_nobody;
use super::collection::record_of;
use super::{GONE, THERE, id, json_of, with};

#[test]
fn ls_names_holder_pod_and_state() {
    let (sandbox, _) = with(&[("a1", THERE)]);
    let rows = json_of(&sandbox, &["ls", "--network", "testnet"]);
    let row = &rows[0];
    assert_eq!(row["address"], "10.77.0.2");
    assert_eq!(row["containerID"], id("a1"));
    assert_eq!(
        (&row["ifname"], &row["state"]),
        (&json!("eth0"), &json!("added"))
    );
    assert_eq!(row["names"]["K8S_POD_NAME"], "web-1");
    let text = sandbox.ipamctl(&["ls"]).run().stdout;
    assert_has(&text, ["shop/web-1", " ago"]);
    assert!(
        text.contains(&id("a1")[..12]) && !text.contains(&id("a1")),
        "{text}"
    );
    let whole = sandbox.ipamctl(&["ls", "--no-trunc"]).run().stdout;
    assert!(whole.contains(&id("a1")), "{whole}");
    // The output isn't a terminal, so it has no colour.
    assert!(!text.contains('\x1b'));
    let none = sandbox.ipamctl(&["ls", "--network", "nowhere"]).run();
    none.ends(2);
}

#[test]
fn directories_of_host_local_are_shown_without_a_conflist_and_without_a_record() {
    let sandbox = Sandbox::default();
    let folder = sandbox.data_dir().join("old");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("10.1.0.2"), "c1\r\neth0").unwrap();
    fs::write(folder.join("10.1.0.3"), "c2").unwrap();
    fs::write(folder.join("lock"), "").unwrap();
    let rows = json_of(&sandbox, &["ls"]);
    let states: Vec<&Value> = rows
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["state"])
        .collect();
    assert_eq!(states, ["reserved", "reserved"]);
    assert_eq!(rows[1]["ifname"], Value::Null);
    assert_eq!(json_of(&sandbox, &["pools"])[0]["reserved"], 2);
    let shown = json_of(&sandbox, &["show", "10.1.0.2"]);
    assert_eq!(shown[0]["containerID"], "c1");
}

#[test]
fn show_finds_a_container_by_a_unique_beginning_and_lists_its_chain() {
    let (sandbox, _) = with(&[("a1", GONE), ("a2", THERE)]);
    let shown = json_of(&sandbox, &["show", "a1"]);
    let attachment = &shown[0];
    assert_eq!(attachment["netnsGone"], true);
    assert_eq!(attachment["delegates"][0]["name"], "ipam-ds-ranges");
    assert_eq!(
        attachment["delegates"][1]["answered"]["ips"][0]["address"],
        "10.77.0.2/24"
    );
    let text = sandbox.ipamctl(&["show", "10.77.0.3"]).run().stdout;
    for line in ["  1. ipam-ds-ranges: {", "  2. ipam-da-host-local: {"] {
        assert!(text.contains(line), "{text}");
    }
    let ambiguous = sandbox.ipamctl(&["show", "a"]).run();
    ambiguous.ends(2);
    // The message has both full IDs.
    assert!(ambiguous.stderr.contains(&id("a1")) && ambiguous.stderr.contains(&id("a2")));
}

#[test]
fn nothing_is_made_or_changed_by_looking() {
    let (sandbox, _) = with(&[("a1", GONE)]);
    let before = everything(sandbox.root());
    for words in [
        &["pools"][..],
        &["ls"],
        &["show", "a1"],
        &["map", "testnet"],
        &["leaks"],
        &["metrics"],
        &["check"],
    ] {
        sandbox.ipamctl(words).run();
    }
    let file = sandbox.conf_dir().join("10-testnet.conflist");
    sandbox.ipamctl(&["explain", file.to_str().unwrap()]).run();
    assert_eq!(everything(sandbox.root()), before);
}

/// Every file below a folder, with its size and modification time.
fn everything(folder: &Path) -> Vec<(String, u64, i64)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let metadata = fs::symlink_metadata(&path).unwrap();
        all.push((
            path.display().to_string(),
            metadata.len(),
            metadata.mtime_nsec(),
        ));
        if metadata.is_dir() {
            all.extend(everything(&path));
        }
    }
    all.sort();
    all
}

#[test]
fn without_a_conflist_there_is_nothing_and_that_is_said() {
    let sandbox = Sandbox::default();
    let output = sandbox.ipamctl(&["pools"]).run();
    assert!(
        output.stdout.is_empty() && !output.stderr.is_empty(),
        "{output:?}"
    );
    let output = sandbox.ipamctl(&["check"]).run();
    output.ends(2);
}

#[test]
fn a_record_of_a_newer_version_is_shown_as_such() {
    let (sandbox, _) = with(&[("a1", THERE)]);
    let record = record_of(&sandbox.state_dir(), &id("a1"));
    let content = fs::read_to_string(&record).unwrap();
    fs::write(&record, content.replacen("\"format\":", "\"format\":9", 1)).unwrap();
    assert_eq!(json_of(&sandbox, &["ls"])[0]["state"], "broken-record");
    let shown = json_of(&sandbox, &["show", "a1"]);
    assert!(
        shown[0]["recordProblem"].as_str().unwrap().contains('9'),
        "{shown}"
    );
}

#[test]
fn who_may_not_read_is_told_which_file_and_that_it_wants_root() {
    needs!("root");
    let (sandbox, _) = with(&[("a1", THERE)]);
    let output = as_nobody(&sandbox, &["ls"]);
    let path = sandbox.state_dir().display().to_string();
    output.warns([&path, "root"]);
    // Readable files are shown.
    output.prints(["10.77.0.2"]);
    as_nobody(&sandbox, &["metrics"]).ends(0);
    // Now nothing can be read.
    let private = Permissions::from_mode(0o700);
    fs::set_permissions(sandbox.data_dir(), private).unwrap();
    let metrics = as_nobody(&sandbox, &["metrics"]);
    metrics.ends(2);
}

#[test]
fn the_dashboard_asks_for_metrics_that_there_are() {
    let (sandbox, config) = with(&[("a1", THERE)]);
    // A DEL that has begun: without its allocator, it fails.
    fs::remove_file(sandbox.plugins().join("ipam-da-host-local")).unwrap();
    let del = sandbox.call("ipam-delegated", "DEL", &config);
    del.container(&id("a1")).run();
    let metrics = sandbox.ipamctl(&["metrics"]).run().stdout;
    let path = repository().join("docs/ipam-dashboard.json");
    let dashboard: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let exprs: Vec<&str> = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().unwrap())
        .map(|target| target["expr"].as_str().unwrap())
        .collect();
    let is_name = |word: &&str| word.starts_with("ipam_");
    let not_word = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    let names = exprs
        .iter()
        .flat_map(|expression| expression.split(not_word).filter(is_name));
    let mut asked = 0;
    for name in names {
        assert!(metrics.contains(&format!("# TYPE {name} gauge")), "{name}");
        asked += 1;
    }
    assert!(asked >= 5, "{asked}");
}

#[test]
fn metrics_name_pools_and_records() {
    let (sandbox, _) = with(&[("a1", THERE)]);
    let output = sandbox.ipamctl(&["metrics"]).run();
    let text = &output.stdout;
    let has = |line: &str| text.lines().any(|shown| shown.starts_with(line));
    assert!(has("ipam_pool_addresses{directory=\""), "{text}");
    assert!(
        has("ipam_attachment_records{network=\"testnet\",state=\"added\"} 1"),
        "{text}"
    );
    let samples = json_of(&sandbox, &["metrics"]);
    let count = json!({"metric": "ipam_attachment_records", "value": 1.0,
        "labels": {"network": "testnet", "state": "added"}});
    assert!(samples.as_array().unwrap().contains(&count), "{samples}");
}
