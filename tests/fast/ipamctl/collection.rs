//! `leaks` shows its evidence, and `gc` releases nothing that is in use.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use harness::Sandbox;
use harness::waiting::{kill_all, wait_for};
use serde_json::{Value, json};

use super::{GONE, HOSTS, OURS, THERE, add, id, json_of, network, with, with_list};

/// The output of `leaks`: containers and evidence.
pub(super) fn leaks(sandbox: &Sandbox, words: &[&str]) -> Vec<(String, Value)> {
    let printed = json_of(sandbox, &[&["leaks"], words].concat());
    let rows = printed.as_array().unwrap().iter();
    rows.map(|row| {
        (
            row["containerID"].as_str().unwrap().to_owned(),
            row["evidence"].clone(),
        )
    })
    .collect()
}

#[test]
fn a_container_whose_netns_is_gone_is_a_leak_and_one_whose_netns_is_there_is_none() {
    let (sandbox, _) = with(&[("a1", THERE), ("a2", GONE)]);
    assert_eq!(leaks(&sandbox, &[]), [(id("a2"), json!(["netns-gone"]))]);
    let text = json_of(&sandbox, &["leaks"])[0]["evidenceText"][0].clone();
    assert!(text.as_str().unwrap().ends_with(" is gone"), "{text}");
    let output = sandbox.ipamctl(&["leaks"]).run();
    output
        .ends(1)
        .prints([&format!("--ifname eth0 {}", id("a2"))]);
}

#[test]
fn without_record_and_list_nothing_is_known_and_that_is_said() {
    let sandbox = Sandbox::default();
    let folder = sandbox.data_dir().join("old");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("10.1.0.2"), "c1\r\neth0").unwrap();
    assert_eq!(
        leaks(&sandbox, &[]),
        [("c1".to_owned(), json!(["unknown"]))]
    );
    sandbox.ipamctl(&["leaks"]).run().ends(0);
    let of_list = |ids: &str| with_list(&sandbox, "leaks", ids).stdout;
    assert!(of_list(" c1 \r\n").contains("No leak is known."));
    assert!(of_list("c2\n").contains("not among the valid containers"));
    // A container that was created just now may be missing in the list.
    let young = sandbox.ipamctl(&["leaks", "--yes", "--json", "--valid", "-"]);
    assert!(!young.stdin("c2\n").run().stdout.contains("not-valid"));
}

#[test]
fn an_add_that_was_killed_long_ago_is_a_leak() {
    let sandbox =
        Sandbox::default().with_script("ipam-ds-slow", "[ $CNI_COMMAND != ADD ] || sleep 1000");
    let delegates = ["ipam-ds-slow", "ipam-da-host-local"];
    let config = sandbox.config("1.0.0", &delegates, &json!({}));
    let call = sandbox
        .call("ipam-delegated", "ADD", &config)
        .container(&id("a1"));
    let running = call.env("CNI_NETNS", THERE).start();
    let record = record_of(&sandbox.state_dir(), &id("a1"));
    wait_for(|| fs::metadata(&record).is_ok_and(|metadata| metadata.len() > 0));
    sandbox.write_conflist("10-testnet.conflist", &config);
    // The ADD is recent, and running.
    assert_eq!(leaks(&sandbox, &[]), []);
    make_old(&record);
    assert_eq!(
        leaks(&sandbox, &[]),
        [(id("a1"), json!(["pending", "unknown"]))]
    );
    let kept = sandbox.ipamctl(&["gc"]).run();
    assert!(!kept.stdout.contains(": released"), "{kept:?}");
    assert_eq!(sandbox.records("testnet").len(), 1);
    let refused = sandbox.ipamctl(&["release", "a1"]).run();
    refused.ends(2).prints(["is still running"]);
    running.kill();
    kill_all(&sandbox);
    make_old(&record);
    assert_eq!(leaks(&sandbox, &[]), [(id("a1"), json!(["pending"]))]);
    let dry = sandbox.ipamctl(&["gc", "--dry-run"]).run();
    dry.prints(["would be released"]);
    let output = sandbox.ipamctl(&["gc"]).run();
    output.prints([": released"]);
    assert_eq!(sandbox.records("testnet"), [""; 0]);
}

/// Sets the time of a file's last change an hour back.
fn make_old(file: &Path) {
    let opened = fs::File::options().append(true).open(file).unwrap();
    let an_hour_ago = SystemTime::now() - Duration::from_secs(3_600);
    opened.set_modified(an_hour_ago).unwrap();
}

