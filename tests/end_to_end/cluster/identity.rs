//! Which machine has a node's name: copies of a disk, boots, machines that were given up.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use harness::{ETCD, ETCDCTL, Output, needs};
use serde_json::{Value, json};

use super::{ADDRESSES, BLOCKS, Cluster};

fn cluster() -> Cluster {
    let cluster = Cluster::default();
    cluster.etcd.put(
        "/ipam/v1/pools/blue",
        r#"{"subnet":"10.0.0.0/24","block":28}"#,
    );
    cluster
        .etcd
        .put("/ipam/v1/pools/red", r#"{"subnet":"10.1.0.0/24"}"#);
    cluster
}

fn config(cluster: &Cluster, machine: &str, node: &str, allocators: &[&str]) -> Value {
    let pool = if allocators == BLOCKS { "blue" } else { "red" };
    let mut config = cluster.config(machine, allocators, &json!([{"name": pool}]));
    config["ipam"]["node"] = json!(node);
    config
}

/// Copies the disk of a machine: all folders but those that a boot empties.
fn copy_disk(cluster: &Cluster, from: &str, to: &str) {
    let root = cluster.sandbox.root();
    fs::create_dir_all(root.join(to)).unwrap();
    for folder in ["etcd-state", "networks"] {
        let _ = fs::remove_dir_all(root.join(to).join(folder));
        let (from, to) = (root.join(from).join(folder), root.join(to));
        if from.exists() {
            let copied = Command::new("cp").arg("-a").arg(from).arg(to).status();
            assert!(copied.unwrap().success());
        }
    }
    // On a machine of its own, the copy has the original's paths.
    let file = blocks_file(cluster, to);
    if let Ok(content) = fs::read_to_string(&file) {
        let networks = |machine: &str| root.join(machine).join("networks").display().to_string();
        fs::write(file, content.replace(&networks(from), &networks(to))).unwrap();
    }
}

/// Empties what a boot empties.
fn boot(cluster: &Cluster, machine: &str) {
    fs::remove_dir_all(cluster.sandbox.root().join(machine).join("cache")).unwrap();
}

/// A call of the allocator or of the selector of blocks by itself: the chain would release by
/// its records.
fn alone(
    cluster: &Cluster,
    plugin: &str,
    command: &str,
    container: &str,
    config: &Value,
) -> Output {
    let mut config = config.clone();
    config["prevResult"] = json!({"cniVersion": "1.1.0", "ips": [],
        "pools": config["ipam"]["pools"]});
    config["cni.dev/valid-attachments"] = json!([]);
    let call = cluster.sandbox.call(plugin, command, &config);
    match command {
        "GC" => call.run(),
        _ => call.container(container).run(),
    }
}

fn blocks_file(cluster: &Cluster, machine: &str) -> PathBuf {
    let folder = cluster.sandbox.root().join(machine);
    folder.join("etcd-state/blocks/blue.json")
}

#[test]
fn a_copied_disk_with_another_name_releases_nothing_of_the_original() {
    needs!(ETCD, ETCDCTL);
    let cluster = cluster();
    let original = config(&cluster, "one", "n1", &ADDRESSES);
    cluster.add("a", &original).result();
    cluster.add("b", &original).result();
    let held = cluster.held();
    copy_disk(&cluster, "one", "two");
    let copy = config(&cluster, "two", "n2", &ADDRESSES);
    alone(&cluster, "ipam-da-etcd", "DEL", "a", &copy).nothing();
    alone(&cluster, "ipam-da-etcd", "GC", "", &copy).nothing();
    cluster.add("c", &copy).result();
    cluster.gc(&[], &copy).nothing();
    assert_eq!(cluster.held(), held);
    assert_eq!(cluster.reserved("red").len(), 2);
}

#[test]
fn of_a_disk_and_its_copy_with_one_name_one_is_refused_and_both_are_named() {
    needs!(ETCD, ETCDCTL);
    let cluster = cluster();
    let [one, two] = ["one", "two"].map(|machine| config(&cluster, machine, "n1", &ADDRESSES));
    cluster.add("a", &one).result();
    copy_disk(&cluster, "one", "two");
    // Nothing tells the copy from the same machine after a boot.
    cluster.add("b", &two).result();
    let refused = cluster.add("c", &one);
    refused.refused(7, "ipam.node: \"n1\" is the name of another node");
    let msg = refused.error()["msg"].to_string();
    assert_eq!(msg.matches("registered at ").count(), 2, "{msg}");
    let held = cluster.held();
    assert_eq!(held.len(), 2);
    // It doesn't register again by itself, and releases nothing, after a boot neither.
    for _ in 0..2 {
        assert_eq!(cluster.add("d", &one).code(), 7);
        assert_eq!(alone(&cluster, "ipam-da-etcd", "DEL", "a", &one).code(), 7);
        assert_eq!(alone(&cluster, "ipam-da-etcd", "GC", "", &one).code(), 7);
        assert_eq!(cluster.call("STATUS", "", &one).run().code(), 50);
        let _ = fs::remove_dir_all(cluster.sandbox.root().join("one/cache"));
    }
    assert_eq!(cluster.held(), held);
    cluster.add("e", &two).result();
    // A person decides.
    cluster.sandbox.write_conflist("10-red.conflist", &one);
    let register = cluster.sandbox.ipamctl(&["node-register", "--yes"]).run();
    assert!(register.status.success(), "{register:?}");
    cluster.add("f", &one).result();
    cluster
        .add("g", &two)
        .refused(7, "ipam.node: \"n1\" is the name of another node");
}

#[test]
fn a_copy_on_another_host_is_refused_and_the_original_goes_on() {
    needs!(ETCD, ETCDCTL);
    let cluster = cluster();
    for (allocators, plugin) in [
        (&ADDRESSES[..], "ipam-da-etcd"),
        (&BLOCKS[..], "ipam-ds-etcd"),
    ] {
        let node = format!("node-of-{plugin}");
        let [one, two] = ["one", "two"].map(|machine| format!("{machine}-{plugin}"));
        let original = config(&cluster, &one, &node, allocators);
        cluster.add("a", &original).result();
        copy_disk(&cluster, &one, &two);
        let copy = config(&cluster, &two, &node, allocators);
        let in_uts = ["unshare", "--uts", "/bin/sh", "-c"];
        for command in ["ADD", "GC", "STATUS"] {
            let mut config = copy.clone();
            config["prevResult"] = json!({"cniVersion": "1.1.0", "ips": [],
                "pools": config["ipam"]["pools"]});
            config["cni.dev/valid-attachments"] = json!([]);
            let call = cluster.sandbox.call(plugin, command, &config);
            let through = [&in_uts[..], &["hostname the-copy && exec \"$0\""]].concat();
            let output = call.container("b").through(&through).run();
            // Blocks that aren't given back now are given back later: no error of GC.
            if (plugin, command) == ("ipam-ds-etcd", "GC") {
                assert!(output.stderr.contains("host the-copy"), "{output:?}");
                continue;
            }
            let code = if command == "STATUS" { 50 } else { 7 };
            output.refused(code, "is the name of another node");
            output.refused(code, "host the-copy");
        }
        cluster.add("c", &original).result();
    }
    assert_eq!(cluster.reserved("red").len(), 2);
    assert_eq!(cluster.etcd.keys("/ipam/v1/blocks/blue/").len(), 1);
}

#[test]
fn another_machines_hardware_is_told() {
    needs!(ETCD, ETCDCTL);
    let cluster = cluster();
    let hardware = |uuid: &str| {
        let sys = cluster.sandbox.root().join(uuid);
        let folder = sys.join("class/dmi/id");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("product_uuid"), format!("{uuid}\n")).unwrap();
        sys
    };
    let [one, two] = ["one", "two"].map(|machine| config(&cluster, machine, "n1", &ADDRESSES));
    let add = |container: &str, config: &Value, uuid: &str| {
        let call = cluster.call("ADD", container, config);
        call.env("IPAM_DELEGATED_SYS", hardware(uuid)).run()
    };
    add("a", &one, "4c4c4544").result();
    copy_disk(&cluster, "one", "two");
    add("b", &two, "12345678").refused(7, "its hardware is another");
    boot(&cluster, "one");
    add("c", &one, "4c4c4544").result();
}

