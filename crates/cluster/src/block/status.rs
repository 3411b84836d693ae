//! STATUS of a selector: verifies that an ADD would find room in this node's blocks, or a free
//! block.

use std::path::Path;
use std::time::Duration;

use cni::{Call, Error, code};

use super::BlockNode;
use super::add::no_pools;
use super::asked::{AskedPool, asked_pools};
use super::claim::Claims;
use crate::pool::has_selector;
use crate::{Engine, Group, Node, Read};

/// Longest time to verify the node's registration while its blocks have room.
const WITH_ROOM: Duration = Duration::from_secs(1);

/// Fails if an ADD would be refused. Claims nothing. A node with room in all pools is ready even
/// if the engine can't be reached.
///
/// # Errors
///
/// Code 50; code 7 for an invalid configuration.
pub fn status(
    engine: &mut dyn Engine,
    node: &Node,
    data_dir: &Path,
    plugin: &str,
    call: &Call<'_>,
) -> Result<(), Error> {
    let unavailable =
        |error: Error| Error::new(code::UNAVAILABLE, error.msg).with_details(error.details);
    let files = BlockNode::open(node, data_dir, call)?;
    let pools = asked_pools(&call.config)?;
    if pools.is_empty() && !has_selector(&call.config.ipam()?, plugin)? {
        return Err(unavailable(no_pools()));
    }
    let mut full = Vec::new();
    for pool in &pools {
        if !has_room(engine, &files, pool)? {
            full.push(pool);
        }
    }
    let is_ready = full.is_empty() && !pools.is_empty();
    if is_ready {
        engine.time().shorten(WITH_ROOM);
    }
    let claims = Claims::new(engine, node, call);
    let claims = claims.and_then(|mut claims| claims.verify_name().map(|()| claims));
    let mut claims = match claims {
        Err(error) if is_ready && error.code == code::TRY_AGAIN_LATER => {
            tracing::warn!(%error, "there is room, but the engine can't be asked");
            return Ok(());
        }
        other => other.map_err(unavailable)?,
    };
    if pools.is_empty() {
        // The pools depend on the container, so only the right to read them is verified.
        let read = claims.engine.read(&[Read::First(Group::Pools, 1)]);
        return read.map(|_| ()).map_err(|error| unavailable(error.into()));
    }
    let mut problems = Vec::new();
    for pool in full {
        let definition = claims.definition(&pool.name);
        let could = definition.and_then(|found| claims.could_claim(&pool.name, &found));
        problems.extend(could.err().map(|error| error.msg));
    }
    match problems.is_empty() {
        true => Ok(()),
        false => Err(Error::new(code::UNAVAILABLE, problems.join("; "))),
    }
}

/// True if an ADD would find room without the engine.
fn has_room(engine: &dyn Engine, node: &BlockNode<'_>, pool: &AskedPool) -> Result<bool, Error> {
    let file = node.files.read(&pool.name)?;
    let Some(file) = file.filter(|file| node.is_verified(file)) else {
        return Ok(false);
    };
    let definition = file.definition(engine)?;
    Ok(pool.free(&definition, &file)? > 0)
}