#[test]
fn gc_without_a_list_repeats_a_del_that_failed_and_nothing_else() {
    let flag = r#"[ $CNI_COMMAND != DEL ] || [ -e "$0.works" ] || exit 1; sed 's/.*"prevResult":\({.*}\)}$/\1/'"#;
    let sandbox = Sandbox::default().with_script("flaky", flag);
    let mut config = network(&sandbox);
    config["ipam"]["delegates"] = json!([OURS[0], OURS[1], "flaky"]);
    sandbox.write_conflist("10-testnet.conflist", &config);
    add(&sandbox, &config, &id("a1"), GONE);
    add(&sandbox, &config, &id("a2"), GONE);
    let del = sandbox.call("ipam-delegated", "DEL", &config);
    assert!(!del.container(&id("a1")).run().status.success());
    let evidence = |rows: &[(String, Value)]| rows.iter().map(|row| row.1.clone()).collect();
    let found: Vec<Value> = evidence(&leaks(&sandbox, &[]));
    assert_eq!(found, [json!(["pending"]), json!(["netns-gone"])]);
    let failed = sandbox.ipamctl(&["gc"]).run();
    failed.ends(2).prints([": failed: "]);
    fs::write(sandbox.plugins().join("flaky.works"), "").unwrap();
    let done = sandbox.ipamctl(&["gc"]).run();
    done.ends(0);
    // The other one's namespace is gone, but nobody has begun its DEL.
    assert_eq!(
        sandbox.records("testnet"),
        [format!("{}:eth0.json", id("a2"))]
    );
}

#[test]
fn an_engine_that_is_away_for_one_attachment_keeps_no_other_one_waiting_for_ever() {
    let away = r#"[ $CNI_COMMAND != DEL ] || { echo '{"code": 11, "msg": "away"}'; exit 1; }
        echo '{"cniVersion": "1.0.0", "ips": []}'"#;
    let sandbox = Sandbox::default().with_script("engine", away);
    let config = sandbox.config("1.0.0", &["engine"], &json!({}));
    sandbox.write_conflist("10-testnet.conflist", &config);
    for container in ["a1", "a2"] {
        add(&sandbox, &config, &id(container), GONE);
        let del = sandbox.call("ipam-delegated", "DEL", &config);
        assert_eq!(del.container(&id(container)).run().code(), 11);
    }
    let tried = || {
        let output = sandbox.ipamctl(&["gc", "--json"]).run();
        let rows: Value = output.json();
        let rows = rows.as_array().unwrap().iter();
        let failed = rows.filter(|row| row["outcome"] == "failed");
        let failed: Vec<String> = failed.map(|row| row["containerID"].to_string()).collect();
        assert_eq!(failed.len(), 1, "{output:?}");
        failed
    };
    assert_ne!(tried(), tried());
}

#[test]
fn gc_releases_what_is_old_and_not_in_the_list_and_nothing_else() {
    let (sandbox, config) = with(&[]);
    for name in ["a1", "a2"] {
        add(&sandbox, &config, &id(name), HOSTS);
    }
    let gc = |words: &[&str]| {
        let call = sandbox.ipamctl(&["gc", "--valid", "-"]);
        call.args(words).stdin(id("a1")).run()
    };
    let young = gc(&[]);
    young.prints(["kept: it is younger than 1 min"]);
    let dry = gc(&["--older-than", "0s", "--dry-run"]);
    dry.prints(["would be released"]);
    assert_eq!(sandbox.reserved("testnet").len(), 2);
    let other = gc(&["--older-than", "0s", "--network", "nowhere"]);
    other.ends(2);
    let done = gc(&["--older-than", "0s"]);
    done.ends(0);
    assert_eq!(sandbox.reserved("testnet"), ["10.77.0.2"]);
    assert_eq!(sandbox.records("testnet").len(), 1);
    // A second run has nothing to do.
    assert!(gc(&["--older-than", "0s"]).stdout.is_empty());
}

