//! `ipam-da-etcd`, `ipam-da-kubernetes`: an allocator's promises, for a whole cluster.

use std::collections::BTreeSet;
use std::thread;

use serde_json::{Value, json};

use super::pool_cluster::{PoolCluster, promises};

fn small() -> Value {
    json!([{"name": "blue", "subnet": "10.0.0.0/29", "gateway": "10.0.0.1"}])
}

fn a_container_gets_an_address_and_del_releases_it(cluster: &mut dyn PoolCluster) {
    let config = cluster.config("n1", &cluster.addresses(), &small());
    let result = cluster.add("c1", &config).result();
    assert_eq!(result["ips"][0]["gateway"], "10.0.0.1");
    let address = result["ips"][0]["address"].as_str().unwrap();
    let ip = address.strip_suffix("/29").unwrap();
    assert_eq!(cluster.reserved("blue"), [ip]);
    assert_eq!(cluster.held(), [format!("n1/testnet/c1:eth0/blue/{ip}")]);
    assert_eq!(cluster.holder("blue", ip)["containerID"], "c1");
    let mut check = config.clone();
    check["prevResult"] = result;
    cluster.call("CHECK", "c1", &check).run().nothing();
    cluster.del("c1", &config).nothing();
    cluster.del("c1", &config).nothing();
    assert!(cluster.reserved("blue").is_empty() && cluster.held().is_empty());
    // Without a record, the allocator itself is called.
    let allocator = cluster.sandbox().call(cluster.allocator(), "CHECK", &check);
    assert_eq!(allocator.run().code(), 112);
}

fn nodes_share_a_pool_and_no_address_is_given_twice(cluster: &mut dyn PoolCluster) {
    cluster.define(
        "blue",
        &json!({"subnet":"10.0.0.0/26","exclude":["10.0.0.2"]}),
    );
    let pools = json!([{"name": "blue"}]);
    // 66 callers on three nodes share 61 addresses.
    let outputs: Vec<_> = thread::scope(|scope| {
        let callers: Vec<_> = (0..66)
            .map(|i| {
                let config = cluster.config(&format!("n{}", i % 3), &cluster.addresses(), &pools);
                let cluster = &*cluster;
                scope.spawn(move || cluster.add(&format!("c{i}"), &config))
            })
            .collect();
        callers
            .into_iter()
            .map(|caller| caller.join().unwrap())
            .collect()
    });
    let (good, bad): (Vec<_>, Vec<_>) = outputs.iter().partition(|output| output.status.success());
    let given: BTreeSet<String> = good.iter().flat_map(|output| output.ips()).collect();
    assert_eq!(
        (good.len(), given.len(), bad.len()),
        (60, 60, 6),
        "{outputs:?}"
    );
    assert!(!given.contains("10.0.0.2") && !given.contains("10.0.0.1"));
    assert!(bad.iter().all(|output| output.code() == 11));
    assert_eq!(cluster.reserved("blue").len(), 60);
    assert_eq!(cluster.held().len(), 60);
    let status = cluster.config("n1", &cluster.addresses(), &pools);
    let full = cluster.call("STATUS", "", &status).run();
    assert_eq!(full.code(), 50);
    assert!(
        full.error()["msg"]
            .as_str()
            .unwrap()
            .contains("has no address left: all 60 are reserved")
    );
}

fn status_tells_a_pool_that_other_nodes_have_filled(cluster: &mut dyn PoolCluster) {
    let [filling, asking] =
        ["n1", "n2"].map(|node| cluster.config(node, &cluster.addresses(), &small()));
    for container in ["c1", "c2", "c3", "c4", "c5"] {
        cluster.call("STATUS", "", &asking).run().nothing();
        cluster.add(container, &filling).result();
    }
    let full = cluster.call("STATUS", "", &asking).run();
    full.refused(50, "has no address left: all 5 are reserved");
}

