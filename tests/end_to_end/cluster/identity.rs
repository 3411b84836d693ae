//! Which machine has a node's name: copied disks, boots, forgotten machines.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use super::pool_cluster::{PoolCluster, promises};

fn define_pools(cluster: &dyn PoolCluster) {
    cluster.define("blue", &json!({"subnet": "10.0.0.0/24", "block": 28}));
    cluster.define("red", &json!({"subnet": "10.1.0.0/24"}));
}

fn config(cluster: &dyn PoolCluster, machine: &str, node: &str, allocators: &[&str]) -> Value {
    let is_in_blocks = allocators == cluster.in_blocks();
    let pool = if is_in_blocks { "blue" } else { "red" };
    cluster.config_on(machine, node, allocators, &json!([{"name": pool}]))
}

/// Copies the disk of a machine: all folders except those that a boot empties.
fn copy_disk(cluster: &dyn PoolCluster, from: &str, to: &str) {
    let root = cluster.sandbox().root();
    fs::create_dir_all(root.join(to)).unwrap();
    for folder in ["engine-state", "networks"] {
        let _ = fs::remove_dir_all(root.join(to).join(folder));
        let (from, to) = (root.join(from).join(folder), root.join(to));
        if from.exists() {
            let copied = Command::new("cp").arg("-a").arg(from).arg(to).status();
            assert!(copied.unwrap().success());
        }
    }
    // A copy on a separate machine has the original's paths.
    let file = blocks_file(cluster, to);
    if let Ok(content) = fs::read_to_string(&file) {
        let networks = |machine: &str| root.join(machine).join("networks").display().to_string();
        fs::write(file, content.replace(&networks(from), &networks(to))).unwrap();
    }
}

/// Empties the folders that a boot empties.
fn boot(cluster: &dyn PoolCluster, machine: &str) {
    fs::remove_dir_all(cluster.sandbox().root().join(machine).join("cache")).unwrap();
}

fn blocks_file(cluster: &dyn PoolCluster, machine: &str) -> PathBuf {
    let folder = cluster.sandbox().root().join(machine);
    folder.join("engine-state/blocks/blue.json")
}

fn a_copied_disk_with_another_name_releases_nothing_of_the_original(cluster: &mut dyn PoolCluster) {
    define_pools(cluster);
    let original = config(cluster, "one", "n1", &cluster.addresses());
    cluster.add("a", &original).result();
    cluster.add("b", &original).result();
    let held = cluster.held();
    copy_disk(cluster, "one", "two");
    let copy = config(cluster, "two", "n2", &cluster.addresses());
    cluster
        .alone(cluster.allocator(), "DEL", "a", &copy)
        .nothing();
    cluster
        .alone(cluster.allocator(), "GC", "", &copy)
        .nothing();
    cluster.add("c", &copy).result();
    cluster.gc(&[], &copy).nothing();
    assert_eq!(cluster.held(), held);
    assert_eq!(cluster.reserved("red").len(), 2);
}

fn of_a_disk_and_its_copy_with_one_name_one_is_refused_and_both_are_named(
    cluster: &mut dyn PoolCluster,
) {
    define_pools(cluster);
    let [one, two] =
        ["one", "two"].map(|machine| config(cluster, machine, "n1", &cluster.addresses()));
    cluster.add("a", &one).result();
    copy_disk(cluster, "one", "two");
    // The copy looks like the same machine after a boot.
    cluster.add("b", &two).result();
    let refused = cluster.add("c", &one);
    refused.refused(7, "ipam.node: \"n1\" is the name of another node");
    let msg = refused.error()["msg"].to_string();
    assert_eq!(msg.matches("registered at ").count(), 2, "{msg}");
    let held = cluster.held();
    assert_eq!(held.len(), 2);
    // It doesn't register again by itself and releases nothing, not even after a boot.
    for _ in 0..2 {
        assert_eq!(cluster.add("d", &one).code(), 7);
        assert_eq!(
            cluster.alone(cluster.allocator(), "DEL", "a", &one).code(),
            7
        );
        assert_eq!(cluster.alone(cluster.allocator(), "GC", "", &one).code(), 7);
        assert_eq!(cluster.call("STATUS", "", &one).run().code(), 50);
        let _ = fs::remove_dir_all(cluster.sandbox().root().join("one/cache"));
    }
    assert_eq!(cluster.held(), held);
    cluster.add("e", &two).result();
    // A person decides between the two.
    let register = cluster.ipamctl(&one, &["node-register", "--yes"]);
    assert!(register.status.success(), "{register:?}");
    cluster.add("f", &one).result();
    cluster
        .add("g", &two)
        .refused(7, "ipam.node: \"n1\" is the name of another node");
}

