//! `ipamctl` keeps attachments whose state is unknown, and prints the reason.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use harness::{Call, STRACE, Sandbox, needs};
use serde_json::{Value, json};

use super::{GONE, THERE, add, id, json_of, network, status};

fn gc(sandbox: &Sandbox) -> Call {
    let words = ["gc", "--older-than", "0s", "--none-valid", "--valid", "-"];
    sandbox.ipamctl(&words)
}

fn record(sandbox: &Sandbox, container: &str) -> PathBuf {
    let name = format!("{container}:eth0.json");
    sandbox.state_dir().join("testnet").join(name)
}

/// Changes the record's content.
fn change_record(sandbox: &Sandbox, container: &str, change: impl FnOnce(&mut Value)) {
    let path = record(sandbox, container);
    let content = fs::read_to_string(&path).unwrap();
    let (first, rest) = content.split_once('\n').unwrap();
    let mut intent: Value = serde_json::from_str(first).unwrap();
    change(&mut intent["adding"]);
    fs::write(&path, format!("{intent}\n{rest}")).unwrap();
}

/// Sets back the start of a record's ADD.
fn make_older(intent: &mut Value, by: Duration) {
    let call = intent["call"]["id"].as_str().unwrap().to_owned();
    let [pid, _, number] = call.split('-').collect::<Vec<_>>()[..] else {
        panic!("{call}");
    };
    let then = (SystemTime::now() - by).duration_since(UNIX_EPOCH).unwrap();
    intent["call"]["id"] = json!(format!("{pid}-{}-{number}", then.as_nanos()));
}

#[test]
fn gc_keeps_a_container_whose_namespace_cant_be_asked_for() {
    needs!(STRACE);
    if !harness::FaultWalk::is_possible() {
        harness::skip("ipamctl::unknown", "strace may not trace here");
        return;
    }
    let sandbox = Sandbox::default();
    let config = network(&sandbox);
    add(&sandbox, &config, &id("a1"), THERE);
    for error in ["ENOMEM", "EIO", "EACCES"] {
        let fails = format!("inject=statfs:error={error}");
        let strace = [STRACE, "-f", "-qq", "-o", "/dev/null", "-e", &fails];
        let output = gc(&sandbox).through(&strace).run();
        assert!(output.stdout.contains("kept: "), "{error}: {output:?}");
        assert!(output.stdout.contains("unknown"), "{error}: {output:?}");
        assert_eq!(sandbox.reserved("testnet").len(), 1, "{error}");
        let leaks = sandbox.ipamctl(&["leaks"]).through(&strace).run();
        assert!(leaks.stdout.contains("unknown: netns"), "{leaks:?}");
        assert!(!leaks.stdout.contains("is gone"), "{leaks:?}");
    }
}

#[test]
fn a_process_id_that_may_have_been_used_again_is_no_proof_of_anything() {
    let sandbox = Sandbox::default();
    let config = network(&sandbox);
    let netns = format!("/proc/{}/ns/net", std::process::id());
    add(&sandbox, &config, &id("a1"), &netns);
    // The process of the ADD has this ID.
    assert_eq!(json_of(&sandbox, &["leaks"]), json!([]));
    // This process was started after the recorded ADD.
    let an_hour = Duration::from_secs(3_600);
    change_record(&sandbox, &id("a1"), |intent| make_older(intent, an_hour));
    let leaks = json_of(&sandbox, &["leaks"]);
    assert_eq!(leaks[0]["evidence"], json!(["unknown"]), "{leaks}");
    let shown = json_of(&sandbox, &["show", &id("a1")]);
    assert_eq!(shown[0]["netnsGone"], Value::Null, "{shown}");
    assert!(shown[0]["netnsUnknown"].is_string(), "{shown}");
    let kept = gc(&sandbox).run();
    assert!(kept.stdout.contains("kept: "), "{kept:?}");
    assert_eq!(sandbox.reserved("testnet").len(), 1);
}

#[test]
fn another_boot_id_is_proof_only_of_an_add_before_this_boot() {
    let sandbox = Sandbox::default();
    let config = network(&sandbox);
    add(&sandbox, &config, &id("a1"), GONE);
    // As in a container for which the kernel shows a different boot ID.
    change_record(&sandbox, &id("a1"), |intent| {
        intent["boot"] = json!("another");
    });
    let leaks = json_of(&sandbox, &["leaks"]);
    assert_eq!(leaks[0]["evidence"], json!(["unknown"]), "{leaks}");
    let kept = gc(&sandbox).run();
    assert!(kept.stdout.contains("kept: "), "{kept:?}");
    // Before this boot.
    let years = Duration::from_secs(20 * 365 * 86_400);
    change_record(&sandbox, &id("a1"), |intent| make_older(intent, years));
    let leaks = json_of(&sandbox, &["leaks"]);
    assert_eq!(leaks[0]["evidence"][0], "before-boot", "{leaks}");
    let released = gc(&sandbox).run();
    assert!(released.stdout.contains(": released"), "{released:?}");
}

