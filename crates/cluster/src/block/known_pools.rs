//! DEL, CHECK and GC of a selector: the pools from the node's files, without the engine.

use std::path::Path;

use cni::{Call, Error, IpamResult, Object, Reply};

use super::BlockNode;
use super::asked::asked_pools;
use crate::{Engine, Node};

/// `prevResult` with the blocks in the node's files; nothing if there are no files. The engine
/// isn't asked. A pool without a file is left out.
///
/// # Errors
///
/// An unreadable file; code 7 if `prevResult` is no result.
pub fn known_pools(
    engine: &dyn Engine,
    node: &Node,
    data_dir: &Path,
    call: &Call<'_>,
) -> Result<Reply, Error> {
    let entries = entries(engine, node, data_dir, call)?;
    match entries.is_empty() {
        true => Ok(Reply::Nothing),
        false => with_pools(call, &entries).map(Reply::Result),
    }
}

/// `prevResult` without pools: the answer to STATUS. If the node's blocks are full, a block may
/// still be free in the engine, and the allocator doesn't know the names in `prevResult`.
///
/// # Errors
///
/// Code 7 if `prevResult` is no result.
pub fn without_pools(call: &Call<'_>) -> Result<IpamResult, Error> {
    with_pools(call, &[])
}

/// `prevResult` with these pools instead of its own.
pub(super) fn with_pools(call: &Call<'_>, entries: &[Object]) -> Result<IpamResult, Error> {
    let mut result = call.config.prev_result()?.unwrap_or_default();
    result.set_other("pools", entries);
    Ok(result)
}

fn entries(
    engine: &dyn Engine,
    node: &Node,
    data_dir: &Path,
    call: &Call<'_>,
) -> Result<Vec<Object>, Error> {
    let node = BlockNode::open(node, data_dir, call)?;
    let mut entries = Vec::new();
    for pool in asked_pools(&call.config)? {
        if let Some(file) = node.files.read(&pool.name)? {
            let definition = file.definition(engine)?;
            // A block that is put aside may still have an attachment's address.
            let blocks = file.blocks.iter().map(|block| block.cidr);
            entries.push(pool.without_request(&definition, blocks));
        }
    }
    Ok(entries)
}
