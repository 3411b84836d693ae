//! The allocator's directories: absolute paths, modes, owners, links.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use harness::{ALLOCATOR, Call, Node, Output, Sandbox, needs};
use serde_json::{Value, json};

fn call(sandbox: &Sandbox, command: &str, network: &str, pools: &Value, ipam: &Value) -> Call {
    let mut config = sandbox.allocator_config(pools);
    config["name"] = json!(network);
    let keys = ipam.as_object().unwrap().clone();
    config["ipam"].as_object_mut().unwrap().extend(keys);
    sandbox.call(ALLOCATOR, command, &config)
}

fn pools() -> Value {
    json!([{"subnet": "10.1.0.0/24"}])
}

/// Runs a call under umask 0.
fn with_open_umask(call: Call) -> Output {
    call.through(&["sh", "-c", "umask 0; exec \"$0\" \"$@\""])
        .run()
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn a_relative_folder_is_refused_by_key_and_value() {
    let sandbox = Sandbox::default();
    for command in ["ADD", "DEL", "CHECK", "GC", "STATUS"] {
        let ipam = json!({ "dataDir": "some/where" });
        let error = call(&sandbox, command, "testnet", &pools(), &ipam)
            .run()
            .error();
        assert_eq!(error["code"], 7, "{command} {error}");
        let msg = error["msg"].as_str().unwrap();
        assert!(
            msg.contains("dataDir") && msg.contains("\"some/where\""),
            "{error}"
        );
    }
}

#[test]
fn modes_do_not_depend_on_the_umask() {
    let sandbox = Sandbox::default();
    with_open_umask(call(&sandbox, "ADD", "testnet", &pools(), &json!({}))).result();
    let directory = sandbox.data_dir().join("testnet");
    assert_eq!(mode(&sandbox.data_dir()), 0o755);
    assert_eq!(mode(&directory), 0o755);
    for name in ["10.1.0.2", "last_reserved_ip.0"] {
        assert_eq!(mode(&directory.join(name)), 0o600, "{name}");
    }
    assert_eq!(mode(&directory.join("lock")), 0o750);
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 3);
}

#[test]
fn no_link_is_followed_where_a_stranger_may_put_one() {
    let sandbox = Sandbox::default();
    let victim = sandbox.root().join("victim");
    fs::write(&victim, "precious").unwrap();
    call(&sandbox, "ADD", "testnet", &pools(), &json!({}))
        .run()
        .result();
    let directory = sandbox.data_dir().join("testnet");
    for link in [
        directory.join("unfinished.tmp"),
        directory.join("last_reserved_ip.1"),
    ] {
        symlink(&victim, link).unwrap();
    }
    let two = json!([{"subnet": "10.1.0.0/24"}, {"subnet": "10.2.0.0/24"}]);
    let add = call(&sandbox, "ADD", "testnet", &two, &json!({})).container("c2");
    add.run().result();
    call(&sandbox, "GC", "testnet", &two, &json!({}))
        .run()
        .nothing();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");

    let lock = directory.join("lock");
    fs::remove_file(&lock).unwrap();
    symlink(&victim, &lock).unwrap();
    let error = call(&sandbox, "ADD", "testnet", &pools(), &json!({}))
        .run()
        .error();
    assert_eq!(error["code"], 5);
    assert!(
        error["msg"].as_str().unwrap().contains("symbolic link"),
        "{error}"
    );
}

#[test]
fn two_spaces_that_lead_to_one_directory_share_its_lock() {
    let sandbox = Sandbox::default();
    fs::create_dir_all(sandbox.data_dir().join("blue")).unwrap();
    symlink("blue", sandbox.data_dir().join("azure")).unwrap();
    let pools = json!([
        {"name": "a", "space": "azure", "subnet": "10.1.0.0/24"},
        {"name": "b", "space": "blue", "subnet": "10.2.0.0/24"}
    ]);
    let run = |command: &str| call(&sandbox, command, "testnet", &pools, &json!({})).run();
    assert_eq!(run("ADD").ips(), ["10.1.0.2", "10.2.0.2"]);
    assert_eq!(sandbox.reserved("blue"), ["10.1.0.2", "10.2.0.2"]);
    run("STATUS").nothing();
    run("DEL").nothing();
    assert!(sandbox.reserved("blue").is_empty());
}

