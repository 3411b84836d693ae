//! `ipamctl import`: all definitions are written or none, and nothing held loses its range or
//! gateway.

use std::fs;

use harness::Output;
use serde_json::{Value, json};

use super::pool_cluster::{PoolCluster, promises};

/// Defines these pools, and writes a conflist that leads `ipamctl` to the engine.
fn with_pools(cluster: &dyn PoolCluster, pools: &Value) {
    let config = cluster.config("n1", &cluster.addresses(), &json!([{"name": "lan"}]));
    let config = cluster.as_administrator(&config);
    cluster.sandbox().write_conflist("10-lan.conflist", &config);
    let imported = import(cluster, "first", pools, &[]);
    assert!(imported.status.success(), "{imported:?}");
}

/// The command that imports these pools from a file with this name.
fn importing(
    cluster: &dyn PoolCluster,
    file: &str,
    pools: &Value,
    words: &[&str],
) -> harness::Call {
    let file = cluster.sandbox().root().join(file);
    fs::write(&file, pools.to_string()).unwrap();
    let file = file.to_str().unwrap();
    cluster
        .sandbox()
        .ipamctl(&[&["import", file], words].concat())
}

fn import(cluster: &dyn PoolCluster, file: &str, pools: &Value, words: &[&str]) -> Output {
    importing(cluster, file, pools, words).run()
}

/// Checks that an import is refused for these reasons and writes nothing.
#[track_caller]
fn refused(cluster: &dyn PoolCluster, pools: &Value, why: &[&str]) {
    let before = cluster.defined();
    let output = import(cluster, "refused", pools, &["--replace"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    for part in why {
        assert!(output.stderr.contains(part), "{part}: {output:?}");
    }
    assert_eq!(cluster.defined(), before);
}

fn a_pool_loses_no_range_and_no_gateway_of_which_an_address_is_held(cluster: &mut dyn PoolCluster) {
    with_pools(cluster, &json!({"lan": {"subnet": "10.55.0.0/24"}}));
    let held = json!([{"name": "lan", "requested-ip": "10.55.0.200"}]);
    let held = cluster.config("n1", &[cluster.allocator()], &held);
    cluster.add("c1", &held).result();
    let holder = "10.55.0.200 of pool lan, which c1 eth0 of network testnet on node n1 holds,";
    let halves = json!({
        "lan": {"subnet": "10.55.0.0/25"},
        "dmz": {"subnet": "10.55.0.128/25"},
    });
    refused(
        cluster,
        &halves,
        &[holder, "would be in no range of pool lan"],
    );
    let gateway = json!({"lan": {"subnet": "10.55.0.0/24", "gateway": "10.55.0.9"}});
    refused(
        cluster,
        &gateway,
        &[
            holder,
            "would lose subnet 10.55.0.0/24 with gateway 10.55.0.1",
        ],
    );
    let block = json!({"lan": {"subnet": "10.55.0.0/24", "block": 28}});
    refused(cluster, &block, &[holder, "pool lan gets block"]);

    // Unheld addresses can be removed; after the release, all of them.
    let smaller = json!({"lan": {"subnet": "10.55.0.0/24", "rangeStart": "10.55.0.100"}});
    let output = import(cluster, "smaller", &smaller, &["--replace"]);
    assert_eq!(output.stdout, "lan: replaced\n", "{output:?}");
    cluster.del("c1", &held).nothing();
    let output = import(cluster, "halves", &halves, &["--replace"]);
    assert_eq!(output.stdout, "dmz: created\nlan: replaced\n", "{output:?}");
}

fn an_address_of_a_pool_that_was_removed_is_given_by_no_other(cluster: &mut dyn PoolCluster) {
    with_pools(cluster, &json!({"lan": {"subnet": "10.55.0.0/24"}}));
    let config = cluster.config("n1", &[cluster.allocator()], &json!([{"name": "lan"}]));
    cluster.add("c1", &config).result();
    cluster.undefine("lan");
    let other = json!({"dmz": {"subnet": "10.55.0.0/24"}});
    refused(cluster, &other, &["c1 eth0", "would be given by pool dmz"]);
}

fn a_block_of_a_pool_that_was_removed_is_given_by_no_other(cluster: &mut dyn PoolCluster) {
    with_pools(
        cluster,
        &json!({"fast": {"subnet": "10.1.0.0/24", "block": 26}}),
    );
    let fast = json!([{"name": "fast"}]);
    let config = cluster.config("n1", &cluster.in_blocks(), &fast);
    cluster.add("a", &config).result();
    cluster.undefine("fast");
    for elsewhere in [None, Some("10.2.0.0/24")] {
        let mut pools = json!({"red": {"subnet": "10.1.0.0/24"}});
        if let Some(subnet) = elsewhere {
            pools["fast"] = json!({"subnet": subnet, "block": 26});
        }
        refused(
            cluster,
            &pools,
            &["of pool fast, which node n1 holds, would be given by pool red"],
        );
    }
}

fn a_pool_loses_nothing_of_a_block_that_a_node_holds(cluster: &mut dyn PoolCluster) {
    with_pools(
        cluster,
        &json!({"lan": {"subnet": "10.56.0.0/27", "rangeStart": "10.56.0.16", "block": 28}}),
    );
    let config = cluster.config("n7", &cluster.in_blocks(), &json!([{"name": "lan"}]));
    cluster.add("c1", &config).result();
    let holder = "block 10.56.0.16/28 of pool lan, which node n7 holds,";
    for (keys, why) in [
        (
            json!({"rangeStart": "10.56.0.18", "block": 28}),
            "addresses",
        ),
        (json!({"exclude": ["10.56.0.20"], "block": 28}), "addresses"),
        (json!({"gateway": "10.56.0.2", "block": 28}), "its gateway"),
        (json!({"block": 29}), "/29 instead of /28"),
        (json!({}), "no block instead of /28"),
    ] {
        let mut pool = keys;
        pool["subnet"] = json!("10.56.0.0/27");
        refused(cluster, &json!({"lan": pool}), &[holder, why]);
    }
    let larger = json!({"lan": {"subnet": "10.56.0.0/27", "block": 28}});
    let output = import(cluster, "larger", &larger, &["--replace"]);
    assert_eq!(output.stdout, "lan: replaced\n", "{output:?}");
}

fn of_imports_at_once_that_overlap_one_is_written(cluster: &mut dyn PoolCluster) {
    with_pools(cluster, &json!({"lan": {"subnet": "10.55.0.0/24"}}));
    for round in 0..3 {
        let imports: Vec<_> = (0..6)
            .map(|i| {
                let name = format!("p{round}-{i}");
                let pools = json!({name.clone(): {"subnet": format!("10.60.{round}.0/24")}});
                importing(cluster, &name, &pools, &[]).start()
            })
            .collect();
        let outputs: Vec<Output> = imports.into_iter().map(harness::Running::output).collect();
        let written = outputs
            .iter()
            .filter(|output| output.status.success())
            .count();
        assert_eq!(written, 1, "{outputs:?}");
        assert_eq!(
            cluster.defined().len(),
            2 + round,
            "{:?}",
            cluster.defined()
        );
    }
}

promises! {
    a_pool_loses_no_range_and_no_gateway_of_which_an_address_is_held,
    an_address_of_a_pool_that_was_removed_is_given_by_no_other,
    a_block_of_a_pool_that_was_removed_is_given_by_no_other,
    a_pool_loses_nothing_of_a_block_that_a_node_holds,
    of_imports_at_once_that_overlap_one_is_written,
}
