//! Answers of `ipam-ds-etcd` that take the node's files alone.

use cni::{Call, Error, IpamResult, Object, Reply};

use crate::{Held, Node, asked};

/// ADD: `prevResult` with the node's blocks in the place of each pool; `None` if etcd has to
/// be asked.
///
/// # Errors
///
/// Those of reading the configuration and the node's files.
pub fn add(call: &Call<'_>) -> Result<Option<Reply>, Error> {
    let node = Node::of(call)?;
    let pools = asked(&call.config)?;
    let mut entries = Vec::with_capacity(pools.len());
    for pool in &pools {
        match node.held(pool)? {
            Held::Enough(entry) => entries.push(entry),
            Held::Low { .. } | Held::TooLittle => return Ok(None),
        }
    }
    // Without a pool, the executable has an error to report.
    if entries.is_empty() {
        return Ok(None);
    }
    Ok(Some(Reply::Result(with_pools(call, &entries)?)))
}

/// DEL, CHECK and GC: `prevResult` with the blocks of the node's files; nothing, if there are
/// none.
///
/// # Errors
///
/// Those of reading the configuration and the node's files.
pub fn known(call: &Call<'_>) -> Result<Reply, Error> {
    let entries = known_pools(call)?;
    match entries.is_empty() {
        true => Ok(Reply::Nothing),
        false => with_pools(call, &entries).map(Reply::Result),
    }
}

/// `prevResult` with these pools alone.
///
/// # Errors
///
/// Code 7 if `prevResult` is no result.
pub fn with_pools(call: &Call<'_>, entries: &[Object]) -> Result<IpamResult, Error> {
    let mut result = call.config.prev_result()?.unwrap_or_default();
    result.set_other("pools", entries);
    Ok(result)
}

/// The entries of the pools, by the node's files alone. A pool of which the node has nothing
/// is left out.
fn known_pools(call: &Call<'_>) -> Result<Vec<Object>, Error> {
    let node = Node::of(call)?;
    let mut entries = Vec::new();
    for pool in asked(&call.config)? {
        if let Some(local) = node.files.read(&node.cluster, &pool.name)? {
            let definition = node.definition(&local, &pool.name)?;
            // Blocks that aren't used any more may have an attachment's address all the same.
            let blocks = local.blocks.iter().map(|it| it.cidr);
            let mut entry = pool.with_blocks(&definition, blocks);
            entry.remove("requested-ip");
            entries.push(entry);
        }
    }
    Ok(entries)
}
