//! STATUS: verifies that every pool has an address left, and that etcd lets this node write.

use cluster::Cluster;
use cni::{Call, Error, code};
use etcd::{Client, Compare, Op, Range, Txn};
use ipam::Pool;

use crate::view;

/// Fails with code 50 if an ADD would find a pool without a free address, or etcd not ready
/// to take one. All such pools are named.
pub(crate) fn status(call: &Call<'_>) -> Result<(), Error> {
    let config = &call.config;
    let cluster = Cluster::read(&config.ipam()?)?;
    let unavailable = |error: Error| Error::new(code::UNAVAILABLE, error.msg);
    let mut client = cluster_client::client(&cluster, call)?;
    can_write(&mut client, &cluster).map_err(|error| unavailable(error.into()))?;
    let pools = cluster_client::pools(&mut client, &cluster.keys, config).map_err(unavailable)?;
    let mut problems = Vec::new();
    for (index, pool) in pools.iter().enumerate() {
        let name = pool.directory(config.name()).as_str();
        match has_room(&mut client, &cluster, name, pool) {
            Ok(true) => {}
            Ok(false) => problems.push(format!(
                "{} has no address left: all {} are reserved",
                match &pool.name {
                    Some(name) => format!("pool {name} ({})", pool.ranges),
                    None => format!("pool {index} of network {name} ({})", pool.ranges),
                },
                pool.ranges.capacity()
            )),
            Err(error) => problems.push(error.msg),
        }
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(Error::new(code::UNAVAILABLE, problems.join("; ")))
    }
}

/// A transaction that never writes, and that etcd refuses all the same if this node has no
/// right to write, or if there is no space for it.
fn can_write(client: &mut Client<'_>, cluster: &Cluster) -> Result<(), etcd::Error> {
    let Cluster { keys, node, .. } = cluster;
    let starts = [keys.addresses("status"), keys.node(node)];
    client.txn(&Txn {
        // A key can't be missing and have been changed.
        when: vec![
            Compare::is_missing(starts[0].as_str()),
            Compare::mod_revision(starts[0].as_str(), i64::MAX),
        ],
        then: starts.map(|key| Op::put(key, "")).to_vec(),
        otherwise: vec![Op::get(Range::key(keys.pool("status")).count_only())],
    })?;
    Ok(())
}

fn has_room(
    client: &mut Client<'_>,
    cluster: &Cluster,
    name: &str,
    pool: &Pool,
) -> Result<bool, Error> {
    let keys = &cluster.keys;
    // Requested and excluded addresses count, too: fewer keys than addresses leave room.
    let count = client
        .range(&Range::prefix(keys.addresses(name)).count_only())?
        .count;
    if u128::from(count) < pool.ranges.capacity() {
        return Ok(true);
    }
    let free = view::search(client, keys, name, pool)?;
    Ok(free.all().next().is_some())
}
