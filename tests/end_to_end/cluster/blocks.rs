//! `ipam-ds-etcd`, `ipam-ds-kubernetes`: each node claims blocks of a pool.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};

use super::pool_cluster::{PoolCluster, promises};

pub(super) fn named() -> Value {
    json!([{"name": "blue"}])
}

/// A pool of four blocks of four addresses.
pub(super) fn define_pool(cluster: &dyn PoolCluster) {
    cluster.define(
        "blue",
        &json!({"subnet": "10.0.0.0/27", "rangeStart": "10.0.0.4", "rangeEnd": "10.0.0.19", "block": 30}),
    );
}

/// Simulates a boot of the node; returns the replacement for `/proc`.
fn rebooted(cluster: &dyn PoolCluster, boot: &str) -> std::path::PathBuf {
    let proc = cluster.sandbox().root().join(boot);
    fs::create_dir_all(proc.join("sys/kernel/random")).unwrap();
    fs::write(proc.join("sys/kernel/random/boot_id"), boot).unwrap();
    proc
}

fn nodes_claim_blocks_and_give_addresses_of_the_pools_subnet(cluster: &mut dyn PoolCluster) {
    define_pool(cluster);
    let [one, two] = ["n1", "n2"].map(|node| cluster.config(node, &cluster.in_blocks(), &named()));
    let result = cluster.add("a", &one).result();
    assert!(
        result["ips"][0]["address"]
            .as_str()
            .unwrap()
            .ends_with("/27"),
        "{result}"
    );
    assert_eq!(result["ips"][0]["gateway"], "10.0.0.1");
    let mut given: BTreeSet<String> = harness::answer_of(&result).into_iter().collect();
    for i in 0..7 {
        given.extend(cluster.add(&format!("b{i}"), &one).ips());
        given.extend(cluster.add(&format!("c{i}"), &two).ips());
    }
    assert_eq!(given.len(), 15);
    assert_eq!(cluster.blocks("blue").len(), 4);
    let error = (0..4)
        .map(|i| cluster.add(&format!("d{i}"), &two))
        .find(|output| !output.status.success());
    error
        .unwrap()
        .refused(11, "pool blue (10.0.0.4-10.0.0.19) has no block left");
}

fn while_the_engine_is_away_containers_start_and_end_as_long_as_there_is_room(
    cluster: &mut dyn PoolCluster,
) {
    define_pool(cluster);
    let mut config = cluster.config("n1", &cluster.in_blocks(), &named());
    cluster.add("a", &config).result();
    let patient = config.clone();
    config = cluster.within("300ms", &config);
    cluster.stop();
    cluster.add("b", &config).result();
    let mut added = config.clone();
    added["prevResult"] = cluster.add("c", &config).result();
    cluster.call("CHECK", "c", &added).run().nothing();
    let full = (0..3)
        .map(|i| cluster.add(&format!("d{i}"), &config))
        .find(|output| !output.status.success());
    full.unwrap().refused(11, "within 300ms");
    cluster.del("a", &config).nothing();
    cluster.add("e", &config).result();
    cluster.start();
    cluster.add("f", &patient).result();
}

fn a_damaged_or_foreign_file_of_blocks_is_named_in_the_error(cluster: &mut dyn PoolCluster) {
    define_pool(cluster);
    let mut config = cluster.config("n1", &cluster.in_blocks(), &named());
    cluster.add("a", &config).result();
    let file = cluster
        .sandbox()
        .root()
        .join("n1/engine-state/blocks/blue.json");
    let content = fs::read(&file).unwrap();
    fs::write(&file, "{").unwrap();
    cluster
        .add("b", &config)
        .refused(5, "it is no list of blocks");
    fs::write(&file, content).unwrap();
    config["ipam"]["node"] = json!("n2");
    cluster
        .add("b", &config)
        .refused(7, "has blocks of node \"n1\"");
}