#[test]
fn a_node_that_was_forgotten_and_replaced_is_refused_when_it_boots() {
    needs!(ETCD, ETCDCTL);
    let cluster = cluster();
    for (allocators, plugin) in [
        (&ADDRESSES[..], "ipam-da-etcd"),
        (&BLOCKS[..], "ipam-ds-etcd"),
    ] {
        let node = format!("node-of-{plugin}");
        let [old, new] = ["old", "new"]
            .map(|machine| config(&cluster, &format!("{machine}-{plugin}"), &node, allocators));
        cluster.add("a", &old).result();
        cluster.sandbox.write_conflist(
            "10-other.conflist",
            &config(&cluster, "other", "other", allocators),
        );
        let forget = cluster
            .sandbox
            .ipamctl(&["node-forget", &node, "--yes"])
            .run();
        assert!(forget.status.success(), "{forget:?}");
        cluster.add("b", &new).result();
        let (held, blocks) = (cluster.held(), cluster.etcd.keys("/ipam/v1/blocks/blue/"));
        // The kernel's boot ID is the same, as in a system container.
        boot(&cluster, &format!("old-{plugin}"));
        cluster
            .add("c", &old)
            .refused(7, "is the name of another node");
        alone(&cluster, plugin, "GC", "", &old);
        alone(&cluster, plugin, "DEL", "b", &old);
        assert_eq!(cluster.held(), held);
        assert_eq!(cluster.etcd.keys("/ipam/v1/blocks/blue/"), blocks);
        cluster.add("d", &new).result();
    }
    // GC has taken nothing over.
    let file = fs::read(blocks_file(&cluster, "old-ipam-ds-etcd")).unwrap();
    let local: Value = serde_json::from_slice(&file).unwrap();
    assert_eq!(local["blocks"].as_array().unwrap().len(), 1);
}

