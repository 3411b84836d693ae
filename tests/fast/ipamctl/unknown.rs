//! `ipamctl` keeps attachments whose state is unknown, and prints the reason.

use std::fs;
use std::path::Path;
use std::path::PathBuf;

use harness::{Call, Sandbox, needs};

use super::{GONE, THERE, id, with};

fn gc(sandbox: &Sandbox) -> Call {
    let words = ["gc", "--older-than", "0s", "--yes", "--valid", "-"];
    sandbox.ipamctl(&words)
}

fn record(sandbox: &Sandbox, container: &str) -> PathBuf {
    let name = format!("{container}:eth0.json");
    sandbox.state_dir().join("testnet").join(name)
}

#[test]
fn gc_keeps_a_container_whose_namespace_cant_be_asked_for() {
    needs!("trace");
    let (sandbox, _) = with(&[("a1", THERE)]);
    for error in ["ENOMEM", "EIO", "EACCES"] {
        let fails = format!("inject=?statx,?stat,?newfstatat:error={error}");
        let options = ["-f", "-P", THERE, "-e", &fails];
        let traced = |call: Call| call.traced(Path::new("/dev/null"), &options).run();
        let output = traced(gc(&sandbox));
        assert!(output.stdout.contains("kept: "), "{error}: {output:?}");
        assert!(output.stdout.contains("unknown"), "{error}: {output:?}");
        assert_eq!(sandbox.reserved("testnet").len(), 1, "{error}");
        let leaks = traced(sandbox.ipamctl(&["leaks"]));
        leaks.prints(["unknown: netns"]);
        assert!(!leaks.stdout.contains("is gone"), "{leaks:?}");
    }
}

#[test]
fn the_process_that_holds_a_lock_is_named_and_not_taken_for_a_call() {
    let (sandbox, _) = with(&[("a1", GONE)]);
    // Like a daemon that a delegate has left behind.
    let file = fs::File::open(record(&sandbox, &id("a1"))).unwrap();
    file.lock().unwrap();
    let holder = format!("process {} (", std::process::id());
    let leaks = sandbox.ipamctl(&["leaks"]).run();
    leaks.prints([&holder, "its lock is held by"]);
    assert!(!leaks.stdout.contains("call is running"), "{leaks:?}");
    leaks.ends(0);
    let kept = gc(&sandbox).run();
    kept.prints([&holder]);
    drop(file);
    sandbox.ipamctl(&["leaks"]).run().ends(1);
}

#[test]
fn gc_keeps_what_may_have_a_record_that_cant_be_read() {
    let (sandbox, _) = with(&[("a1", THERE)]);
    // A folder that others may write to isn't used.
    let folder = sandbox.state_dir().join("testnet");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    fs::set_permissions(&folder, open).unwrap();
    let kept = gc(&sandbox).run();
    kept.ends(2).prints(["it may have a record"]);
    assert_eq!(sandbox.reserved("testnet").len(), 1);
    // A damaged record doesn't show whether its namespace exists.
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    fs::set_permissions(&folder, private).unwrap();
    fs::write(record(&sandbox, &id("a1")), "damaged\n").unwrap();
    let kept = gc(&sandbox).run();
    kept.prints(["kept: "]);
    assert_eq!(sandbox.reserved("testnet").len(), 1);
}

#[test]
fn an_answer_without_a_conflist_that_cant_be_read_is_incomplete() {
    let (sandbox, _) = with(&[("a1", GONE)]);
    sandbox.write_conf("20-broken.conflist", "{");
    for words in [
        &["ls"][..],
        &["pools"],
        &["leaks"],
        &["show", "10.77.0.2"],
        &["map", "testnet"],
    ] {
        let output = sandbox.ipamctl(words).run();
        println!("{words:?}");
        output.failed(2, ["20-broken.conflist"]);
        // What can be read is shown.
        output.prints(["10.77.0."]);
    }
}