fn an_old_disks_blocks_are_not_used_if_they_are_anothers_by_now(cluster: &mut dyn PoolCluster) {
    define_pool(cluster);
    let config = cluster.config("n1", &cluster.in_blocks(), &named());
    let old = cluster.add("a", &config).ips();
    let claimed = cluster.blocks("blue");
    let [block] = &claimed[..] else {
        panic!("{claimed:?}")
    };
    // The node was forgotten, and another one has its block.
    cluster.lose_registrations();
    cluster.move_block("blue", block, "n2");
    let proc = rebooted(cluster, "second-boot");
    let add = |container: &str| {
        cluster
            .call("ADD", container, &config)
            .env("IPAM_DELEGATED_PROC", &proc)
            .run()
    };
    let new = add("b").ips();
    assert_ne!(cluster.blocks("blue").len(), 1);
    let other: Vec<String> = (0..2).flat_map(|i| add(&format!("c{i}")).ips()).collect();
    let in_block = |ip: &String| {
        let last: u8 = ip.rsplit('.').next().unwrap().parse().unwrap();
        let first: u8 = block
            .trim_end_matches("/30")
            .rsplit('.')
            .next()
            .unwrap()
            .parse()
            .unwrap();
        (first..first + 4).contains(&last)
    };
    assert!(old.iter().all(in_block));
    assert!(
        !new.iter().chain(&other).any(in_block),
        "{block} {new:?} {other:?}"
    );
    // After a boot and without the engine, no address is given from blocks that were not compared.
    cluster.stop();
    let away = cluster.within("300ms", &config);
    let proc = rebooted(cluster, "third-boot");
    let output = cluster
        .call("ADD", "z", &away)
        .env("IPAM_DELEGATED_PROC", &proc)
        .run();
    output.refused(
        11,
        &format!("have to be compared with {}'s", cluster.engine()),
    );
}

fn a_claim_without_an_answer_is_found_out_later(cluster: &mut dyn PoolCluster) {
    define_pool(cluster);
    let config = cluster.config("n1", &cluster.in_blocks(), &named());
    cluster.add("a", &config).result();
    let file = cluster
        .sandbox()
        .root()
        .join("n1/engine-state/blocks/blue.json");
    let mut local: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(local["blocks"].as_array().unwrap().len(), 1);
    // As if killed between the engine's answer and the write of the file.
    local["claiming"] = local["blocks"][0].take();
    local["blocks"] = json!([]);
    fs::write(&file, serde_json::to_vec(&local).unwrap()).unwrap();
    cluster.add("b", &config).result();
    assert_eq!(cluster.blocks("blue").len(), 1);
    // GC finds the block even if the file doesn't have it.
    local["claiming"] = Value::Null;
    fs::write(&file, serde_json::to_vec(&local).unwrap()).unwrap();
    cluster.gc(&["a", "b"], &config).nothing();
    let local: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(local["blocks"].as_array().unwrap().len(), 1);
    assert_eq!(cluster.blocks("blue").len(), 1);
}

fn gc_gives_back_blocks_that_have_been_empty(cluster: &mut dyn PoolCluster) {
    define_pool(cluster);
    let mut config = cluster.config("n1", &cluster.in_blocks(), &named());
    config["ipam"]["keepEmptyBlocks"] = json!("0s");
    for container in ["a", "b", "c", "d", "e"] {
        cluster.add(container, &config).result();
    }
    let claimed = cluster.blocks("blue").len();
    assert!(claimed >= 2);
    cluster.gc(&["a", "b", "c", "d", "e"], &config).nothing();
    assert_eq!(cluster.blocks("blue").len(), claimed);
    for _ in 0..3 {
        cluster.gc(&[], &config).nothing();
    }
    assert!(
        cluster.blocks("blue").is_empty(),
        "{:?}",
        cluster.blocks("blue")
    );
    cluster.add("f", &config).result();
    assert_eq!(cluster.blocks("blue").len(), 1);
}

fn two_nodes_with_one_name_are_refused(cluster: &mut dyn PoolCluster) {
    define_pool(cluster);
    let config = cluster.config("n1", &cluster.in_blocks(), &named());
    cluster.add("a", &config).result();
    let impostor = cluster.on_another_disk(&config);
    cluster
        .add("b", &impostor)
        .refused(7, "ipam.node: \"n1\" is the name of another node");
    assert_eq!(cluster.blocks("blue").len(), 1);
}

fn a_pool_without_blocks_is_refused_and_one_with_blocks_is_given_in_blocks_alone(
    cluster: &mut dyn PoolCluster,
) {
    define_pool(cluster);
    let config = cluster.config("n1", &[cluster.allocator()], &named());
    cluster.add("a", &config).refused(
        7,
        &format!(
            "{}.block: 30: this pool is given in blocks",
            cluster.path_of_pool("blue")
        ),
    );
    cluster.define("green", &json!({"subnet":"10.1.0.0/28"}));
    let config = cluster.config("n1", &cluster.in_blocks(), &json!([{"name": "green"}]));
    cluster.add("a", &config).refused(
        7,
        &format!("{}.block is missing", cluster.path_of_pool("green")),
    );
}

/// Runs GC without a valid attachment until empty blocks are given back.
fn collect(cluster: &dyn PoolCluster, config: &Value) {
    let mut config = config.clone();
    config["ipam"]["keepEmptyBlocks"] = json!("0s");
    for _ in 0..3 {
        assert!(cluster.gc(&[], &config).status.success());
    }
}