#[test]
fn a_machine_that_boots_has_its_name_and_releases_what_it_held() {
    needs!(ETCD, ETCDCTL);
    let cluster = cluster();
    let config = config(&cluster, "one", "n1", &ADDRESSES);
    for container in ["a", "b", "c"] {
        cluster.add(container, &config).result();
    }
    for container in ["a", "b"] {
        boot(&cluster, "one");
        cluster.del(container, &config).nothing();
        cluster.add(&format!("{container}2"), &config).result();
    }
    boot(&cluster, "one");
    cluster.gc(&["a2"], &config).nothing();
    assert_eq!(cluster.held().len(), 1);
}

#[test]
fn a_disk_of_before_the_last_boot_is_refused() {
    needs!(ETCD, ETCDCTL);
    let cluster = cluster();
    let [one, old] = ["one", "old"].map(|machine| config(&cluster, machine, "n1", &ADDRESSES));
    cluster.add("a", &one).result();
    copy_disk(&cluster, "one", "old");
    boot(&cluster, "one");
    cluster.add("b", &one).result();
    cluster
        .add("c", &old)
        .refused(7, "ipam.node: \"n1\" is the name of another node");
    assert_eq!(alone(&cluster, "ipam-da-etcd", "GC", "", &old).code(), 7);
    cluster.add("d", &one).result();
    assert_eq!(cluster.held().len(), 3);
}

#[test]
fn blocks_are_not_given_from_after_a_boot_before_etcd_has_confirmed_them() {
    needs!(ETCD, ETCDCTL);
    let mut cluster = cluster();
    let config = config(&cluster, "one", "n1", &BLOCKS);
    cluster.add("a", &config).result();
    cluster.etcd.kill();
    cluster.add("b", &config).result();
    boot(&cluster, "one");
    cluster
        .add("c", &config)
        .refused(11, "have to be compared with etcd's");
    cluster.etcd.restart();
    cluster.add("d", &config).result();
    assert_eq!(cluster.etcd.keys("/ipam/v1/blocks/blue/").len(), 1);
}

#[test]
fn a_node_that_finds_its_name_taken_gives_no_more_from_its_blocks() {
    needs!(ETCD, ETCDCTL);
    let cluster = cluster();
    let [one, two] = ["one", "two"].map(|machine| config(&cluster, machine, "n1", &BLOCKS));
    cluster.add("a", &one).result();
    copy_disk(&cluster, "one", "two");
    cluster.add("b", &two).result();
    // STATUS, GC and a claim ask etcd; ADD doesn't, as long as there is room.
    assert_eq!(
        alone(&cluster, "ipam-ds-etcd", "STATUS", "", &one).code(),
        50
    );
    cluster
        .add("c", &one)
        .refused(7, "ipam.node: \"n1\" is the name of another node");
    cluster.add("d", &two).result();
}

#[test]
fn nodes_that_share_a_state_folder_keep_what_each_holds() {
    needs!(ETCD, ETCDCTL);
    let cluster = cluster();
    let [one, two] = ["n1", "n2"].map(|node| config(&cluster, "shared", node, &ADDRESSES));
    cluster.add("a", &one).result();
    cluster.add("b", &two).result();
    let held = cluster.held();
    for config in [&one, &two] {
        let container = if config == &one { "b" } else { "a" };
        alone(&cluster, "ipam-da-etcd", "DEL", container, config).nothing();
    }
    assert_eq!(cluster.held(), held);
    alone(&cluster, "ipam-da-etcd", "GC", "", &one).nothing();
    let held = cluster.held();
    assert_eq!(held.len(), 1);
    assert!(held[0].starts_with("n2/"), "{held:?}");
}

#[test]
fn networks_of_one_machine_may_have_a_cache_folder_each() {
    needs!(ETCD, ETCDCTL);
    let cluster = cluster();
    let config = config(&cluster, "one", "n1", &ADDRESSES);
    let mut other = config.clone();
    other["ipam"]["etcd"]["cacheDir"] = json!(cluster.sandbox.root().join("other-cache"));
    for i in 0..3 {
        cluster.add(&format!("a{i}"), &config).result();
        cluster.add(&format!("b{i}"), &other).result();
    }
    cluster.del("a0", &other).nothing();
    cluster.del("b0", &config).nothing();
    assert_eq!(cluster.held().len(), 4);
}

#[test]
fn a_restored_registration_is_that_of_its_machine() {
    needs!(ETCD, ETCDCTL);
    let cluster = cluster();
    let config = config(&cluster, "one", "n1", &ADDRESSES);
    cluster.add("a", &config).result();
    let earlier = cluster.etcd.value("/ipam/v1/tokens/n1");
    boot(&cluster, "one");
    cluster.add("b", &config).result();
    cluster.etcd.put("/ipam/v1/tokens/n1", &earlier);
    boot(&cluster, "one");
    cluster.add("c", &config).result();
}
