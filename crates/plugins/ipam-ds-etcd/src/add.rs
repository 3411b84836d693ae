//! ADD: the node's blocks of each pool, and a further one if they are nearly full.

use std::time::{Duration, Instant};

use cni::{Call, Error, IpamResult, Object, code};
use etcd::Client;
use node_blocks::{Asked, Held, Local, Moment, Need, Node, asked, with_pools};

use crate::claims::Claims;

/// Longest time that a claim takes while there is room without it.
const AHEAD_OF_NEED: Duration = Duration::from_secs(1);

/// `prevResult`, with the node's blocks in the place of each pool.
pub(crate) fn add(call: &Call<'_>) -> Result<IpamResult, Error> {
    let node = Node::of(call)?;
    let pools = asked(&call.config)?;
    if pools.is_empty() {
        return Err(no_pools());
    }
    let deadline = Instant::now() + node.cluster.settings.timeout;
    let entries = pools.iter().map(|pool| entry(&node, pool, call, deadline));
    let entries: Vec<Object> = entries.collect::<Result<_, _>>()?;
    with_pools(call, &entries)
}

/// The refusal of a chain without a selector.
pub(crate) fn no_pools() -> Error {
    Error::config(
        "prevResult.pools is missing or empty: a selector that names pools must stand before this one",
    )
}

/// The entry of one pool.
fn entry(node: &Node, pool: &Asked, call: &Call<'_>, deadline: Instant) -> Result<Object, Error> {
    match node.held(pool)? {
        Held::Enough(entry) => return Ok(entry),
        Held::Low {
            local: local_before,
            definition,
        } => {
            // Failures don't matter yet, and another process may be at it.
            let claimed = node.files.alone(Duration::ZERO, || {
                let deadline = deadline.min(Instant::now() + AHEAD_OF_NEED);
                claim(pool, call, (deadline, AHEAD_OF_NEED))
            });
            let Err(error) = claimed else {
                let local = node.files.read(&node.cluster, &pool.name)?;
                return Ok(pool.with_blocks(&definition, local.unwrap_or(*local_before).used()));
            };
            let node = Node::of(call)?;
            let local = node.files.read(&node.cluster, &pool.name)?;
            return match local.filter(|it| node.is_verified(it)) {
                Some(local) => {
                    tracing::warn!(pool = pool.name, %error, "no further block; going on while there is room");
                    Ok(pool.with_blocks(&definition, local.used()))
                }
                // Another machine has the node's name, and may use its blocks.
                None => Err(error),
            };
        }
        Held::TooLittle => {}
    }
    let left = deadline.saturating_duration_since(Instant::now());
    let bound = node.cluster.settings.timeout;
    let claimed = node
        .files
        .alone(left, || claim(pool, call, (deadline, bound)))?;
    claimed.ok_or_else(|| {
        let within = humantime::format_duration(bound);
        Error::new(
            code::TRY_AGAIN_LATER,
            format!("another process has been claiming blocks for longer than {within}"),
        )
    })
}

/// Compares the node's blocks with etcd's if that has to be, and claims one if it is still
/// needed. No other process of the node does so meanwhile. It ends by the deadline; messages name
/// the bound.
fn claim(
    pool: &Asked,
    call: &Call<'_>,
    (deadline, bound): (Instant, Duration),
) -> Result<Object, Error> {
    // Another process may have registered the node while this one waited.
    let node = &Node::of(call)?;
    let Node { cluster, files, .. } = node;
    let mut local = files.read(cluster, &pool.name)?;
    // Another process may have claimed a block while this one waited.
    if let Some(local) = &local
        && node.is_verified(local)
    {
        let definition = node.definition(local, &pool.name)?;
        if node.need(pool, local, &definition)? == Need::Nothing {
            return Ok(pool.with_blocks(&definition, local.used()));
        }
    }
    let claimed = Client::new(&cluster.settings, call.cancellation)
        .map_err(Error::from)
        .and_then(|client| Claims::new(cluster, call, client.until(deadline, bound)))
        .and_then(|mut claims| renew(node, pool, &mut claims, &mut local));
    match (claimed, local) {
        (Ok(entry), _) => Ok(entry),
        (Err(error), Some(mut local)) if node.is_verified(&local) => {
            local.failed = Some(Moment::now(node.boot.as_deref()));
            if let Err(error) = files.write(&local) {
                tracing::warn!(%error, "etcd will be asked again at once");
            }
            Err(error)
        }
        // A wrong configuration says so by itself.
        (Err(error), Some(local))
            if !local.blocks.is_empty() && error.code != code::INVALID_CONFIG =>
        {
            let msg = format!(
                "pool {}: this node's blocks have to be compared with etcd's after a boot before they are used: {}",
                pool.name, error.msg
            );
            Err(Error::new(error.code, msg).with_details(error.details))
        }
        (Err(error), _) => Err(error),
    }
}

fn renew(
    node: &Node,
    pool: &Asked,
    claims: &mut Claims<'_>,
    local: &mut Option<Local>,
) -> Result<Object, Error> {
    let definition = claims.definition(&pool.name)?;
    let local = local.get_or_insert_with(|| {
        Local::new(
            &node.cluster,
            &node.files,
            &pool.name,
            definition.object().clone(),
        )
    });
    local.definition = definition.object().clone();
    // Also after etcd was restored: a block that it has lost would be claimed as a new one.
    claims.verify(&node.files, local, &pool.name, Some(&definition))?;
    local.failed = None;
    loop {
        let block = match node.need(pool, local, &definition)? {
            Need::Nothing => break,
            Need::Soon => None,
            Need::Now(block) => block,
        };
        // What was put aside to be given back is the node's still.
        if !local.use_again(block) {
            claims.claim(&node.files, local, &pool.name, &definition, block)?;
            break;
        }
        node.files.write(local)?;
    }
    Ok(pool.with_blocks(&definition, local.used()))
}
