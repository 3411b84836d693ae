//! The allocator's folders: absolute paths, modes, owners, links, and caches of deleted
//! directories.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

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

fn index(sandbox: &Sandbox) -> Vec<String> {
    let Ok(entries) = fs::read_dir(sandbox.cache_dir()) else {
        return Vec::new();
    };
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

#[test]
fn relative_folders_are_refused_by_key_and_value() {
    let sandbox = Sandbox::default();
    for command in ["ADD", "DEL", "CHECK", "GC", "STATUS"] {
        for key in ["dataDir", "cacheDir"] {
            let ipam = json!({ key: "some/where" });
            let error = call(&sandbox, command, "testnet", &pools(), &ipam)
                .run()
                .error();
            assert_eq!(error["code"], 7, "{command} {error}");
            let msg = error["msg"].as_str().unwrap();
            assert!(
                msg.contains(key) && msg.contains("\"some/where\""),
                "{error}"
            );
        }
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
    assert_eq!(mode(&sandbox.cache_dir()), 0o700);
    let files = index(&sandbox);
    assert_eq!(files.len(), 1);
    assert_eq!(mode(&sandbox.cache_dir().join(&files[0])), 0o600);
}

#[test]
fn a_cache_folder_that_others_may_write_to_is_not_used_and_one_warning_says_so() {
    let sandbox = Sandbox::default();
    fs::create_dir(sandbox.cache_dir()).unwrap();
    fs::set_permissions(sandbox.cache_dir(), fs::Permissions::from_mode(0o777)).unwrap();
    let pools = json!([{"subnet": "10.1.0.0/24"}, {"name": "blue", "subnet": "10.2.0.0/24"}]);
    let output = call(&sandbox, "ADD", "testnet", &pools, &json!({})).run();
    assert_eq!(output.ips(), ["10.1.0.2", "10.2.0.2"]);
    assert_eq!(output.stderr.matches("WARN").count(), 1, "{output:?}");
    assert!(
        output.stderr.contains("others may write to it"),
        "{output:?}"
    );
    assert!(index(&sandbox).is_empty());
    call(&sandbox, "DEL", "testnet", &pools, &json!({}))
        .run()
        .nothing();
    assert!(sandbox.reserved("testnet").is_empty() && sandbox.reserved("blue").is_empty());
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
    let name = index(&sandbox).remove(0);
    fs::remove_file(sandbox.cache_dir().join(&name)).unwrap();
    for link in [
        sandbox.cache_dir().join(&name),
        sandbox.cache_dir().join(format!("{name}.tmp")),
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
fn two_pools_whose_names_lead_to_one_directory_share_its_lock() {
    let sandbox = Sandbox::default();
    fs::create_dir_all(sandbox.data_dir().join("blue")).unwrap();
    symlink("blue", sandbox.data_dir().join("azure")).unwrap();
    let pools = json!([
        {"name": "azure", "subnet": "10.1.0.0/24"},
        {"name": "blue", "subnet": "10.2.0.0/24"}
    ]);
    let output = call(&sandbox, "ADD", "testnet", &pools, &json!({})).run();
    assert_eq!(output.ips(), ["10.1.0.2", "10.2.0.2"]);
    assert_eq!(sandbox.reserved("blue"), ["10.1.0.2", "10.2.0.2"]);
    call(&sandbox, "STATUS", "testnet", &pools, &json!({}))
        .run()
        .nothing();
    call(&sandbox, "DEL", "testnet", &pools, &json!({}))
        .run()
        .nothing();
    assert!(sandbox.reserved("blue").is_empty());
}

#[test]
fn caches_that_nobody_has_used_for_a_day_are_removed() {
    let sandbox = Sandbox::default();
    let add = |network: &str| {
        call(&sandbox, "ADD", network, &pools(), &json!({}))
            .run()
            .result();
    };
    let yesterday = SystemTime::now() - Duration::from_secs(25 * 60 * 60);
    let age = |name: &String| {
        let file = fs::File::options()
            .write(true)
            .open(sandbox.cache_dir().join(name));
        file.unwrap().set_modified(yesterday).unwrap();
    };
    for n in 0..20 {
        add(&format!("net{n}"));
    }
    // An ADD that makes the first index of a directory removes them.
    index(&sandbox).iter().for_each(age);
    add("stays");
    assert_eq!(index(&sandbox).len(), 1, "{:?}", index(&sandbox));
    // Files of an earlier version, and of a killed process.
    let left = ["1-2.index", "1-2.boot", "1-2.index.tmp", "notes"].map(str::to_owned);
    for name in &left {
        fs::write(sandbox.cache_dir().join(name), "x").unwrap();
        age(name);
    }
    call(&sandbox, "GC", "another", &pools(), &json!({}))
        .run()
        .nothing();
    let left = index(&sandbox);
    assert!(
        left.len() == 2 && left.contains(&"notes".to_owned()),
        "{left:?}"
    );
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
