//! SIGKILL before each system call of the allocator and of a block's claim, then again before each
//! system call of the runtime's next call. No address is lost or given twice, and none stays
//! reserved after DEL or GC.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt;

use harness::needs;
use serde_json::{Value, json};

use super::injected::Victim;
use super::pool_cluster::{PoolCluster, promises};
use crate::killed::{Point, STRACE, strace_works};

fn addresses() -> Value {
    json!([{"name": "red", "subnet": "10.1.0.0/24"}])
}

/// Kills the plugin at this point. It may end without reaching the point, because the number of
/// waits for the engine varies.
fn kill(victim: &Victim<'_>, command: &str, container: &str, point: &Point) -> bool {
    let output = victim.injected(command, container, &point.injection());
    let is_killed = output.status.signal() == Some(9);
    assert!(
        is_killed || output.status.success(),
        "{command} at {point:?}: {output:?}"
    );
    is_killed
}

/// Requires that most points are reached. The number of waits, reads and combined frames of the
/// client differs from run to run.
fn assert_killed(killed: usize, points: &[Point]) {
    assert!(killed * 2 > points.len(), "{killed} of {points:?}");
    println!("killed {killed} times");
}

macro_rules! needs_strace {
    () => {
        needs!(STRACE);
        if !strace_works() {
            harness::skip("cluster::killed", "strace may not trace here");
            return;
        }
    };
}

fn del_or_gc_releases_what_a_killed_add_has_reserved(cluster: &mut dyn PoolCluster) {
    needs_strace!();
    let victim =
        Victim::new(cluster, cluster.allocator(), "n1", &addresses()).with_valid(&["other"]);
    victim.run("ADD", "other").result();
    let others = (cluster.reserved("red"), cluster.held());
    let points = victim.points("ADD", "c");
    victim.run("DEL", "c").nothing();
    let mut killed = 0;
    for (i, point) in points.iter().enumerate() {
        killed += usize::from(kill(&victim, "ADD", "c", point));
        let then = ["DEL", "GC"][i % 2];
        victim.run(then, "c").nothing();
        let now = (cluster.reserved("red"), cluster.held());
        assert_eq!(now, others, "ADD killed at {point:?}, then {then}");
    }
    assert_killed(killed, &points);
}

fn a_node_whose_first_add_is_killed_keeps_its_name(cluster: &mut dyn PoolCluster) {
    needs_strace!();
    let node = |i: usize| Victim::new(cluster, cluster.allocator(), &format!("n{i}"), &addresses());
    let points = node(0).points("ADD", "c");
    node(0).run("DEL", "c").nothing();
    let mut killed = 0;
    for (i, point) in points.iter().enumerate() {
        let victim = node(i + 1);
        killed += usize::from(kill(&victim, "ADD", "c", point));
        victim.run("DEL", "c").nothing();
        victim.run("ADD", "d").result();
        victim.run("DEL", "d").nothing();
        assert!(cluster.held().is_empty(), "{point:?}: {:?}", cluster.held());
    }
    assert!(cluster.reserved("red").is_empty());
    assert_killed(killed, &points);
}

fn a_killed_del_or_gc_is_made_up_for_by_the_next(cluster: &mut dyn PoolCluster) {
    needs_strace!();
    let victim =
        Victim::new(cluster, cluster.allocator(), "n1", &addresses()).with_valid(&["other"]);
    victim.run("ADD", "other").result();
    let others = (cluster.reserved("red"), cluster.held());
    for command in ["DEL", "GC"] {
        victim.run("ADD", "c").result();
        let points = victim.points(command, "c");
        let mut killed = 0;
        for point in &points {
            victim.run("ADD", "c").result();
            killed += usize::from(kill(&victim, command, "c", point));
            victim.run(command, "c").nothing();
            let now = (cluster.reserved("red"), cluster.held());
            assert_eq!(now, others, "{command} killed at {point:?}");
        }
        assert_killed(killed, &points);
    }
}

/// A pool of many small blocks.
fn define_blocks(cluster: &dyn PoolCluster) {
    cluster.define("blue", &json!({"subnet": "10.0.0.0/16", "block": 30}));
}

fn claimer<'a>(cluster: &'a dyn PoolCluster, node: &str) -> Victim<'a> {
    let mut victim = Victim::new(
        cluster,
        cluster.selector(),
        node,
        &json!([{"name": "blue"}]),
    );
    victim.config["ipam"]["keepEmptyBlocks"] = json!("0s");
    victim.with_valid(&[])
}

/// The blocks of a node in the engine, and in its file.
fn blocks(cluster: &dyn PoolCluster, node: &str) -> [BTreeSet<String>; 2] {
    let in_engine = cluster.blocks_of("blue", node).into_iter();
    let file = cluster
        .sandbox()
        .root()
        .join(node)
        .join("engine-state/blocks/blue.json");
    let local: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let in_file = local["blocks"].as_array().unwrap().iter();
    let in_file = in_file.map(|block| block["cidr"].as_str().unwrap().to_owned());
    [in_engine.collect(), in_file.collect()]
}

fn a_block_whose_claim_is_killed_is_used_by_the_next_add_or_free(cluster: &mut dyn PoolCluster) {
    needs_strace!();
    define_blocks(cluster);
    let points = claimer(cluster, "n0").points("ADD", "c");
    let mut killed = 0;
    for (i, point) in points.iter().enumerate() {
        let node = format!("n{}", i + 1);
        let victim = claimer(cluster, &node);
        killed += usize::from(kill(&victim, "ADD", "c", point));
        victim.run("ADD", "d").result();
        let [in_engine, in_file] = blocks(cluster, &node);
        assert_eq!(in_engine, in_file, "{point:?}");
        assert_eq!(in_engine.len(), 1, "{point:?}");
    }
    assert_killed(killed, &points);
}

fn a_block_whose_return_is_killed_is_returned_by_the_next_gc(cluster: &mut dyn PoolCluster) {
    needs_strace!();
    define_blocks(cluster);
    // The first GC puts the block aside, the second gives it back.
    let prepared = |node: &str| {
        let victim = claimer(cluster, node);
        victim.run("ADD", "c").result();
        assert!(victim.run("GC", "").status.success());
        assert_eq!(blocks(cluster, node).map(|blocks| blocks.len()), [1, 1]);
        victim
    };
    let points = prepared("n0").points("GC", "");
    assert_eq!(blocks(cluster, "n0").map(|blocks| blocks.len()), [0, 0]);
    let mut killed = 0;
    for (i, point) in points.iter().enumerate() {
        let node = format!("n{}", i + 1);
        let victim = prepared(&node);
        killed += usize::from(kill(&victim, "GC", "", point));
        assert!(victim.run("GC", "").status.success());
        assert_eq!(
            blocks(cluster, &node).map(|blocks| blocks.len()),
            [0, 0],
            "{point:?}"
        );
        victim.run("ADD", "d").result();
        let [in_engine, in_file] = blocks(cluster, &node);
        assert_eq!(in_engine, in_file, "{point:?}");
    }
    assert_killed(killed, &points);
}

promises! {
    del_or_gc_releases_what_a_killed_add_has_reserved,
    a_node_whose_first_add_is_killed_keeps_its_name,
    a_killed_del_or_gc_is_made_up_for_by_the_next,
    a_block_whose_claim_is_killed_is_used_by_the_next_add_or_free,
    a_block_whose_return_is_killed_is_returned_by_the_next_gc,
}
