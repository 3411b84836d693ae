//! SIGKILL before each system call of `ipam-da-etcd` and of a claim of `ipam-ds-etcd`, and
//! before each of what a runtime calls then. No address is lost, none is given twice, and
//! none stays after DEL or GC.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt;

use harness::{ETCD, ETCDCTL, needs};
use serde_json::{Value, json};

use super::Cluster;
use super::injected::Victim;
use crate::killed::{Point, STRACE, strace_works};

fn addresses() -> Value {
    json!([{"name": "red", "subnet": "10.1.0.0/24"}])
}

/// Kills the plugin there. It may get no further than to its end: how often it waits for
/// etcd isn't always the same.
fn kill(victim: &Victim<'_>, command: &str, container: &str, point: &Point) -> bool {
    let output = victim.injected(command, container, &point.injection());
    let is_killed = output.status.signal() == Some(9);
    assert!(
        is_killed || output.status.success(),
        "{command} at {point:?}: {output:?}"
    );
    is_killed
}

/// Most points must be reached. How often the client waits, reads, and writes a frame with
/// another one differs from run to run.
fn assert_killed(killed: usize, points: &[Point]) {
    assert!(killed * 2 > points.len(), "{killed} of {points:?}");
    println!("killed {killed} times");
}

macro_rules! needs_strace {
    () => {
        needs!(ETCD, ETCDCTL, STRACE);
        if !strace_works() {
            harness::skip("cluster::killed", "strace may not trace here");
            return;
        }
    };
}

#[test]
fn del_or_gc_releases_what_a_killed_add_has_reserved() {
    needs_strace!();
    let cluster = Cluster::default();
    let victim = Victim::new(&cluster, "ipam-da-etcd", "n1", &addresses()).with_valid(&["other"]);
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

#[test]
fn a_node_whose_first_add_is_killed_keeps_its_name() {
    needs_strace!();
    let cluster = Cluster::default();
    let node = |i: usize| Victim::new(&cluster, "ipam-da-etcd", &format!("n{i}"), &addresses());
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

#[test]
fn a_killed_del_or_gc_is_made_up_for_by_the_next() {
    needs_strace!();
    let cluster = Cluster::default();
    let victim = Victim::new(&cluster, "ipam-da-etcd", "n1", &addresses()).with_valid(&["other"]);
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

/// A cluster with a pool of many small blocks.
fn with_blocks() -> Cluster {
    let cluster = Cluster::default();
    cluster.etcd.put(
        "/ipam/v1/pools/blue",
        r#"{"subnet":"10.0.0.0/16","block":30}"#,
    );
    cluster
}

fn claimer<'a>(cluster: &'a Cluster, node: &str) -> Victim<'a> {
    let mut victim = Victim::new(cluster, "ipam-ds-etcd", node, &json!([{"name": "blue"}]));
    victim.config["ipam"]["keepEmptyBlocks"] = json!("0s");
    victim.with_valid(&[])
}

/// The blocks of a node: in etcd, and in its file.
fn blocks(cluster: &Cluster, node: &str) -> [BTreeSet<String>; 2] {
    let listed = cluster
        .etcd
        .ctl(&["get", "--prefix", "/ipam/v1/blocks/blue/"]);
    let lines: Vec<&str> = listed.lines().collect();
    let owner = format!("{{\"node\":\"{node}\",");
    let owned = lines.chunks(2).filter(|pair| pair[1].starts_with(&owner));
    let in_etcd = owned.map(|pair| pair[0].replace("/ipam/v1/blocks/blue/", ""));
    let file = cluster
        .sandbox
        .root()
        .join(node)
        .join("etcd-state/blocks/blue.json");
    let local: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let in_file = local["blocks"].as_array().unwrap().iter();
    let in_file = in_file.map(|block| block["cidr"].as_str().unwrap().to_owned());
    [in_etcd.collect(), in_file.collect()]
}

#[test]
fn a_block_whose_claim_is_killed_is_used_by_the_next_add_or_free() {
    needs_strace!();
    let cluster = with_blocks();
    let points = claimer(&cluster, "n0").points("ADD", "c");
    let mut killed = 0;
    for (i, point) in points.iter().enumerate() {
        let node = format!("n{}", i + 1);
        let victim = claimer(&cluster, &node);
        killed += usize::from(kill(&victim, "ADD", "c", point));
        victim.run("ADD", "d").result();
        let [in_etcd, in_file] = blocks(&cluster, &node);
        assert_eq!(in_etcd, in_file, "{point:?}");
        assert_eq!(in_etcd.len(), 1, "{point:?}");
    }
    assert_killed(killed, &points);
}

#[test]
fn a_block_whose_return_is_killed_is_returned_by_the_next_gc() {
    needs_strace!();
    let cluster = with_blocks();
    // The second GC returns it, after the first has ended its use.
    let prepared = |node: &str| {
        let victim = claimer(&cluster, node);
        victim.run("ADD", "c").result();
        assert!(victim.run("GC", "").status.success());
        assert_eq!(blocks(&cluster, node).map(|blocks| blocks.len()), [1, 1]);
        victim
    };
    let points = prepared("n0").points("GC", "");
    assert_eq!(blocks(&cluster, "n0").map(|blocks| blocks.len()), [0, 0]);
    let mut killed = 0;
    for (i, point) in points.iter().enumerate() {
        let node = format!("n{}", i + 1);
        let victim = prepared(&node);
        killed += usize::from(kill(&victim, "GC", "", point));
        assert!(victim.run("GC", "").status.success());
        assert_eq!(
            blocks(&cluster, &node).map(|blocks| blocks.len()),
            [0, 0],
            "{point:?}"
        );
        victim.run("ADD", "d").result();
        let [in_etcd, in_file] = blocks(&cluster, &node);
        assert_eq!(in_etcd, in_file, "{point:?}");
    }
    assert_killed(killed, &points);
}