#[test]
fn gc_refuses_a_list_that_names_nothing_that_is_there() {
    let (sandbox, _) = with(&[("a1", GONE)]);
    let gc = |list: &str, words: &[&str]| {
        let call = sandbox.ipamctl(&["gc", "--older-than", "0s", "--valid", "-"]);
        call.args(words).stdin(list).run()
    };
    for (list, reason) in [
        ("", "--yes"),
        ("a10000000000\n", "--no-trunc"),
        ("CONTAINER ID\n", "line 1"),
    ] {
        let refused = gc(list, &[]);
        refused.failed(2, [reason]);
        assert_eq!(sandbox.reserved("testnet").len(), 1);
    }
    gc("", &["--yes"]);
    assert_eq!(sandbox.reserved("testnet").len(), 0);
    gc(&id("a1"), &[]).ends(0);
}

#[test]
fn gc_collects_a_reservation_that_has_no_record_through_todays_conflist() {
    let (sandbox, _) = with(&[("a1", THERE)]);
    fs::remove_dir_all(sandbox.state_dir()).unwrap();
    make_old(&sandbox.data_dir().join("testnet/10.77.0.2"));
    let output = sandbox
        .ipamctl(&["gc", "--yes", "--valid", "-"])
        .stdin(id("a2"))
        .run();
    output.prints([": released"]);
    sandbox.holds_nothing("testnet");
}

#[test]
fn gc_compares_ages_with_the_time_of_the_list() {
    let (sandbox, config) = with(&[]);
    let list = sandbox.root().join("valid");
    fs::write(&list, id("a1")).unwrap();
    make_old(&list);
    add(&sandbox, &config, &id("a2"), HOSTS);
    let gc = sandbox.ipamctl(&["gc", "--yes", "--older-than", "0s", "--valid"]);
    let output = gc.args([&list]).run();
    output.prints(["kept: it is younger than"]);
    assert_eq!(sandbox.reserved("testnet").len(), 1);
}

#[test]
fn a_time_in_the_future_keeps_nothing_whose_namespace_is_gone() {
    let (sandbox, _) = with(&[("a1", GONE)]);
    // Without a record, nothing is known of its namespace.
    let reservations = sandbox.data_dir().join("testnet");
    fs::write(reservations.join("10.77.0.9"), "c9\r\neth0").unwrap();
    for ip in ["10.77.0.2", "10.77.0.9"] {
        let file = fs::File::options().append(true).open(reservations.join(ip));
        let in_a_day = SystemTime::now() + Duration::from_secs(86_400);
        file.unwrap().set_modified(in_a_day).unwrap();
    }
    let output = with_list(&sandbox, "gc", "");
    assert_eq!(sandbox.reserved("testnet"), ["10.77.0.9"], "{output:?}");
    let why = "its time is in the future";
    output.prints([why]);
}

#[test]
fn gc_goes_on_though_nobody_reads_what_it_prints() {
    let (sandbox, config) = with(&[]);
    for i in 0..4 {
        add(&sandbox, &config, &id(&format!("a{i}")), GONE);
    }
    let words = ["gc", "--older-than", "0s", "--yes", "--valid", "-"];
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let mut gc = std::process::Command::new(sandbox.ipamctl(&words).executable());
    let call = sandbox.ipamctl(&words);
    gc.args(call.words().skip(1));
    let status = gc
        .stdin(std::process::Stdio::null())
        .stdout(full)
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(2));
    assert_eq!(sandbox.reserved("testnet"), [""; 0]);
}

/// A record with a DEL that has begun, in the place of the record of an ADD.
fn begin_del(record: &Path) {
    let mut file = fs::File::options().append(true).open(record).unwrap();
    file.write_all(b"{\"deleting\":{\"at\":\"2026-11-24T12:00:00Z\"}}\n")
        .unwrap();
}

pub(super) fn record_of(state_dir: &Path, container: &str) -> PathBuf {
    state_dir.join(format!("testnet/{container}:eth0.json"))
}

#[test]
fn an_endpoint_of_docker_whose_undoing_has_begun_is_left_to_the_daemon() {
    let (sandbox, _) = with(&[("a1", GONE)]);
    let record = record_of(&sandbox.state_dir(), &id("a1"));
    let content = fs::read_to_string(&record).unwrap();
    let of_daemon = content.replacen("\"config\":", "\"isCallers\":true,\"config\":", 1);
    fs::write(&record, of_daemon).unwrap();
    begin_del(&record);
    assert_eq!(leaks(&sandbox, &[]), []);
    for words in [&["gc"][..], &["gc", "--yes", "--valid", "-"]] {
        let output = sandbox.ipamctl(words).run();
        output.ends(0);
        assert_eq!(output.stdout, "");
    }
    let refused = sandbox.ipamctl(&["release", "a1"]).run();
    refused.prints(["docker network"]);
}

