//! `ipamctl` keeps attachments whose state is unknown, and prints the reason.

use std::fs;
use std::path::Path;
use std::path::PathBuf;

use harness::{Call, Sandbox, needs};

use super::{GONE, THERE, add, id, network, status};

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
    let sandbox = Sandbox::default();
    let config = network(&sandbox);
    add(&sandbox, &config, &id("a1"), THERE);
    for error in ["ENOMEM", "EIO", "EACCES"] {
        let fails = format!("inject=?statx,?stat,?newfstatat:error={error}");
        let options = ["-f", "-P", THERE, "-e", &fails];
        let traced = |call: Call| call.traced(Path::new("/dev/null"), &options).run();
        let output = traced(gc(&sandbox));
        assert!(output.stdout.contains("kept: "), "{error}: {output:?}");
        assert!(output.stdout.contains("unknown"), "{error}: {output:?}");
        assert_eq!(sandbox.reserved("testnet").len(), 1, "{error}");
        let leaks = traced(sandbox.ipamctl(&["leaks"]));
        assert!(leaks.stdout.contains("unknown: netns"), "{leaks:?}");
        assert!(!leaks.stdout.contains("is gone"), "{leaks:?}");
    }
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
    assert_eq!(status(&leaks), Some(0), "{leaks:?}");
    let kept = gc(&sandbox).run();
    assert!(kept.stdout.contains(&holder), "{kept:?}");
    drop(file);
    assert_eq!(status(&sandbox.ipamctl(&["leaks"]).run()), Some(1));
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
    assert!(kept.stdout.contains("it may have a record"), "{kept:?}");
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
        // What can be read is shown.
        assert!(output.stdout.contains("10.77.0."), "{output:?}");
    }
}
