//! Full or read-only disks, wrong owners and modes, a lock that another process holds: a call
//! succeeds, or fails with a CNI error that names the path, without leaving anything.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread;

use harness::{Call, Flavour, Node, Sandbox, assert_has, needs};
use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::json;

use harness::waiting::{held_lock, wait_for};

/// A call of the allocator with its data in this folder.
fn call(sandbox: &Sandbox, command: &str, container: &str, data_dir: &Path) -> Call {
    let mut config = sandbox.config("1.1.0", &[], &json!({ "dataDir": data_dir }));
    config["prevResult"] = json!({"pools": [{"subnet": "10.1.0.0/24"}, {"subnet": "fd00:1::/64"}]});
    config["cni.dev/valid-attachments"] = json!([]);
    sandbox
        .call("ipam-da-host-local", command, &config)
        .container(container)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The names of all files in a directory on the node.
fn names(node: &Node, directory: &Path) -> Vec<String> {
    let listed = node.sh(&format!("ls -A {}", directory.display()));
    listed.lines().map(Into::into).collect()
}

#[test]
fn a_full_disk_fails_add_and_leaves_nothing() {
    needs!("root");
    let node = Node::new();
    // Limits on bytes, and on files.
    for limit in ["size=40k", "nr_inodes=12"] {
        let sandbox = Sandbox::default();
        let disk = sandbox.root().join("disk");
        fs::create_dir(&disk).unwrap();
        node.sh(&format!(
            "mount -t tmpfs -o {limit} none {}",
            disk.display()
        ));
        let directory = disk.join("testnet");
        let mut given = 0;
        let refused = loop {
            let output = call(&sandbox, "ADD", &format!("c{given}"), &disk).run_on(&node);
            if !output.status.success() {
                break output;
            }
            given += 1;
        };
        assert!(given > 0, "{limit}");
        refused.refused(5, text(&directory));
        refused.refused(5, "No space left");
        // No file of the refused ADD is left, and no file is empty.
        let held: Vec<String> = names(&node, &directory);
        let reserved = held
            .iter()
            .filter(|name| name.parse::<std::net::IpAddr>().is_ok());
        assert_eq!(reserved.count(), 2 * given, "{limit}: {held:?}");
        assert!(!held.contains(&"unfinished.tmp".to_owned()));
        assert_eq!(
            node.sh(&format!(
                "find {} -name '[0-9f]*' -empty",
                directory.display()
            )),
            ""
        );
        let fill = disk.join("fill").display().to_string();
        node.sh(&format!("head -c 1M /dev/zero > {fill} || true"));
        let status = call(&sandbox, "STATUS", "-", &disk).run_on(&node);
        status.refused(50, "No space left");
        status.refused(50, text(&directory));
        node.sh(&format!("rm -f {fill}"));
        // After a release, an ADD succeeds again.
        call(&sandbox, "DEL", "c0", &disk).run_on(&node).nothing();
        call(&sandbox, "ADD", "again", &disk).run_on(&node).result();
        call(&sandbox, "GC", "-", &disk).run_on(&node).nothing();
        assert!(
            !names(&node, &directory)
                .iter()
                .any(|name| name.starts_with("10."))
        );
    }
}

#[test]
fn a_read_only_disk_fails_every_change_and_the_error_names_the_path() {
    needs!("root");
    let node = Node::new();
    let sandbox = Sandbox::default();
    let disk = sandbox.root().join("disk");
    fs::create_dir(&disk).unwrap();
    node.sh(&format!("mount -t tmpfs none {}", disk.display()));
    let added = call(&sandbox, "ADD", "c1", &disk).run_on(&node).result();
    node.sh(&format!("mount -o remount,ro {}", disk.display()));
    let directory = disk.join("testnet");

    call(&sandbox, "ADD", "c2", &disk)
        .run_on(&node)
        .refused(5, text(&directory));
    call(&sandbox, "DEL", "c1", &disk)
        .run_on(&node)
        .refused(5, text(&directory.join("10.1.0.2")));
    let gc = call(&sandbox, "GC", "-", &disk).run_on(&node);
    gc.refused(5, text(&directory.join("10.1.0.2")));
    call(&sandbox, "STATUS", "-", &disk)
        .run_on(&node)
        .refused(50, text(&directory));
    // Commands without changes succeed.
    call(&sandbox, "DEL", "unknown", &disk)
        .run_on(&node)
        .nothing();
    let mut config = sandbox.config("1.1.0", &[], &json!({ "dataDir": disk }));
    config["prevResult"] = added;
    let check = sandbox.call("ipam-da-host-local", "CHECK", &config);
    check.run_on(&node).nothing();

    // A missing directory can't be created.
    let mut elsewhere = sandbox.config("1.1.0", &[], &json!({ "dataDir": disk.join("new") }));
    elsewhere["prevResult"] = json!({"pools": [{"subnet": "10.1.0.0/24"}]});
    let new = disk.join("new/testnet");
    for (command, code) in [("ADD", 5), ("STATUS", 50)] {
        let call = sandbox.call("ipam-da-host-local", command, &elsewhere);
        call.run_on(&node).refused(code, text(&new));
    }
}

/// A call by a user other than root.
fn by_nobody(sandbox: &Sandbox, command: &str, container: &str, data_dir: &Path) -> Call {
    call(sandbox, command, container, data_dir).as_user(65534)
}

fn open_to_all(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
}

#[test]
fn wrong_owners_and_modes_are_refused_or_worked_around() {
    needs!("root");
    let sandbox = Sandbox::default();
    open_to_all(sandbox.root());
    let data = sandbox.root().join("data");
    let directory = data.join("testnet");
    fs::create_dir_all(&directory).unwrap();

    // A directory of another user.
    by_nobody(&sandbox, "ADD", "c1", &data)
        .run()
        .refused(5, text(&directory));
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);

    // A directory that everybody may write to, with files of root.
    open_to_all(&directory);
    for (name, content) in [
        ("10.1.0.2", "root's\r\neth0"),
        ("last_reserved_ip.0", "10.1.0.9"),
        ("lock", ""),
    ] {
        fs::write(directory.join(name), content).unwrap();
        fs::set_permissions(directory.join(name), fs::Permissions::from_mode(0o600)).unwrap();
    }
    let add = by_nobody(&sandbox, "ADD", "c1", &data).run();
    add.refused(5, &format!("lock of {}", directory.display()));

    // If it can lock the directory, it tolerates unreadable files.
    fs::set_permissions(directory.join("lock"), fs::Permissions::from_mode(0o644)).unwrap();
    let output = by_nobody(&sandbox, "ADD", "c1", &data).run();
    assert_eq!(output.ips(), ["10.1.0.3", "fd00:1::2"]);
    let output = by_nobody(&sandbox, "GC", "-", &data).run();
    output.nothing();
    output.warns(["unreadable reservation"]);
    assert!(directory.join("10.1.0.2").exists());
    assert!(!directory.join("10.1.0.3").exists());

    // The user can't read root's reservation, so its holder is unknown.
    let added = call(&sandbox, "ADD", "by-root", &data).run().result();
    let ip = harness::answer_of(&added).remove(0);
    let without_result = by_nobody(&sandbox, "DEL", "by-root", &data);
    let mut config = sandbox.config("1.1.0", &[], &json!({ "dataDir": data }));
    config["prevResult"] = added;
    let with_result = sandbox
        .call("ipam-da-host-local", "DEL", &config)
        .container("by-root")
        .as_user(65534);
    for del in [without_result, with_result] {
        del.run().refused(11, text(&directory.join(&ip)));
    }
    call(&sandbox, "DEL", "by-root", &data).run().nothing();
    assert!(!directory.join(&ip).exists());
}