#[test]
fn the_process_that_holds_a_lock_is_named_and_not_taken_for_a_call() {
    let sandbox = Sandbox::default();
    let config = network(&sandbox);
    add(&sandbox, &config, &id("a1"), GONE);
    // Like a daemon that a delegate has left behind.
    let file = fs::File::open(record(&sandbox, &id("a1"))).unwrap();
    file.lock().unwrap();
    let holder = format!("process {} (", std::process::id());
    let leaks = sandbox.ipamctl(&["leaks"]).run();
    assert!(leaks.stdout.contains(&holder), "{leaks:?}");
    assert!(leaks.stdout.contains("its lock is held by"), "{leaks:?}");
    assert!(!leaks.stdout.contains("call is running"), "{leaks:?}");
    let rows = json_of(&sandbox, &["leaks"]);
    assert_eq!(rows[0]["locked"], true);
    assert!(
        rows[0]["lockedBy"][0]
            .as_str()
            .unwrap()
            .starts_with(&holder)
    );
    let kept = gc(&sandbox).run();
    assert!(kept.stdout.contains(&holder), "{kept:?}");
}

#[test]
fn gc_keeps_what_may_have_a_record_that_cant_be_read() {
    let sandbox = Sandbox::default();
    let config = network(&sandbox);
    add(&sandbox, &config, &id("a1"), THERE);
    // A folder that others may write to isn't used.
    let folder = sandbox.state_dir().join("testnet");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    fs::set_permissions(&folder, open).unwrap();
    let kept = gc(&sandbox).run();
    assert!(
        kept.stdout.contains("kept: it may have a record"),
        "{kept:?}"
    );
    assert_eq!(status(&kept), Some(2), "{kept:?}");
    assert_eq!(sandbox.reserved("testnet").len(), 1);
    // A damaged record doesn't show whether its namespace exists.
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    fs::set_permissions(&folder, private).unwrap();
    fs::write(record(&sandbox, &id("a1")), "damaged\n").unwrap();
    let kept = gc(&sandbox).run();
    assert!(kept.stdout.contains("kept: "), "{kept:?}");
    assert_eq!(sandbox.reserved("testnet").len(), 1);
}

#[test]
fn metrics_count_a_reclaim_that_cant_be_read() {
    let sandbox = Sandbox::default();
    let config = network(&sandbox);
    add(&sandbox, &config, &id("a1"), THERE);
    let note = sandbox.data_dir().join("testnet/last_boot.testnet");
    std::os::unix::fs::symlink(&note, &note).unwrap();
    let output = sandbox.ipamctl(&["metrics"]).run();
    assert!(output.stdout.contains("ipam_problems 1"), "{output:?}");
    assert!(output.stderr.contains("last reclaim"), "{output:?}");
}

#[test]
fn a_file_from_before_1970_is_shown_with_its_time() {
    let sandbox = Sandbox::default();
    network(&sandbox);
    let folder = sandbox.data_dir().join("testnet");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("10.77.0.2"), "c1\r\neth0").unwrap();
    let file = fs::File::options()
        .append(true)
        .open(folder.join("10.77.0.2"));
    let before = UNIX_EPOCH - Duration::from_secs(86_400);
    file.unwrap().set_modified(before).unwrap();
    for command in ["ls", "leaks"] {
        let rows = json_of(&sandbox, &[command]);
        assert_eq!(rows[0]["since"], "1969-12-31T00:00:00Z", "{rows}");
        let output = sandbox.ipamctl(&[command]).run();
        assert_eq!(status(&output), Some(0), "{output:?}");
    }
}

#[test]
fn an_answer_without_a_conflist_that_cant_be_read_is_incomplete() {
    let sandbox = Sandbox::default();
    let config = network(&sandbox);
    add(&sandbox, &config, &id("a1"), GONE);
    sandbox.write_conf("20-broken.conflist", "{");
    for words in [
        &["ls"][..],
        &["pools"],
        &["leaks"],
        &["show", "10.77.0.2"],
        &["map", "testnet"],
    ] {
        let output = sandbox.ipamctl(words).run();
        assert_eq!(status(&output), Some(2), "{words:?}: {output:?}");
        assert!(output.stderr.contains("20-broken.conflist"), "{output:?}");
    }
}
