//! STATUS: verifies that an ADD would find room on this node, or a block in etcd.

use std::time::Duration;

use cni::{Call, Error, code};
use etcd::Client;
use node_blocks::{Asked, Node, asked};

use crate::claims::Claims;

/// Longest time to verify the node's name while there is room without etcd.
const WITH_ROOM: Duration = Duration::from_secs(1);

/// Fails with code 50 if an ADD would be refused, up to the point of claiming a block. A node
/// with room in all pools is ready while etcd can't be reached.
pub(crate) fn status(call: &Call<'_>) -> Result<(), Error> {
    let unavailable =
        |error: Error| Error::new(code::UNAVAILABLE, error.msg).with_details(error.details);
    let node = Node::of(call)?;
    let pools = asked(&call.config)?;
    if pools.is_empty() && !cluster_client::has_selector(&call.config.ipam()?, "ipam-ds-etcd")? {
        return Err(unavailable(crate::add::no_pools()));
    }
    let mut full = Vec::new();
    for pool in &pools {
        if !has_room(&node, pool)? {
            full.push(pool);
        }
    }
    let is_ready = full.is_empty() && !pools.is_empty();
    let mut cluster = node.cluster.clone();
    if is_ready {
        cluster.settings.timeout = cluster.settings.timeout.min(WITH_ROOM);
    }
    let claims = Client::new(&cluster.settings, call.cancellation)
        .map_err(Error::from)
        .and_then(|client| Claims::new(&cluster, call, client))
        .and_then(|mut claims| claims.verify_name().map(|()| claims));
    let mut claims = match claims {
        Err(error) if is_ready && error.code == code::TRY_AGAIN_LATER => {
            tracing::warn!(%error, "there is room, but etcd can't be asked");
            return Ok(());
        }
        other => other.map_err(unavailable)?,
    };
    if pools.is_empty() {
        // The pools depend on the container.
        claims.can_read_pools().map_err(unavailable)?;
    }
    let could_claim = |pool: &&Asked| {
        let definition = claims.definition(&pool.name)?;
        claims.has_free_block(&pool.name, &definition)
    };
    let problems: Vec<String> = full
        .iter()
        .map(could_claim)
        .filter_map(|it| it.err().map(|error| error.msg))
        .collect();
    match problems.is_empty() {
        true => Ok(()),
        false => Err(Error::new(code::UNAVAILABLE, problems.join("; "))),
    }
}

/// True if an ADD would find room without etcd.
fn has_room(node: &Node, pool: &Asked) -> Result<bool, Error> {
    let Some(local) = node.files.read(&node.cluster, &pool.name)? else {
        return Ok(false);
    };
    if !node.is_verified(&local) {
        return Ok(false);
    }
    let definition = node.definition(&local, &pool.name)?;
    Ok(pool.free(&definition, &local, node.files.data_dir())? > 0)
}
