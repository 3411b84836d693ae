//! Runs `cargo xtask demo` without some tools: it names them, and ends well.
//!
//! Needs: Rust; root and the reference plugin `bridge` for containers that are namespaces. Takes two
//! seconds.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use harness::needs;

/// Stdout of the demo on a `PATH` without these programs.
fn demo_without(hidden: &[&str]) -> String {
    let path = tempfile::tempdir().unwrap();
    let folders = std::env::var_os("PATH").unwrap();
    for folder in std::env::split_paths(&folders) {
        link_all(&folder, path.path(), hidden);
    }
    let mut demo = Command::new(env!("CARGO_BIN_EXE_xtask"));
    let output = demo.arg("demo").env("PATH", path.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Links to all programs of a folder but the hidden ones. The first folder on `PATH` that
/// has a program comes first.
fn link_all(folder: &Path, to: &Path, hidden: &[&str]) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if hidden.iter().all(|hidden| name != *hidden) {
            // Fails for a program that an earlier folder has.
            let _ = symlink(entry.path(), to.join(name));
        }
    }
}

fn assert_it_ends_well(story: &str) {
    for heading in ["\n== ADD: ", "\n== CHECK: ", "\n== DEL: ", "\n== GC: "] {
        assert!(story.contains(heading), "no {heading:?} in:\n{story}");
    }
    assert!(story.ends_with("\nAll as it should be.\n"), "{story}");
    for line in story.lines() {
        assert!(line.chars().count() <= 100, "a wide line: {line}");
    }
}

#[test]
fn without_ping_the_demo_names_it_and_tells_the_rest_of_the_story() {
    let story = demo_without(&["ping"]);
    assert_it_ends_well(&story);
    needs!("root", "bridge", "/sbin/ip");
    assert!(story.contains("ping isn't installed"), "{story}");
    assert!(story.contains("CNI_IFNAME=eth0 bridge\n"), "{story}");
    assert!(!story.contains("64 bytes from"), "{story}");
}

#[test]
fn without_any_tool_the_demo_calls_the_chain_itself() {
    let story = demo_without(&["ip", "bridge", "ping", "unshare", "nsenter"]);
    assert_it_ends_well(&story);
    assert!(story.contains("No network namespaces: "), "{story}");
    assert!(!story.contains("CNI_IFNAME=eth0 bridge\n"), "{story}");
    needs!("root", "bridge");
    assert!(story.contains("ip isn't installed"), "{story}");
}
