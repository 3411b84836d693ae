//! Nodes with blocks keep giving addresses without any member of etcd, and give no address twice.

use std::thread::sleep;

use harness::{Address, Cluster, ETCD, ETCDCTL, Form, MEMBERS, Observation, PREFIX, needs};
use serde_json::{Value, json};

use super::node::{ClusterNode, POOLS};
use super::traffic::{FAULT, Traffic};

const NODES: usize = 8;
const CALLERS: usize = 3;

/// The pools' subnets, with the length of their blocks' prefixes.
const SUBNETS: [(&str, u8); 2] = [("10.50.0.0/21", 26), ("fd00:50::/112", 122)];

#[test]
fn nodes_with_blocks_go_on_without_any_member_and_no_address_is_given_twice() {
    needs!("root", ETCD, ETCDCTL);
    if Form::of_this_run() == Form::Separate {
        // The other form is enough: it runs linked plugins, and `ipam-ds-etcd` as an executable.
        return;
    }
    let mut cluster = Cluster::start().unwrap();
    for (pool, (subnet, block)) in POOLS.into_iter().zip(SUBNETS) {
        let value = json!({"ranges": [{"subnet": subnet}], "block": block});
        cluster.write_pool(pool, &value);
    }
    cluster.clients().enter();
    let delegates = &["ipam-ds-etcd", "ipam-da-host-local"];
    let nodes = ClusterNode::several(NODES, "etcd", |_| cluster.config(), delegates);
    let traffic = Traffic::new(nodes, CALLERS);
    // Each node claims its blocks before anything happens.
    traffic.run(|| {
        let leader = cluster.leader();
        cluster.kill_member(leader);
        sleep(FAULT);
        cluster.start_member(leader);
        cluster.wait_until_healthy();
        (0..MEMBERS).for_each(|member| cluster.kill_member(member));
        // ADDs that were under way may have asked before.
        sleep(FAULT);
        traffic.wait_for_adds(traffic.clock.elapsed());
        (0..MEMBERS).for_each(|member| cluster.start_member(member));
        cluster.wait_until_healthy();
        sleep(FAULT);
    });
    let after = traffic.judge(|| observe(&traffic));
    for (address, attachment) in &after.addresses {
        let owner = owner_of(&cluster, address);
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
fn observe(traffic: &Traffic) -> Observation {
    let started = traffic.clock.elapsed();
    let mut addresses = Vec::new();
    for node in &traffic.nodes {
        for pool in POOLS {
            for (ip, holder) in node.sandbox.reservations(pool) {
                let address = Address {
                    pool: pool.to_owned(),
                    ip: ip.parse().unwrap(),
                };
                let container = holder.lines().next().unwrap_or_default();
                addresses.push((address, node.attachment(container)));
            }
        }
    }
    Observation {
        started,
        ended: traffic.clock.elapsed(),
        addresses,
        ..Observation::default()
    }
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