fn a_copy_on_another_host_is_refused_and_the_original_goes_on(cluster: &mut dyn PoolCluster) {
    define_pools(cluster);
    for (allocators, plugin) in [
        (&cluster.addresses()[..], cluster.allocator()),
        (&cluster.in_blocks()[..], cluster.selector()),
    ] {
        let node = format!("node-of-{plugin}");
        let [one, two] = ["one", "two"].map(|machine| format!("{machine}-{plugin}"));
        let original = config(cluster, &one, &node, allocators);
        cluster.add("a", &original).result();
        copy_disk(cluster, &one, &two);
        let copy = config(cluster, &two, &node, allocators);
        let in_uts = ["unshare", "--uts", "/bin/sh", "-c"];
        for command in ["ADD", "GC", "STATUS"] {
            let mut config = copy.clone();
            config["prevResult"] = json!({"cniVersion": "1.1.0", "ips": [],
                "pools": config["ipam"]["pools"]});
            config["cni.dev/valid-attachments"] = json!([]);
            let call = cluster.sandbox().call(plugin, command, &config);
            let through = [&in_uts[..], &["hostname the-copy && exec \"$0\""]].concat();
            let output = call.container("b").through(&through).run();
            // A block that can't be given back now is no error of GC: a later GC gives it back.
            if (plugin, command) == (cluster.selector(), "GC") {
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
    assert_eq!(cluster.blocks("blue").len(), 1);
}

fn another_machines_hardware_is_told(cluster: &mut dyn PoolCluster) {
    define_pools(cluster);
    let hardware = |uuid: &str| {
        let sys = cluster.sandbox().root().join(uuid);
        let folder = sys.join("class/dmi/id");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("product_uuid"), format!("{uuid}\n")).unwrap();
        sys
    };
    let [one, two] =
        ["one", "two"].map(|machine| config(cluster, machine, "n1", &cluster.addresses()));
    let add = |container: &str, config: &Value, uuid: &str| {
        let call = cluster.call("ADD", container, config);
        call.env("IPAM_DELEGATED_SYS", hardware(uuid)).run()
    };
    add("a", &one, "4c4c4544").result();
    copy_disk(cluster, "one", "two");
    add("b", &two, "12345678").refused(7, "its hardware is another");
    boot(cluster, "one");
    add("c", &one, "4c4c4544").result();
}

fn a_node_that_was_forgotten_and_replaced_is_refused_when_it_boots(cluster: &mut dyn PoolCluster) {
    define_pools(cluster);
    for (allocators, plugin) in [
        (&cluster.addresses()[..], cluster.allocator()),
        (&cluster.in_blocks()[..], cluster.selector()),
    ] {
        let node = format!("node-of-{plugin}");
        let [old, new] = ["old", "new"]
            .map(|machine| config(cluster, &format!("{machine}-{plugin}"), &node, allocators));
        cluster.add("a", &old).result();
        let other = cluster.as_administrator(&config(cluster, "other", "other", allocators));
        let forget = cluster.ipamctl(&other, &["node-forget", &node, "--yes"]);
        assert!(forget.status.success(), "{forget:?}");
        cluster.add("b", &new).result();
        let (held, blocks) = (cluster.held(), cluster.blocks("blue"));
        // The kernel's boot ID doesn't change, as in a system container.
        boot(cluster, &format!("old-{plugin}"));
        cluster
            .add("c", &old)
            .refused(7, "is the name of another node");
        cluster.alone(plugin, "GC", "", &old);
        cluster.alone(plugin, "DEL", "b", &old);
        assert_eq!(cluster.held(), held);
        assert_eq!(cluster.blocks("blue"), blocks);
        cluster.add("d", &new).result();
    }
    // GC has not changed the file of the blocks.
    let file = fs::read(blocks_file(cluster, &format!("old-{}", cluster.selector()))).unwrap();
    let local: Value = serde_json::from_slice(&file).unwrap();
    assert_eq!(local["blocks"].as_array().unwrap().len(), 1);
}

fn a_machine_that_boots_has_its_name_and_releases_what_it_held(cluster: &mut dyn PoolCluster) {
    define_pools(cluster);
    let config = config(cluster, "one", "n1", &cluster.addresses());
    for container in ["a", "b", "c"] {
        cluster.add(container, &config).result();
    }
    for container in ["a", "b"] {
        boot(cluster, "one");
        cluster.del(container, &config).nothing();
        cluster.add(&format!("{container}2"), &config).result();
    }
    boot(cluster, "one");
    cluster.gc(&["a2"], &config).nothing();
    assert_eq!(cluster.held().len(), 1);
}

fn a_disk_of_before_the_last_boot_is_refused(cluster: &mut dyn PoolCluster) {
    define_pools(cluster);
    let [one, old] =
        ["one", "old"].map(|machine| config(cluster, machine, "n1", &cluster.addresses()));
    cluster.add("a", &one).result();
    copy_disk(cluster, "one", "old");
    boot(cluster, "one");
    cluster.add("b", &one).result();
    cluster
        .add("c", &old)
        .refused(7, "ipam.node: \"n1\" is the name of another node");
    assert_eq!(cluster.alone(cluster.allocator(), "GC", "", &old).code(), 7);
    cluster.add("d", &one).result();
    assert_eq!(cluster.held().len(), 3);
}

fn a_machine_that_loses_its_name_in_a_boot_is_refused_until_a_person_decides(
    cluster: &mut dyn PoolCluster,
) {
    define_pools(cluster);
    let named = config(cluster, "one", "n1", &cluster.addresses());
    cluster.add("a", &named).result();
    cluster.add("b", &named).result();
    let held = cluster.held();
    // Now the host's name is the node's.
    let mut unnamed = cluster.as_administrator(&named);
    unnamed["ipam"].as_object_mut().unwrap().remove("node");
    unnamed["prevResult"] = json!({"cniVersion": "1.1.0", "ips": [],
        "pools": unnamed["ipam"]["pools"]});
    unnamed["cni.dev/valid-attachments"] = json!([]);
    let in_uts = |host: &str| {
        let script = format!("hostname {host} && exec \"$0\"");
        ["unshare", "--uts", "/bin/sh", "-c", &script].map(str::to_owned)
    };
    let on = |host: &str, command: &str, container: &str| {
        let call = cluster
            .sandbox()
            .call(cluster.allocator(), command, &unnamed);
        let call = if command == "GC" {
            call
        } else {
            call.container(container)
        };
        let through = in_uts(host);
        call.through(&through.each_ref().map(String::as_str)).run()
    };
    let said = "this machine is now \"n2\", but has registered as \"n1\"";
    for (command, code) in [("ADD", 7), ("DEL", 7), ("GC", 7), ("STATUS", 50)] {
        on("n2", command, "a").refused(code, said);
    }
    assert_eq!(cluster.held(), held);
    on("n1", "DEL", "a").nothing();
    assert_eq!(cluster.held(), held[1..]);

    // A person decides, here for the name of this host.
    let register = cluster.ipamctl(&unnamed, &["node-register", "--yes"]);
    assert!(register.status.success(), "{register:?}");
    cluster
        .alone(cluster.allocator(), "ADD", "c", &unnamed)
        .result();
    cluster
        .alone(cluster.allocator(), "DEL", "c", &unnamed)
        .nothing();
    on("n1", "DEL", "b").refused(7, "but has registered as");
    // A name in the configuration is a person's decision, too.
    let other = config(cluster, "one", "n3", &cluster.addresses());
    cluster.add("c", &other).result();
    cluster.del("c", &other).nothing();
    // After a boot, nothing that was started under the old name runs.
    boot(cluster, "one");
    on("n2", "ADD", "d").result();
    on("n2", "DEL", "d").nothing();
    on("n2", "DEL", "d").nothing();
    assert_eq!(cluster.held(), held[1..]);
}

fn blocks_are_not_given_from_after_a_boot_before_the_engine_has_confirmed_them(
    cluster: &mut dyn PoolCluster,
) {
    define_pools(cluster);
    let config = config(cluster, "one", "n1", &cluster.in_blocks());
    cluster.add("a", &config).result();
    cluster.stop();
    cluster.add("b", &config).result();
    boot(cluster, "one");
    let impatient = cluster.within("2s", &config);
    cluster.add("c", &impatient).refused(
        11,
        &format!("have to be compared with {}'s", cluster.engine()),
    );
    cluster.start();
    cluster.add("d", &config).result();
    assert_eq!(cluster.blocks("blue").len(), 1);
}

fn a_node_that_finds_its_name_taken_gives_no_more_from_its_blocks(cluster: &mut dyn PoolCluster) {
    define_pools(cluster);
    let [one, two] =
        ["one", "two"].map(|machine| config(cluster, machine, "n1", &cluster.in_blocks()));
    cluster.add("a", &one).result();
    copy_disk(cluster, "one", "two");
    cluster.add("b", &two).result();
    // STATUS, GC and a claim ask the engine. ADD doesn't while the blocks have room.
    assert_eq!(
        cluster.alone(cluster.selector(), "STATUS", "", &one).code(),
        50
    );
    cluster
        .add("c", &one)
        .refused(7, "ipam.node: \"n1\" is the name of another node");
    cluster.add("d", &two).result();
}

fn nodes_that_share_a_state_folder_keep_what_each_holds(cluster: &mut dyn PoolCluster) {
    define_pools(cluster);
    let [one, two] = ["n1", "n2"].map(|node| config(cluster, "shared", node, &cluster.addresses()));
    cluster.add("a", &one).result();
    cluster.add("b", &two).result();
    let held = cluster.held();
    for config in [&one, &two] {
        let container = if config == &one { "b" } else { "a" };
        cluster
            .alone(cluster.allocator(), "DEL", container, config)
            .nothing();
    }
    assert_eq!(cluster.held(), held);
    cluster.alone(cluster.allocator(), "GC", "", &one).nothing();
    let held = cluster.held();
    assert_eq!(held.len(), 1);
    assert!(held[0].starts_with("n2/"), "{held:?}");
}

fn networks_of_one_machine_may_have_a_cache_folder_each(cluster: &mut dyn PoolCluster) {
    define_pools(cluster);
    let config = config(cluster, "one", "n1", &cluster.addresses());
    let mut other = config.clone();
    other["ipam"][cluster.engine()]["cacheDir"] =
        json!(cluster.sandbox().root().join("other-cache"));
    for i in 0..3 {
        cluster.add(&format!("a{i}"), &config).result();
        cluster.add(&format!("b{i}"), &other).result();
    }
    cluster.del("a0", &other).nothing();
    cluster.del("b0", &config).nothing();
    assert_eq!(cluster.held().len(), 4);
}

fn a_restored_registration_is_that_of_its_machine(cluster: &mut dyn PoolCluster) {
    define_pools(cluster);
    let config = config(cluster, "one", "n1", &cluster.addresses());
    cluster.add("a", &config).result();
    let earlier = cluster.registration("n1");
    boot(cluster, "one");
    cluster.add("b", &config).result();
    cluster.set_registration("n1", &earlier);
    boot(cluster, "one");
    cluster.add("c", &config).result();
}

promises! {
    a_copied_disk_with_another_name_releases_nothing_of_the_original,
    of_a_disk_and_its_copy_with_one_name_one_is_refused_and_both_are_named,
    a_copy_on_another_host_is_refused_and_the_original_goes_on,
    another_machines_hardware_is_told,
    a_node_that_was_forgotten_and_replaced_is_refused_when_it_boots,
    a_machine_that_boots_has_its_name_and_releases_what_it_held,
    a_disk_of_before_the_last_boot_is_refused,
    a_machine_that_loses_its_name_in_a_boot_is_refused_until_a_person_decides,
    blocks_are_not_given_from_after_a_boot_before_the_engine_has_confirmed_them,
    a_node_that_finds_its_name_taken_gives_no_more_from_its_blocks,
    nodes_that_share_a_state_folder_keep_what_each_holds,
    networks_of_one_machine_may_have_a_cache_folder_each,
    a_restored_registration_is_that_of_its_machine,
}