#[test]
fn add_waits_for_a_lock_that_another_holds_and_logs_how_long() {
    let sandbox = Sandbox::new(Flavour::Verbose);
    let data = sandbox.data_dir();
    let directory = data.join("testnet");
    let lock = held_lock(&sandbox, "testnet");
    let log = || sandbox.log("ipam-da-host-local");

    thread::scope(|scope| {
        let waiting = scope.spawn(|| call(&sandbox, "ADD", "patient", &data).run());
        wait_for(|| {
            assert!(!waiting.is_finished(), "it didn't wait");
            log().contains("waiting for another process")
        });
        assert!(sandbox.reserved("testnet").is_empty());
        drop(lock);
        assert_eq!(waiting.join().unwrap().ips(), ["10.1.0.2", "fd00:1::2"]);
    });
    // The log names the waiting container, the directory and the duration.
    let log = log();
    let path = directory.join("lock");
    let line = log
        .lines()
        .find(|line| line.contains("waited for the lock"))
        .unwrap();
    assert_has(
        line,
        [
            "container=patient",
            "command=ADD",
            "milliseconds=",
            path.to_str().unwrap(),
        ],
    );
}

#[test]
fn add_survives_the_removal_of_the_directory_whose_lock_it_waits_for() {
    let sandbox = Sandbox::new(Flavour::Verbose);
    let data = sandbox.data_dir();
    let directory = data.join("testnet");
    let lock = held_lock(&sandbox, "testnet");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| call(&sandbox, "ADD", "c1", &data).run());
        let log = || sandbox.log("ipam-da-host-local");
        wait_for(|| log().contains("waiting for another process"));
        // An administrator removes the directory.
        fs::remove_dir_all(&directory).unwrap();
        fs::create_dir(&directory).unwrap();
        drop(lock);
        assert_eq!(waiting.join().unwrap().ips(), ["10.1.0.2", "fd00:1::2"]);
    });
    assert_eq!(sandbox.reserved("testnet"), ["10.1.0.2", "fd00:1::2"]);
}

#[test]
fn a_lock_that_is_a_pipe_is_refused_at_once() {
    let sandbox = Sandbox::default();
    let data = sandbox.data_dir();
    fs::create_dir_all(data.join("testnet")).unwrap();
    let lock = data.join("testnet/lock");
    mkfifoat(CWD, lock, Mode::RUSR | Mode::WUSR).unwrap();
    let error = call(&sandbox, "ADD", "c1", &data).run();
    error.refused(5, "lock");
    error.refused(5, "it is not a regular file");
}

#[test]
fn a_reservation_that_cant_be_read_fails_a_del_which_releases_the_others() {
    let sandbox = Sandbox::default();
    let data = sandbox.data_dir();
    let added = call(&sandbox, "ADD", "c1", &data).run().result();
    // A file that is too large is not read.
    let unreadable = data.join("testnet/10.1.0.2");
    fs::write(&unreadable, vec![b'c'; 2 << 20]).unwrap();
    let mut config = sandbox.config("1.1.0", &[], &json!({}));
    config["prevResult"] = added;
    for mark in ["1", ""] {
        let del = sandbox.call("ipam-da-host-local", "DEL", &config);
        del.env("IPAM_DELEGATED_ROLLBACK", mark)
            .run()
            .refused(11, text(&unreadable));
        assert_eq!(sandbox.reserved("testnet"), ["10.1.0.2"]);
    }
    // Without any address that it should have: it may be the container's.
    assert_eq!(call(&sandbox, "DEL", "c1", &data).run().code(), 11);
    config["prevResult"]["pools"] = json!([{"subnet": "10.1.0.0/24"}]);
    let check = sandbox.call("ipam-da-host-local", "CHECK", &config);
    assert_eq!(check.run().code(), 11);
}
