//! No address is given twice, and none is lost, during any faults of the members of etcd.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use harness::waiting::wait_for;
use harness::{Cluster, Cut, ETCD, ETCDCTL, MEMBERS, needs};
use serde_json::json;

use crate::traffic::node::{ClusterNode, POOLS};
use crate::traffic::run::{Fault, Traffic};

const NODES: usize = 8;
const CALLERS: usize = 8;

/// The pools' subnets: so few addresses that each is soon given again.
const SUBNETS: [&str; 2] = ["10.50.0.0/24", "fd00:50::/120"];

/// A majority of the members is there.
const FAULTS: [Fault<Cluster>; 8] = [
    ("the leader is killed", |cluster, meanwhile| {
        let leader = cluster.leader();
        cluster.kill_member(leader);
        meanwhile();
        cluster.start_member(leader);
    }),
    (
        "the leader is stopped, and goes on",
        |cluster, meanwhile| {
            let leader = cluster.leader();
            cluster.stop_member(leader);
            meanwhile();
            cluster.continue_member(leader);
        },
    ),
    (
        "the leader is cut off from everybody",
        |cluster, meanwhile| {
            cut(cluster, Cut::All(cluster.leader()), meanwhile);
        },
    ),
    (
        "the leader is cut off from the other members",
        |cluster, meanwhile| {
            cut(cluster, Cut::Peers(cluster.leader()), meanwhile);
        },
    ),
    (
        "what a member sends to clients is lost",
        |cluster, meanwhile| {
            cut(cluster, Cut::Clients(cluster.leader()), meanwhile);
        },
    ),
    ("a member's disk is full", |cluster, meanwhile| {
        let member = cluster.leader();
        cluster.fill_disk(member);
        // The member ends when it needs another page.
        wait_for(|| cluster.has_ended(member));
        meanwhile();
        cluster.free_disk(member);
        cluster.kill_member(member);
        cluster.start_member(member);
    }),
    ("compaction and defragmentation", |cluster, _| {
        cluster.compact_and_defragment();
    }),
    ("all members are killed, and come back", |cluster, _| {
        (0..MEMBERS).for_each(|member| cluster.kill_member(member));
        sleep(Duration::from_secs(1));
        (0..MEMBERS).for_each(|member| cluster.start_member(member));
    }),
];

fn cut(cluster: &Cluster, cut: Cut, meanwhile: &dyn Fn()) {
    cluster.cut(cut);
    meanwhile();
    cluster.join(cut);
}

#[test]
fn no_address_is_given_twice_and_none_is_lost_whatever_happens_to_the_members() {
    needs!("root", ETCD, ETCDCTL);
    let mut cluster = Cluster::start().unwrap();
    for (pool, subnet) in POOLS.into_iter().zip(SUBNETS) {
        cluster.write_pool(pool, &json!({"ranges": [{"subnet": subnet}]}));
    }
    cluster.clients().enter();
    let keys = |node: &str, timeout: &str| {
        let file = cluster.root().join(format!("settings-of-{node}.json"));
        let mut settings = cluster.config();
        settings["timeout"] = json!(timeout);
        fs::write(&file, settings.to_string()).unwrap();
        json!({"etcd": file, "machine": format!("machine-of-{node}")})
    };
    let nodes = ClusterNode::several(NODES, "ipam-da-etcd", keys);
    let traffic = Traffic::new(nodes, CALLERS);
    traffic.run(|| {
        traffic.meets(&mut cluster, &FAULTS, |cluster| {
            cluster.wait_until_healthy();
            cluster.observe(traffic.clock)
        });
    });
    let observe = || cluster.observe(traffic.clock);
    traffic.judge(observe);
    traffic.delete_all(observe);
}
