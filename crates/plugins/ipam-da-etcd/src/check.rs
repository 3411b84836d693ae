//! CHECK: the addresses that the attachment was given are still reserved to it.

use std::net::IpAddr;

use cluster::{Cluster, Holder};
use cni::{Attachment, Call, Error, code};
use etcd::{Range, Txn};

use crate::release::entries;

/// Verifies that every address of `prevResult` that lies in a pool is reserved to the
/// attachment, and that the attachment holds one at all.
pub(crate) fn check(attachment: &Attachment, call: &Call<'_>) -> Result<(), Error> {
    let config = &call.config;
    let cluster = Cluster::read(&config.ipam()?)?;
    let Cluster { keys, node, .. } = &cluster;
    let network = config.name();
    let prev_result = config
        .prev_result()?
        .ok_or_else(|| Error::config("prevResult is missing: CHECK compares with it"))?;
    let mut client = cluster_client::client(&cluster, call)?;
    let prefix = keys.attachment(node, network.as_str(), attachment);
    let held = entries(&mut client, keys, node, &prefix)?;
    // A definition that is gone, or is wrong by now, takes no address away.
    let pools = cluster_client::pools(&mut client, keys, config).or_else(|error| {
        let is_changed = error.code == code::INVALID_CONFIG && !held.is_empty();
        tracing::warn!(%error, "going on without the pools' definitions");
        if is_changed {
            Ok(Vec::new())
        } else {
            Err(error)
        }
    })?;
    let in_pools: Vec<(IpAddr, &str)> = prev_result
        .ips
        .iter()
        .filter_map(|config| {
            let own = held.iter().find(|it| it.held.ip == config.ip());
            if let Some(own) = own {
                return Some((own.held.ip, own.held.pool.as_str()));
            }
            let pool = pools.iter().find(|it| it.ranges.contains(config.ip()))?;
            let ip = pool.ranges.in_family(config.ip());
            Some((ip, pool.directory(network).as_str()))
        })
        .collect();
    let reads = in_pools
        .iter()
        .map(|(ip, pool)| Range::key(keys.address(pool, *ip)));
    let answer = client.txn(&Txn::read(reads))?;
    let mut ranges = answer.ranges();
    for ((ip, pool), range) in in_pools.iter().zip(ranges.by_ref()) {
        let value = range.kvs.first().map(|it| it.value.as_slice());
        let is = match value {
            None => "not reserved".to_owned(),
            Some(value)
                if Holder::parse(value).is_some_and(|it| it.is(attachment, network.as_str())) =>
            {
                continue;
            }
            Some(value) => Holder::describe(value),
        };
        return Err(Error::new(
            code::NOT_RESERVED,
            format!("{ip} should be reserved to {attachment} in pool {pool}, and is {is}"),
        ));
    }
    // Without a selector's pools on CHECK, any address of the attachment is enough.
    if in_pools.is_empty() && held.is_empty() {
        return Err(Error::new(
            code::NOT_RESERVED,
            format!("no address is reserved to {attachment} on network {network} by node {node}"),
        ));
    }
    Ok(())
}