fn a_block_that_was_put_aside_is_used_again_before_another_one_is_claimed(
    cluster: &mut dyn PoolCluster,
) {
    define_pool(cluster);
    let [one, two] = ["n1", "n2"].map(|node| cluster.config(node, &cluster.in_blocks(), &named()));
    cluster.add("a", &one).result();
    let mut gc = one.clone();
    gc["ipam"]["keepEmptyBlocks"] = json!("0s");
    // The first GC puts the empty block aside; a second one would give it back.
    cluster.gc(&[], &gc).nothing();
    assert_eq!(cluster.blocks("blue").len(), 1);
    for i in 0..12 {
        cluster.add(&format!("b{i}"), &two).result();
    }
    assert_eq!(cluster.blocks("blue").len(), 4);
    cluster.add("c", &one).result();
}

fn empty_blocks_of_a_pool_that_no_network_names_are_given_back(cluster: &mut dyn PoolCluster) {
    define_pool(cluster);
    cluster.define("green", &json!({"subnet":"10.1.0.0/24","block":28}));
    let config = cluster.config("n1", &cluster.in_blocks(), &named());
    cluster.add("a", &config).result();
    cluster.del("a", &config).nothing();
    let other = cluster.config("n1", &cluster.in_blocks(), &json!([{"name": "green"}]));
    // Its definition may be missing as well.
    cluster.undefine("blue");
    collect(cluster, &other);
    assert!(cluster.blocks("blue").is_empty());
}

fn a_pool_from_which_block_is_taken_away_gives_addresses_once_its_blocks_are_given_back(
    cluster: &mut dyn PoolCluster,
) {
    define_pool(cluster);
    let in_blocks = cluster.config("n1", &cluster.in_blocks(), &named());
    cluster.add("a", &in_blocks).result();
    cluster.add("b", &in_blocks).result();
    cluster.define(
        "blue",
        &json!({"subnet":"10.0.0.0/27","rangeStart":"10.0.0.4","rangeEnd":"10.0.0.19"}),
    );
    let one_by_one = cluster.config("n1", &[cluster.allocator()], &named());
    cluster
        .add("c", &one_by_one)
        .refused(7, "is given in blocks");
    cluster.del("a", &in_blocks).nothing();
    collect(cluster, &one_by_one);
    // GC has released `b` by its record, and then given the block back.
    assert!(
        cluster.blocks("blue").is_empty(),
        "{:?}",
        cluster.blocks("blue")
    );
    cluster.add("d", &one_by_one).result();
}

fn a_block_that_a_restore_has_lost_is_claimed_again_and_every_add_succeeds(
    cluster: &mut dyn PoolCluster,
) {
    define_pool(cluster);
    let config = cluster.config("n1", &cluster.in_blocks(), &named());
    let mut given: BTreeSet<String> = cluster.add("a", &config).ips().into_iter().collect();
    cluster.lose_blocks("blue");
    for i in 0..11 {
        given.extend(cluster.add(&format!("b{i}"), &config).ips());
    }
    assert_eq!(given.len(), 12);
    let held: BTreeSet<String> = cluster.blocks("blue").into_iter().collect();
    assert_eq!(held.len(), 3);
    let file = cluster
        .sandbox()
        .root()
        .join("n1/engine-state/blocks/blue.json");
    let local: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let listed = local["blocks"].as_array().unwrap().iter();
    let listed: Vec<&str> = listed.filter_map(|block| block["cidr"].as_str()).collect();
    assert_eq!(listed.len(), 3, "{listed:?}");
    assert!(listed.iter().all(|block| held.contains(*block)), "{held:?}");
}

promises! {
    nodes_claim_blocks_and_give_addresses_of_the_pools_subnet,
    while_the_engine_is_away_containers_start_and_end_as_long_as_there_is_room,
    a_damaged_or_foreign_file_of_blocks_is_named_in_the_error,
    an_old_disks_blocks_are_not_used_if_they_are_anothers_by_now,
    a_claim_without_an_answer_is_found_out_later,
    gc_gives_back_blocks_that_have_been_empty,
    two_nodes_with_one_name_are_refused,
    a_pool_without_blocks_is_refused_and_one_with_blocks_is_given_in_blocks_alone,
    a_block_that_was_put_aside_is_used_again_before_another_one_is_claimed,
    empty_blocks_of_a_pool_that_no_network_names_are_given_back,
    a_pool_from_which_block_is_taken_away_gives_addresses_once_its_blocks_are_given_back,
    a_block_that_a_restore_has_lost_is_claimed_again_and_every_add_succeeds,
}