fn an_add_follows_a_definition_that_was_changed_since_the_last_one(cluster: &mut dyn PoolCluster) {
    let config = cluster.config("n1", &cluster.addresses(), &json!([{"name": "blue"}]));
    cluster.define("blue", &json!({"subnet": "10.0.0.0/30"}));
    assert_eq!(cluster.add("c1", &config).ips(), ["10.0.0.2"]);
    assert_eq!(cluster.add("c2", &config).code(), 11);
    cluster.define("blue", &json!({"subnet": "10.0.0.0/29"}));
    let second = cluster.add("c2", &config).ips();
    cluster.define("blue", &json!({"subnet": "10.1.0.0/30"}));
    assert_eq!(cluster.add("c3", &config).ips(), ["10.1.0.2"]);
    assert_eq!(
        cluster.reserved("blue"),
        ["10.0.0.2", &second[0], "10.1.0.2"]
    );
    cluster.undefine("blue");
    cluster.add("c4", &config).refused(7, "no pool \"blue\"");
    assert_eq!(cluster.reserved("blue").len(), 3);
}

fn a_second_add_is_refused_and_keeps_the_first_ones_address(cluster: &mut dyn PoolCluster) {
    let config = cluster.config("n1", &cluster.addresses(), &small());
    let ip = cluster.add("c1", &config).ips();
    assert_eq!(cluster.add("c1", &config).code(), 110);
    // The allocator only, without the chain's record.
    let mut alone = config.clone();
    alone["prevResult"] = json!({"cniVersion": "1.1.0", "ips": [], "pools": small()});
    assert_eq!(
        cluster
            .sandbox()
            .call(cluster.allocator(), "ADD", &alone)
            .run()
            .code(),
        110
    );
    assert_eq!(cluster.reserved("blue"), ip);
}

fn a_requested_address_is_given_or_refused_with_its_holder(cluster: &mut dyn PoolCluster) {
    let pools = json!([{"name": "blue", "subnet": "10.0.0.0/29", "exclude": ["10.0.0.4"], "requested-ip": "10.0.0.4"}]);
    let config = cluster.config("n1", &cluster.addresses(), &pools);
    assert_eq!(cluster.add("c1", &config).ips(), ["10.0.0.4"]);
    let error = cluster
        .add("c2", &cluster.config("n2", &cluster.addresses(), &pools))
        .error();
    assert_eq!(error["code"], 111);
    let msg = error["msg"].as_str().unwrap();
    assert!(
        msg.contains("is reserved to c1 eth0 of network testnet on node n1 already"),
        "{msg}"
    );
    assert_eq!(cluster.held().len(), 1);
}

fn several_pools_give_an_address_each_or_none(cluster: &mut dyn PoolCluster) {
    let pools = json!([
        {"name": "blue", "subnet": "10.0.0.0/24"},
        {"name": "six", "subnet": "fd00::/64"},
        {"subnet": "10.0.1.0/30"},
    ]);
    let config = cluster.config("n1", &cluster.addresses(), &pools);
    let given = cluster.add("c1", &config).ips();
    assert_eq!(given.len(), 3);
    assert_eq!(given[2], "10.0.1.2");
    assert_eq!(cluster.held().len(), 3);
    cluster
        .add("c2", &config)
        .refused(11, "pool 2 of network testnet");
    assert_eq!(cluster.held().len(), 3);
    cluster.del("c1", &config).nothing();
    assert!(cluster.held().is_empty());
}

fn a_sticky_key_gets_its_address_again_on_another_node(cluster: &mut dyn PoolCluster) {
    let pools = json!([{"name": "blue", "subnet": "10.0.0.0/24", "sticky": "prod/db-0"}]);
    let [one, two] = ["n1", "n2"].map(|node| cluster.config(node, &cluster.addresses(), &pools));
    let first = cluster.add("c1", &one).ips();
    let other = cluster.add("c2", &two).ips();
    assert_ne!(first, other);
    cluster.del("c2", &two).nothing();
    cluster.del("c1", &one).nothing();
    assert_eq!(cluster.add("c3", &two).ips(), other);
    assert_eq!(cluster.sticky_keys("blue"), 1);
}

