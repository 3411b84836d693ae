//! Nodes with blocks go on while no member of etcd is there, and give no address twice.

use std::thread::sleep;
use std::time::{Duration, Instant};

use harness::{Address, Cluster, ETCD, ETCDCTL, Form, MEMBERS, Observation, PREFIX, needs};
use serde_json::{Value, json};

use super::callers::{ClusterNode, PATIENCE, Traffic};

const NODES: usize = 8;
const CALLERS: usize = 3;

/// The pools, with the length of their blocks' prefixes.
const POOLS: [(&str, &str, u8); 2] = [
    ("blue", "10.50.0.0/21", 26),
    ("green", "fd00:50::/112", 122),
];

/// The time between two events.
const MEANWHILE: Duration = Duration::from_secs(3);

#[test]
fn nodes_with_blocks_go_on_without_any_member_and_no_address_is_given_twice() {
    needs!("root", ETCD, ETCDCTL);
    if Form::of_this_run() == Form::Separate {
        // The one file runs both halves of `ipam-ds-etcd`: the linked one, and the executable.
        return;
    }
    let mut cluster = Cluster::start().unwrap();
    for (pool, subnet, block) in POOLS {
        let value = json!({"ranges": [{"subnet": subnet}], "block": block});
        cluster.write_pool(pool, &value);
    }
    let delegates = &["ipam-ds-static", "ipam-ds-etcd", "ipam-da-host-local"];
    let nodes = ClusterNode::several(NODES, &cluster, delegates);
    let traffic = Traffic::default();
    traffic.run(&cluster.clients(), &nodes, CALLERS, || {
        // Each node has claimed its blocks.
        wait_for_adds(&traffic, &nodes, Duration::ZERO);
        let leader = cluster.leader();
        cluster.kill_member(leader);
        sleep(MEANWHILE);
        cluster.start_member(leader);
        cluster.wait_until_healthy();
        (0..MEMBERS).for_each(|member| cluster.kill_member(member));
        // ADDs that were under way may have asked before.
        sleep(MEANWHILE);
        wait_for_adds(&traffic, &nodes, traffic.clock.elapsed());
        (0..MEMBERS).for_each(|member| cluster.start_member(member));
        cluster.wait_until_healthy();
        sleep(MEANWHILE);
    });
    judge(&cluster, &nodes, &traffic);
}

/// Waits until an ADD has succeeded on each node that was called since then.
fn wait_for_adds(traffic: &Traffic, nodes: &[ClusterNode], from: Duration) {
    let started = Instant::now();
    for node in nodes {
        while traffic.adds_since(from, &node.name) == 0 {
            let errors = traffic.last_errors();
            assert!(started.elapsed() < PATIENCE, "{}: {errors:#?}", node.name);
            sleep(Duration::from_millis(50));
        }
    }
}

/// Shows by the history, the nodes' files and the blocks that all is well.
fn judge(cluster: &Cluster, nodes: &[ClusterNode], traffic: &Traffic) {
    let pools = POOLS.map(|(name, ..)| name);
    let observe = || observe(nodes, traffic.clock);
    let (_, after) = traffic.judge(cluster, nodes, &pools, CALLERS, observe);
    for (address, attachment) in &after.addresses {
        let owner = owner_of(cluster, address);
        let is_owner = owner
            .as_ref()
            .is_some_and(|owner| attachment.starts_with(&format!("{owner}/")));
        assert!(
            is_owner,
            "{attachment} has {address}, in a block of {owner:?}"
        );
    }
}

/// The reservations in the nodes' files.
fn observe(nodes: &[ClusterNode], clock: Instant) -> Observation {
    let mut observation = Observation {
        started: clock.elapsed(),
        ..Observation::default()
    };
    for node in nodes {
        for (pool, ..) in POOLS {
            for (ip, holder) in node.sandbox.reservations(pool) {
                let address = Address {
                    pool: pool.to_owned(),
                    ip: ip.parse().unwrap(),
                };
                let container = holder.lines().next().unwrap_or_default();
                observation
                    .addresses
                    .push((address, node.attachment(container)));
            }
        }
    }
    observation.ended = clock.elapsed();
    observation
}

/// The node that owns the block of an address.
fn owner_of(cluster: &Cluster, address: &Address) -> Option<String> {
    let below = format!("{PREFIX}/v1/blocks/{}/", address.pool);
    cluster.keys().into_iter().find_map(|(key, value)| {
        let block: ipam::IpNet = key.strip_prefix(&below)?.parse().ok()?;
        let value: Value = serde_json::from_str(&value).ok()?;
        block
            .contains(&address.ip)
            .then(|| value["node"].as_str().map(str::to_owned))?
    })
}
