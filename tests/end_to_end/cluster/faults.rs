//! Each system call of a cluster's plugins fails in turn: nothing in use is released, nothing held
//! is forgotten, and a DEL or GC that succeeds has released.

use harness::{FaultWalk, Output, STRACE, needs};
use serde_json::{Value, json};

use super::injected::Victim;
use super::pool_cluster::{PoolCluster, promises};

/// A walk through a plugin's calls: `ADD` and `DEL` of `c`, `GC` and `STATUS`.
struct Walk<'a> {
    victim: Victim<'a>,
    /// The state that must not change.
    kept: &'a dyn Fn() -> Vec<String>,
    /// The addresses that DEL or GC of `c` must release.
    held: &'a dyn Fn() -> Vec<String>,
}

impl Walk<'_> {
    fn run(&self, command: &str) {
        let victim = &self.victim;
        let impatient = victim.impatient();
        let before = if matches!(command, "DEL" | "GC") {
            "ADD"
        } else {
            "DEL"
        };
        let prepare = || victim.run(before, "c");
        let kept = (self.kept)();
        prepare();
        let trace = victim.cluster.sandbox().root().join("fault-trace");
        let (walk, _) = FaultWalk::record(victim.call(command, "c"), &trace, "read(0");
        for point in &walk.points {
            prepare();
            let output: Output = FaultWalk::run_at(impatient.call(command, "c"), point);
            let now = (self.kept)();
            let lost: Vec<&String> = kept.iter().filter(|key| !now.contains(key)).collect();
            assert!(lost.is_empty(), "{command}, {point}: {lost:?} {output:?}");
            if before == "ADD" && output.status.success() {
                let held = (self.held)();
                assert!(held.is_empty(), "{command}, {point}: {held:?} {output:?}");
            }
        }
        println!("{} {command}: {} points", victim.plugin, walk.points.len());
        assert!(victim.run("DEL", "c").status.success());
    }
}

fn valid(cluster: &mut Victim<'_>) {
    cluster.config["cni.dev/valid-attachments"] = json!([{"containerID": "a", "ifname": "eth0"}]);
}

fn no_address_that_is_in_use_is_released_whatever_system_call_fails(cluster: &mut dyn PoolCluster) {
    needs!(STRACE);
    if !FaultWalk::is_possible() {
        harness::skip("cluster::faults", "strace may not trace here");
        return;
    }
    let pools = json!([{"name": "red", "subnet": "10.1.0.0/24"}]);
    let mut victim = Victim::new(cluster, cluster.allocator(), "n1", &pools);
    valid(&mut victim);
    victim.run("ADD", "a").result();
    let address = cluster.reserved("red").remove(0);
    let kept = || {
        let mut kept = cluster.held();
        kept.retain(|key| key.contains("/a:eth0/"));
        kept.extend(
            cluster
                .reserved("red")
                .into_iter()
                .filter(|key| *key == address),
        );
        kept
    };
    let held = || {
        let mut held = cluster.held();
        held.retain(|key| key.contains("/c:eth0/"));
        held
    };
    let walk = Walk {
        victim,
        kept: &kept,
        held: &held,
    };
    for command in ["ADD", "DEL", "GC", "STATUS"] {
        walk.run(command);
    }
}

fn no_block_that_is_in_use_is_given_back_or_forgotten_whatever_system_call_fails(
    cluster: &mut dyn PoolCluster,
) {
    needs!(STRACE);
    if !FaultWalk::is_possible() {
        harness::skip("cluster::faults", "strace may not trace here");
        return;
    }
    cluster.define("blue", &json!({"subnet":"10.0.0.0/24","block":28}));
    let named = json!([{"name": "blue"}]);
    let config = cluster.config("n1", &cluster.in_blocks(), &named);
    // An address in use keeps its block.
    cluster.add("a", &config).result();
    let mut victim = Victim::new(cluster, cluster.selector(), "n1", &named);
    victim.config["ipam"]["keepEmptyBlocks"] = json!("0s");
    valid(&mut victim);
    let file = cluster
        .sandbox()
        .root()
        .join("n1/engine-state/blocks/blue.json");
    let block = cluster.blocks("blue").remove(0);
    let kept = || {
        let content = std::fs::read(&file).unwrap();
        let local: Value = serde_json::from_slice(&content).unwrap();
        let listed = local["blocks"].as_array().unwrap().iter();
        let listed = listed.filter(|owned| owned["cidr"] == *block);
        let mut kept: Vec<String> = listed.map(|block| block["owner"].to_string()).collect();
        let in_engine = cluster.blocks("blue");
        kept.extend(in_engine.into_iter().filter(|key| *key == block));
        kept
    };
    assert_eq!(kept().len(), 2);
    let walk = Walk {
        victim,
        kept: &kept,
        // The selector alone reserves no address.
        held: &Vec::new,
    };
    for command in ["ADD", "DEL", "GC", "STATUS"] {
        walk.run(command);
    }
}

promises! {
    no_address_that_is_in_use_is_released_whatever_system_call_fails,
    no_block_that_is_in_use_is_given_back_or_forgotten_whatever_system_call_fails,
}