#[test]
fn status_says_what_add_would_on_a_read_only_and_on_a_full_disk() {
    needs!("root");
    let node = Node::new();
    for (full, word) in [(false, "Read-only file system"), (true, "No space left")] {
        for used in [true, false] {
            let sandbox = Sandbox::default();
            let disk = sandbox.root().join("disk");
            fs::create_dir(&disk).unwrap();
            let path = disk.display();
            node.sh(&format!(
                "mount -t tmpfs -o size=64k,nr_inodes=20 none {path}"
            ));
            let ipam = json!({ "dataDir": disk.join("networks") });
            let run = |command: &str, container: &str| {
                let call = call(&sandbox, command, "testnet", &pools(), &ipam);
                call.container(container).run_on(&node)
            };
            run("STATUS", "c1").nothing();
            if used {
                run("ADD", "c1").result();
                run("STATUS", "c1").nothing();
            }
            let files = node.sh(&format!("find {path} | sort"));
            if full {
                node.sh(&format!(
                    "head -c 1M /dev/zero > {path}/fill 2>/dev/null || true"
                ));
            } else {
                node.sh(&format!("mount -o remount,ro {path}"));
            }
            let status = run("STATUS", "c2").error();
            let add = run("ADD", "c2").error();
            assert_eq!(
                (&status["code"], &add["code"]),
                (&json!(50), &json!(5)),
                "{status} {add}"
            );
            for error in [status, add] {
                let msg = error["msg"].as_str().unwrap();
                assert!(
                    msg.contains(word) && msg.contains(disk.to_str().unwrap()),
                    "{error}"
                );
            }
            let now = node.sh(&format!("find {path} ! -name fill | sort"));
            if used {
                assert_eq!(now, files);
            }
        }
    }
}

#[test]
fn a_taken_address_is_told_with_its_holder() {
    let sandbox = Sandbox::default();
    let pools = |name: Option<&str>| {
        let mut pool = json!({"subnet": "10.1.0.0/24", "requested-ip": "10.1.0.9"});
        if let Some(name) = name {
            pool["name"] = json!(name);
        }
        json!([pool])
    };
    for (pool, holder) in [(None, "c1 eth0"), (Some("blue"), "c1 eth0 on network red")] {
        let add = |network: &str, container: &str| {
            let call = call(&sandbox, "ADD", network, &pools(pool), &json!({}));
            call.container(container).run()
        };
        add("red", "c1").result();
        let network = if pool.is_some() { "green" } else { "red" };
        let error = add(network, "c2").error();
        assert_eq!(error["code"], 111);
        let told = format!("is reserved already to {holder}");
        assert!(error["msg"].as_str().unwrap().ends_with(&told), "{error}");
    }
}

#[test]
fn ipv6_addresses_that_embed_ipv4_ones_are_ipv6() {
    let sandbox = Sandbox::default();
    let pools = json!([{"subnet": "::fffe:0:0/95"}, {"subnet": "0.0.0.0/29"}]);
    let directory = sandbox.data_dir().join("testnet");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("last_reserved_ip.0"), "::ffff:0.0.0.1").unwrap();
    let run = |command: &str, container: &str| {
        let call = call(&sandbox, command, "testnet", &pools, &json!({}));
        call.container(container).run()
    };
    assert_eq!(run("ADD", "c1").ips(), ["::ffff:0.0.0.2", "0.0.0.2"]);
    assert_eq!(run("ADD", "c2").ips(), ["::ffff:0.0.0.3", "0.0.0.3"]);
    run("DEL", "c1").nothing();
    assert_eq!(sandbox.reserved("testnet"), ["0.0.0.3", "::ffff:0.0.0.3"]);
    let mut config = sandbox.config("1.1.0", &[], &json!({}));
    let ips = json!([{"address": "::ffff:0.0.0.3/95"}, {"address": "0.0.0.3/29"}]);
    config["prevResult"] = json!({"pools": pools, "ips": ips});
    let check = |container: &str| {
        sandbox
            .call(ALLOCATOR, "CHECK", &config)
            .container(container)
            .run()
    };
    check("c2").nothing();
    assert_eq!(check("c1").code(), 112);
}