#[test]
fn gc_releases_what_it_can_read_and_prints_it_though_a_folder_cant_be_read() {
    let (sandbox, _) = with(&[("a1", GONE)]);
    begin_del(&record_of(&sandbox.state_dir(), &id("a1")));
    for unreadable in ["another", "zone"] {
        let folder = sandbox.state_dir().join(unreadable);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("c1:eth0.json"), "{}\n").unwrap();
        // A folder that others may write to isn't used.
        fs::set_permissions(&folder, PermissionsExt::from_mode(0o777)).unwrap();
    }
    let output = sandbox.ipamctl(&["gc"]).run();
    output.failed(2, ["another"]);
    output.prints([": released"]);
    assert_eq!(sandbox.reserved("testnet"), [""; 0]);
}

#[test]
fn an_attachment_with_records_in_two_folders_is_unknown_and_both_are_named() {
    let (sandbox, config) = with(&[("a1", GONE)]);
    // The container was started again after `stateDir` was changed.
    let moved = sandbox.root().join("moved");
    let mut config = config;
    config["ipam"]["stateDir"] = json!(moved);
    sandbox.write_conflist("10-testnet.conflist", &config);
    add(&sandbox, &config, &id("a1"), THERE);
    let two = [
        record_of(&sandbox.state_dir(), &id("a1")),
        record_of(&moved, &id("a1")),
    ];
    let is_named = |text: &str| {
        two.iter()
            .all(|record| text.contains(record.to_str().unwrap()))
    };
    let output = sandbox.ipamctl(&["leaks"]).run();
    output.ends(0);
    assert!(
        output.stdout.contains("unknown: ") && is_named(&output.stdout),
        "{output:?}"
    );
    begin_del(&two[0]);
    let kept = sandbox.ipamctl(&["gc"]).run().stdout;
    assert!(kept.contains("kept: ") && is_named(&kept), "{kept}");
    let refused = sandbox.ipamctl(&["release", "a1"]).run();
    refused.ends(2);
    assert!(is_named(&refused.stdout), "{refused:?}");
    fs::remove_file(&two[0]).unwrap();
    // The one that is left doesn't name the address of the other.
    assert_eq!(
        leaks(&sandbox, &[]),
        [(id("a1"), json!(["other-addresses"]))]
    );
}

#[test]
fn a_file_that_is_cut_off_is_a_leak_and_its_address_isnt_free() {
    let sandbox = Sandbox::default();
    network(&sandbox);
    let folder = sandbox.data_dir().join("testnet");
    fs::create_dir_all(&folder).unwrap();
    let of_torn = |ip: &str, content: &str| {
        let file = folder.join(ip);
        fs::write(&file, content).unwrap();
        make_old(&file);
    };
    for (ip, content) in [
        ("10.77.0.2", "c1\r"),
        ("10.77.0.3", "\0\0\0"),
        ("10.77.0.4", ""),
    ] {
        of_torn(ip, content);
    }
    let rows = json_of(&sandbox, &["ls"]);
    let states = rows.as_array().unwrap().iter().map(|row| &row["state"]);
    assert_eq!(states.collect::<Vec<_>>(), ["torn", "torn", "empty"]);
    // ADD gives an empty file's address out, and no other.
    let pools = json_of(&sandbox, &["pools"]);
    assert_eq!(
        (&pools[0]["reserved"], &pools[0]["free"]),
        (&json!(2), &json!(235))
    );
    let found = json_of(&sandbox, &["leaks"]);
    let evidence = found.as_array().unwrap().iter().map(|row| &row["evidence"]);
    assert_eq!(
        evidence.collect::<Vec<_>>(),
        [&json!(["torn"]), &json!(["torn"])]
    );
    sandbox.ipamctl(&["leaks"]).run().ends(1);
    let gc = |words: &[&str]| sandbox.ipamctl(&[&["gc"], words].concat()).run();
    assert_eq!(gc(&[]).stdout, "");
    let output = sandbox.ipamctl(&["release", "10.77.0.2"]).run();
    output.prints(["by its file only"]);
    let output = gc(&["--yes", "--valid", "-"]);
    output.prints(["by its file only"]);
    assert_eq!(sandbox.reserved("testnet"), ["10.77.0.4"]);
}
