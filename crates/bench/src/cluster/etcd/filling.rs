//! Reserves addresses before a measurement, with the plugin's own keys.

use std::net::Ipv4Addr;

use anyhow::{Result, anyhow};
use etcd::{Client, Op, Txn};

use super::target::Etcd;
use crate::cluster::interrupt;
use crate::cluster::target::Target;

/// Operations of a transaction: half of etcd's limit.
pub(super) const OPERATIONS: usize = 64;

/// Executes these operations in one transaction.
pub(super) fn execute(client: &mut Client<'_>, then: Vec<Op>) -> Result<()> {
    let txn = Txn {
        then,
        ..Txn::default()
    };
    let done = client.txn(&txn);
    done.map(|_| ()).map_err(|error| anyhow!("{error}"))
}

/// Reserves this number of addresses of `10.NET.0.0/16` in this pool, beginning with the first.
pub(super) fn fill(target: &Etcd, pool: &str, net: u8, count: u32) -> Result<()> {
    let v1 = format!("{}/v1", target.prefix());
    let mut ops = Vec::with_capacity(OPERATIONS);
    let mut all = Vec::new();
    // The first address is .0.2, because .0.1 is the gateway.
    for n in 2..count + 2 {
        let ip = Ipv4Addr::from(u32::from(Ipv4Addr::new(10, net, 0, 0)) + n);
        let container = format!("{n:064x}");
        let value = format!(
            "{{\"node\":\"another-node\",\"network\":\"bench\",\"containerID\":\"{container}\",\
             \"ifname\":\"eth0\",\"since\":\"2020-01-01T00:00:00Z\"}}"
        );
        let index = format!("{v1}/nodes/another-node/bench/{container}:eth0/{pool}/{ip}");
        ops.push(Op::put(
            format!("{v1}/addresses/{pool}/{ip}"),
            value.clone(),
        ));
        ops.push(Op::put(index, value));
        if ops.len() == OPERATIONS || n == count + 1 {
            all.push(std::mem::take(&mut ops));
        }
    }
    let reached: &dyn Target = target;
    reached.inside(|| {
        let mut client = target.client();
        for (i, then) in all.into_iter().enumerate() {
            // A client has one time limit for all of its requests, so a new client is used.
            if i % 100 == 99 {
                interrupt::check()?;
                client = target.client();
            }
            execute(&mut client, then)?;
        }
        Ok(())
    })
}
