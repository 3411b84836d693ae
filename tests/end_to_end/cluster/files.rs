//! The files of a node in a cluster: failing system calls, a full disk, a pipe.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use harness::{ETCD, ETCDCTL, needs};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use super::Cluster;
use super::injected::Victim;
use super::pool_cluster::{PoolCluster, promises};
use crate::killed::{STRACE, strace_works};

macro_rules! needs_strace {
    () => {
        needs!(STRACE);
        if !strace_works() {
            harness::skip("cluster::files", "strace may not trace here");
            return;
        }
    };
}

/// The errors with which a system call fails, in turn.
const ERRORS: [&str; 4] = ["ENOSPC", "EIO", "EINTR", "EACCES"];

fn an_add_of_which_any_system_call_fails_leaves_nothing_after_del(cluster: &mut dyn PoolCluster) {
    needs_strace!();
    let cluster = &*cluster;
    let pools = json!([{"name": "red", "subnet": "10.1.0.0/24"}]);
    // A new node each time, because its first ADD writes the most files.
    let node = |i: usize| Victim::new(cluster, cluster.allocator(), &format!("n{i}"), &pools);
    let points = node(0).points("ADD", "c");
    node(0).run("DEL", "c").nothing();
    for (i, point) in points.iter().enumerate() {
        // These two system calls can't fail with such an error.
        if matches!(point.name.as_str(), "exit_group" | "epoll_wait") {
            continue;
        }
        let victim = node(i + 1);
        let error = ERRORS[i % ERRORS.len()];
        let injection = format!("inject={}:error={error}:when={}", point.name, point.time);
        let output = victim.impatient().injected("ADD", "c", &injection);
        let what = || format!("{error} of {point:?}: {output:?}");
        assert!(
            output.status.code().is_some_and(|code| code < 2),
            "{}",
            what()
        );
        // Nor can a write to an eventfd, with which tokio wakes a thread: it panics.
        let is_possible = !output.stdout.contains("failed to wake I/O driver");
        if output.status.code() == Some(1) && is_possible {
            let held = cluster.held();
            assert!(held.is_empty(), "{held:?} {}", what());
        }
        victim.run("DEL", "c").nothing();
        // The next call isn't affected.
        assert!(victim.run("ADD", "d").status.success(), "{}", what());
        victim.run("DEL", "d").nothing();
        let held = cluster.held();
        assert!(held.is_empty(), "{held:?} {}", what());
    }
    assert!(cluster.reserved("red").is_empty());
}

fn a_claim_on_a_full_disk_takes_no_block_and_containers_start_while_there_is_room(
    cluster: &mut dyn PoolCluster,
) {
    needs_strace!();
    cluster.define("blue", &json!({"subnet": "10.0.0.0/24", "block": 30}));
    let named = json!([{"name": "blue"}]);
    let victim = Victim::new(cluster, cluster.selector(), "n1", &named);
    let blocks = || cluster.blocks("blue").len();
    let full = "inject=write:error=ENOSPC:when=1+";
    // Its result can't be written, either. The test requires only that nothing is claimed.
    let output = victim.injected("ADD", "c", full);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(blocks(), 0);
    let full = "inject=fsync:error=ENOSPC:when=1+";
    assert_eq!(victim.injected("ADD", "c", full).code(), 5);
    assert_eq!(blocks(), 0);
    victim.run("ADD", "c").result();
    assert_eq!(blocks(), 1);
    victim.injected("ADD", "c", full).result();
}

promises! {
    an_add_of_which_any_system_call_fails_leaves_nothing_after_del,
    a_claim_on_a_full_disk_takes_no_block_and_containers_start_while_there_is_room,
}

#[test]
fn with_umask_0_the_files_are_roots_alone() {
    needs!(ETCD, ETCDCTL);
    let cluster = Cluster::default();
    cluster.etcd.put(
        "/ipam/v1/pools/blue",
        r#"{"subnet":"10.0.0.0/24","block":28}"#,
    );
    let addresses = json!([{"name": "red", "subnet": "10.1.0.0/24"}]);
    for config in [
        cluster.config("n1", &["ipam-da-etcd"], &addresses),
        cluster.config(
            "n1",
            &["ipam-ds-etcd", "ipam-da-host-local"],
            &json!([{"name": "blue"}]),
        ),
    ] {
        let container = if config["ipam"]["pools"] == addresses {
            "a"
        } else {
            "b"
        };
        let call = cluster.call("ADD", container, &config);
        let call = call.through(&["/bin/sh", "-c", "umask 0; exec \"$0\""]);
        call.run().result();
    }
    let mut seen = 0;
    for folder in ["cache", "engine-state", "engine-state/blocks"] {
        let folder = cluster.sandbox.root().join("n1").join(folder);
        for entry in fs::read_dir(&folder).unwrap() {
            let entry = entry.unwrap();
            let mode = entry.metadata().unwrap().permissions().mode() & 0o077;
            assert_eq!(mode, 0, "{}", entry.path().display());
            seen += 1;
        }
    }
    // The session, the registration, a rotation place, the token, etcd's latest state, the folder
    // of the blocks and a file in it; and a lock in each folder.
    assert_eq!(seen, 10);
}

#[test]
fn a_pipe_in_the_place_of_the_password_or_of_a_certificate_is_refused_at_once() {
    needs!(ETCD, ETCDCTL);
    let cluster = Cluster::default();
    let pipe = cluster.sandbox.root().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let pools = json!([{"name": "red", "subnet": "10.1.0.0/24"}]);
    let config = cluster.config("n1", &["ipam-da-etcd"], &pools);
    let refused = |container: &str, config: &Value, key: &str| {
        let error = cluster.add(container, config).error();
        assert_eq!(error["code"], 7);
        let file = match key {
            // The value may be the password.
            "passwordFile" => "the file that it names".into(),
            _ => pipe.display().to_string(),
        };
        let expected = format!("ipam.etcd.{key}: {file}: it is not a regular file");
        assert!(
            error["msg"].as_str().unwrap().contains(&expected),
            "{error}"
        );
    };
    let mut password = config.clone();
    password["ipam"]["etcd"]["username"] = json!("node");
    password["ipam"]["etcd"]["passwordFile"] = json!(pipe);
    refused("a", &password, "passwordFile");
    let mut authority = config.clone();
    authority["ipam"]["etcd"]["endpoints"] = json!(["https://127.0.0.1:1"]);
    authority["ipam"]["etcd"]["ca"] = json!(pipe);
    refused("b", &authority, "ca");
}
