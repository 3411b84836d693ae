//! The same address never twice, and none lost, whatever happens to the members of etcd.

use std::thread::sleep;
use std::time::{Duration, Instant};

use harness::{Cluster, Cut, Disk, ETCD, ETCDCTL, Form, MEMBERS, needs};
use serde_json::json;

use super::callers::{ClusterNode, PATIENCE, Traffic};

const NODES: usize = 8;
const CALLERS: usize = 8;

/// The pools: so few addresses that each is soon given again.
const POOLS: [(&str, &str); 2] = [("blue", "10.50.0.0/24"), ("green", "fd00:50::/120")];

/// The least time that a fault lasts.
const FAULT: Duration = Duration::from_secs(3);

/// Something that happens to the members. It is there while it calls the function, in which
/// callers go on, and over when it returns.
type Fault = fn(&mut Cluster, &dyn Fn());

const FAULTS: [(&str, Fault); 12] = [
    ("a follower is killed", |cluster, meanwhile| {
        let follower = follower(cluster);
        killed(cluster, follower, meanwhile);
    }),
    ("the leader is killed", |cluster, meanwhile| {
        let leader = cluster.leader();
        killed(cluster, leader, meanwhile);
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
        "a follower is cut off from the other members",
        |cluster, meanwhile| {
            cut(cluster, Cut::Peers(follower(cluster)), meanwhile);
        },
    ),
    (
        "what the leader sends to a follower is lost",
        |cluster, meanwhile| {
            cut(
                cluster,
                Cut::OneWay(cluster.leader(), follower(cluster)),
                meanwhile,
            );
        },
    ),
    (
        "what a follower sends to the leader is lost",
        |cluster, meanwhile| {
            cut(
                cluster,
                Cut::OneWay(follower(cluster), cluster.leader()),
                meanwhile,
            );
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
        cluster.set_disk(member, Disk::Full);
        // It ends as soon as it needs a page more.
        let started = Instant::now();
        while !cluster.has_ended(member) {
            assert!(started.elapsed() < PATIENCE, "it needs no disk");
            sleep(FAULT / 10);
        }
        meanwhile();
        cluster.set_disk(member, Disk::Free);
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

/// A member that doesn't lead.
fn follower(cluster: &Cluster) -> usize {
    (cluster.leader() + 1) % MEMBERS
}

fn killed(cluster: &mut Cluster, member: usize, meanwhile: &dyn Fn()) {
    cluster.kill_member(member);
    meanwhile();
    cluster.start_member(member);
}

fn cut(cluster: &Cluster, cut: Cut, meanwhile: &dyn Fn()) {
    cluster.cut(cut);
    meanwhile();
    cluster.join(cut);
}

#[test]
fn no_address_is_given_twice_and_none_is_lost_whatever_happens_to_the_members() {
    needs!("root", ETCD, ETCDCTL);
    if Form::of_this_run() == Form::OneFile {
        // It takes a minute, and `ipam-da-etcd` is an executable of its own in both forms.
        return;
    }
    let mut cluster = Cluster::start().unwrap();
    for (pool, subnet) in POOLS {
        cluster.write_pool(pool, &json!({"ranges": [{"subnet": subnet}]}));
    }
    let delegates = &["ipam-ds-static", "ipam-da-etcd"];
    let nodes = ClusterNode::several(NODES, &cluster, delegates);
    let traffic = Traffic::default();
    // What the callers use of it stays as it is.
    traffic.run(&cluster.clients(), &nodes, CALLERS, || {
        for (name, fault) in FAULTS {
            let from = traffic.clock.elapsed();
            // A majority of the members is there, so callers must get on.
            let meanwhile = || {
                sleep(FAULT);
                let started = Instant::now();
                while traffic.adds_since(from, "") == 0 {
                    let errors = traffic.last_errors();
                    assert!(started.elapsed() < PATIENCE, "{name}: no ADD; {errors:#?}");
                    sleep(FAULT / 10);
                }
            };
            fault(&mut cluster, &meanwhile);
            let adds = traffic.adds_since(from, "");
            println!("{from:>8.1?}: {adds:>4} ADDs while {name}");
            cluster.wait_until_healthy();
        }
    });
    judge(&cluster, &nodes, &traffic);
}

/// Shows by the history and the keys that all is well, and that GC and DEL leave nothing.
fn judge(cluster: &Cluster, nodes: &[ClusterNode], traffic: &Traffic) {
    let pools = POOLS.map(|(name, _)| name);
    let observe = || cluster.observe(traffic.clock);
    let (living, _) = traffic.judge(cluster, nodes, &pools, CALLERS, observe);
    cluster.inside(|| {
        for node in nodes {
            for container in node.containers_of(&living) {
                node.call("DEL", &container, &pools).run().nothing();
            }
        }
    });
    let left = cluster.observe(traffic.clock);
    assert_eq!((left.addresses, left.index), (vec![], Some(vec![])));
}
