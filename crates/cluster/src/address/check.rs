//! CHECK: verifies that the attachment's addresses are still reserved to it.

use std::net::IpAddr;

use cni::{Attachment, Call, Error, code};
use ipam::Pool;

use super::release::entries;
use crate::pool::asked::AskedPools;
use crate::{Engine, Holder, Holding, Key, Node, Read};

/// Verifies that every address of `prevResult` that is in a pool is reserved to the attachment,
/// and that the attachment has an address at all.
///
/// # Errors
///
/// Code 112 if an address isn't reserved to the attachment; those of the engine.
pub fn check(
    engine: &mut dyn Engine,
    node: &Node,
    attachment: &Attachment,
    call: &Call<'_>,
) -> Result<(), Error> {
    let config = &call.config;
    let network = config.name();
    let prev_result = config
        .prev_result()?
        .ok_or_else(|| Error::config("prevResult is missing: CHECK compares with it"))?;
    let held = entries(
        engine,
        Holding::of_attachment(&node.name, network, attachment),
    )?;
    let pools = match pools(engine, call) {
        // A missing or invalid definition doesn't release addresses.
        Err(error) if error.code == code::INVALID_CONFIG && !held.is_empty() => {
            tracing::warn!(%error, "going on without the pools' definitions");
            Vec::new()
        }
        other => other?,
    };
    let in_pools: Vec<(IpAddr, &str)> = prev_result
        .ips
        .iter()
        .filter_map(|config| {
            if let Some(entry) = held.iter().find(|entry| entry.held.ip == config.ip()) {
                return Some((entry.held.ip, entry.held.pool.as_str()));
            }
            let pool = pools
                .iter()
                .find(|pool| pool.ranges.contains(config.ip()))?;
            let ip = pool.ranges.in_family(config.ip());
            Some((ip, pool.directory(network).as_str()))
        })
        .collect();
    let read = |(ip, pool): &(IpAddr, &str)| Read::Get(Key::Address((*pool).to_owned(), *ip));
    let reads: Vec<Read> = in_pools.iter().map(read).collect();
    for ((ip, pool), found) in in_pools.iter().zip(engine.read(&reads)?) {
        let found = found.first().map(|address| address.value.as_slice());
        let holder = found.and_then(Holder::parse);
        if holder.is_some_and(|holder| holder.is(attachment, network.as_str())) {
            continue;
        }
        let state = found.map_or("not reserved".to_owned(), Holder::describe);
        return Err(Error::new(
            code::NOT_RESERVED,
            format!("{ip} should be reserved to {attachment} in pool {pool}, and is {state}"),
        ));
    }
    // If no selector has put pools into the result of CHECK, any address of the attachment is
    // enough.
    if in_pools.is_empty() && held.is_empty() {
        return Err(Error::new(
            code::NOT_RESERVED,
            format!(
                "no address is reserved to {attachment} on network {network} by node {}",
                node.name
            ),
        ));
    }
    Ok(())
}

fn pools(engine: &mut dyn Engine, call: &Call<'_>) -> Result<Vec<Pool>, Error> {
    let asked = AskedPools::read(&call.config)?;
    let values = asked.fetch(engine)?;
    asked.pools(engine, &values)
}