fn gc_releases_what_is_this_nodes_and_this_networks(cluster: &mut dyn PoolCluster) {
    let pools = json!([{"name": "blue", "subnet": "10.0.0.0/24"}]);
    let [one, two] = ["n1", "n2"].map(|node| cluster.config(node, &cluster.addresses(), &pools));
    let mut other = one.clone();
    other["name"] = json!("othernet");
    for (container, config) in [("a", &one), ("b", &one), ("c", &two), ("d", &other)] {
        cluster.add(container, config).result();
    }
    // The allocator only: the chain would release by its records.
    let mut gc = one.clone();
    gc["cni.dev/valid-attachments"] = json!([{"containerID": "b", "ifname": "eth0"}]);
    cluster
        .sandbox()
        .call(cluster.allocator(), "GC", &gc)
        .run()
        .nothing();
    let held: Vec<String> = cluster.held();
    let holders: Vec<&str> = held
        .iter()
        .map(|held| held.rsplit_once("/blue/").unwrap().0)
        .collect();
    assert_eq!(
        holders,
        [
            "n1/othernet/d:eth0",
            "n1/testnet/b:eth0",
            "n2/testnet/c:eth0"
        ]
    );
    assert_eq!(cluster.reserved("blue").len(), 3);
}

fn two_nodes_with_one_name_are_told_apart_by_their_disks(cluster: &mut dyn PoolCluster) {
    let config = cluster.config("n1", &cluster.addresses(), &small());
    cluster.add("c1", &config).result();
    let mut impostor = cluster.on_another_disk(&config);
    cluster
        .add("c2", &impostor)
        .refused(7, "ipam.node: \"n1\" is the name of another node");
    impostor["cni.dev/valid-attachments"] = json!([]);
    assert_eq!(
        cluster
            .sandbox()
            .call(cluster.allocator(), "GC", &impostor)
            .run()
            .code(),
        7
    );
    assert_eq!(cluster.held().len(), 1);
}

fn a_rollback_releases_what_its_own_add_has_reserved_and_nothing_of_an_earlier_one(
    cluster: &mut dyn PoolCluster,
) {
    let config = cluster.config("n1", &cluster.addresses(), &small());
    cluster.add("c1", &config).result();
    let held = cluster.held();
    // The record is lost, and a second ADD fails with a code other than 110, so it is rolled back.
    let del = |undone: &str| {
        let call = cluster.sandbox().call(cluster.allocator(), "DEL", &config);
        call.container("c1")
            .env("IPAM_DELEGATED_CALL", undone)
            .env("IPAM_DELEGATED_ROLLBACK", undone)
            .run()
    };
    del("another-call").nothing();
    assert_eq!(cluster.held(), held);
    let ip = &cluster.reserved("blue")[0];
    let by = cluster.holder("blue", ip);
    del(by["call"].as_str().unwrap()).nothing();
    assert!(cluster.held().is_empty() && cluster.reserved("blue").is_empty());
}

fn a_second_add_that_cannot_ask_the_engine_leaves_the_running_containers_address(
    cluster: &mut dyn PoolCluster,
) {
    let config = cluster.config("n1", &cluster.addresses(), &small());
    cluster.add("c1", &config).result();
    let held = cluster.held();
    std::fs::remove_dir_all(cluster.sandbox().root().join("n1/state")).unwrap();
    cluster.stop();
    let impatient = cluster.within("500ms", &config);
    cluster.add("c1", &impatient).refused(11, "within 500ms");
    cluster.start();
    // Only the reservations of the failed ADD are undone.
    assert_eq!(cluster.add("c1", &config).code(), 110);
    assert_eq!(cluster.held(), held);
}

promises! {
    a_container_gets_an_address_and_del_releases_it,
    nodes_share_a_pool_and_no_address_is_given_twice,
    status_tells_a_pool_that_other_nodes_have_filled,
    an_add_follows_a_definition_that_was_changed_since_the_last_one,
    a_second_add_is_refused_and_keeps_the_first_ones_address,
    a_requested_address_is_given_or_refused_with_its_holder,
    several_pools_give_an_address_each_or_none,
    a_sticky_key_gets_its_address_again_on_another_node,
    gc_releases_what_is_this_nodes_and_this_networks,
    two_nodes_with_one_name_are_told_apart_by_their_disks,
    a_rollback_releases_what_its_own_add_has_reserved_and_nothing_of_an_earlier_one,
    a_second_add_that_cannot_ask_the_engine_leaves_the_running_containers_address,
}
