//! ADD: the node's blocks of each pool, and a further one if they are nearly full.

use std::net::IpAddr;
use std::time::Duration;

use cluster::{Cluster, Definition};
use cni::{Call, Error, IpamResult, Object, boot_id, code};
use etcd::Client;
use ipam::IpNet;
use ipam_da_host_local::Folders;

use crate::arithmetic::block_of;
use crate::claims::Claims;
use crate::local::{Files, Local, Moment};
use crate::pool::{Asked, asked};

/// Longest time that a claim takes while there is room without it.
const AHEAD_OF_NEED: Duration = Duration::from_secs(1);

/// Time in which etcd isn't asked again for a block that isn't needed yet.
const PAUSE: Duration = Duration::from_secs(10);

/// Most free addresses below which a block is claimed ahead of need.
const MOST_LOW: u128 = 64;

/// What a call needs of the node.
pub(crate) struct Node {
    pub(crate) cluster: Cluster,
    pub(crate) files: Files,
    pub(crate) boot: Option<String>,
}

impl Node {
    pub(crate) fn of(call: &Call<'_>) -> Result<Self, Error> {
        let ipam = call.config.ipam()?;
        let cluster = Cluster::read(&ipam)?;
        Ok(Self {
            files: Files::open(&cluster, Folders::read(&ipam)?.data_dir)?,
            boot: boot_id(call.environment),
            cluster,
        })
    }

    /// A pool's definition, as the node's file has it.
    pub(crate) fn definition(&self, local: &Local, pool: &str) -> Result<Definition, Error> {
        let json = serde_json::to_vec(&local.definition).expect("an object is JSON");
        Definition::parse(&self.cluster.keys.pool(pool), &json)
            .map_err(|why| Error::config(why.to_string()))
    }

    /// True if the blocks were compared with this etcd's since the last boot: before that, the
    /// disk may be an old one.
    pub(crate) fn is_verified(&self, local: &Local) -> bool {
        self.boot.is_some() && local.verified_in == self.boot && local.is_of(&self.cluster.settings)
    }
}

/// `prevResult`, with the node's blocks in the place of each pool.
pub(crate) fn add(call: &Call<'_>) -> Result<IpamResult, Error> {
    let node = Node::of(call)?;
    let pools = asked(&call.config)?;
    if pools.is_empty() {
        return Err(Error::config(
            "prevResult.pools is missing or empty: a selector that names pools must stand before this one",
        ));
    }
    let entries = pools.iter().map(|pool| entry(&node, pool, call));
    let entries: Vec<Object> = entries.collect::<Result<_, _>>()?;
    with_pools(call, &entries)
}

/// `prevResult` with these pools alone.
pub(crate) fn with_pools(call: &Call<'_>, entries: &[Object]) -> Result<IpamResult, Error> {
    let mut result = call.config.prev_result()?.unwrap_or_default();
    result.set_other("pools", entries);
    Ok(result)
}

/// The entry of one pool.
fn entry(node: &Node, pool: &Asked, call: &Call<'_>) -> Result<Object, Error> {
    if let Some(local) = node.files.read(&node.cluster, &pool.name)?
        && node.is_verified(&local)
    {
        let definition = node.definition(&local, &pool.name)?;
        match need(node, pool, &local, &definition)? {
            Need::Nothing => return Ok(pool.with_blocks(&definition, local.used())),
            Need::Soon => {
                // Failures don't matter yet, and another process may be at it.
                let claimed = node
                    .files
                    .alone(Duration::ZERO, || claim(node, pool, call, true));
                if let Err(error) = claimed {
                    tracing::warn!(pool = pool.name, %error, "no further block; going on while there is room");
                }
                let local = node.files.read(&node.cluster, &pool.name)?.unwrap_or(local);
                return Ok(pool.with_blocks(&definition, local.used()));
            }
            Need::Now(_) => {}
        }
    }
    let at_most = node.cluster.settings.timeout * 2;
    let claimed = node
        .files
        .alone(at_most, || claim(node, pool, call, false))?;
    claimed.ok_or_else(|| {
        Error::new(
            code::TRY_AGAIN_LATER,
            format!(
                "another process has been claiming blocks for longer than {}",
                humantime::format_duration(at_most)
            ),
        )
    })
}

/// What a pool needs on this node.
enum Need {
    Nothing,
    /// A further block, soon.
    Soon,
    /// A block, or this one, at once.
    Now(Option<IpNet>),
}

fn need(node: &Node, pool: &Asked, local: &Local, definition: &Definition) -> Result<Need, Error> {
    if let Some(ip) = pool.requested {
        let block = requested_block(pool, ip, definition)?;
        // A block may be of a length that the definition had before.
        let is_ours = local
            .used()
            .any(|it| it.contains(&block) || it.contains(&ip));
        return Ok(if is_ours {
            Need::Nothing
        } else {
            Need::Now(Some(block))
        });
    }
    let free = pool.free(definition, local, node.files.data_dir())?;
    if free == 0 {
        return Ok(Need::Now(None));
    }
    if free >= low(definition) {
        return Ok(Need::Nothing);
    }
    let now = Moment::now(node.boot.as_deref());
    let failed = local.failed.as_ref().and_then(|it| it.until(&now));
    Ok(match failed {
        Some(passed) if passed < PAUSE => Need::Nothing,
        _ => Need::Soon,
    })
}

/// The block with a requested address.
fn requested_block(pool: &Asked, ip: IpAddr, definition: &Definition) -> Result<IpNet, Error> {
    let ranges = &definition.pool.ranges;
    let ip = ranges.in_family(ip);
    let block = ranges
        .contains(ip)
        .then(|| block_of(ip, definition.block.unwrap_or_default()));
    block.flatten().ok_or_else(|| {
        Error::config(format!(
            "requested-ip: {ip} is not in pool {} ({ranges})",
            pool.name
        ))
    })
}

/// Number of free addresses below which the blocks are nearly full: a quarter of a block.
pub(crate) fn low(definition: &Definition) -> u128 {
    let longest = match definition.pool.ranges.ranges()[0].subnet() {
        IpNet::V4(_) => 32,
        IpNet::V6(_) => 128,
    };
    let bits = u32::from(longest - definition.block.unwrap_or(longest).min(longest));
    let size = 1u128.checked_shl(bits).unwrap_or(u128::MAX);
    (size / 4).clamp(1, MOST_LOW)
}

/// Compares the node's blocks with etcd's if that has to be, and claims one if it is still
/// needed. No other process of the node does so meanwhile.
fn claim(node: &Node, pool: &Asked, call: &Call<'_>, ahead: bool) -> Result<Object, Error> {
    let Node { cluster, files, .. } = node;
    let mut local = files.read(cluster, &pool.name)?;
    // Another process may have claimed a block while this one waited.
    if let Some(local) = &local
        && node.is_verified(local)
    {
        let definition = node.definition(local, &pool.name)?;
        if matches!(need(node, pool, local, &definition)?, Need::Nothing) {
            return Ok(pool.with_blocks(&definition, local.used()));
        }
    }
    let mut hasty = cluster.clone();
    if ahead {
        hasty.settings.timeout = hasty.settings.timeout.min(AHEAD_OF_NEED);
    }
    let claimed = Client::new(&hasty.settings, call.cancellation)
        .map_err(Error::from)
        .and_then(|client| Claims::new(&hasty, client))
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
    if !node.is_verified(local) || local.claiming.is_some() {
        let mut verified = local.clone();
        claims.verify(&mut verified, &pool.name)?;
        verified.set_verified(&node.cluster.settings, node.boot.as_ref());
        node.files.write(&verified)?;
        *local = verified;
    }
    local.failed = None;
    match need(node, pool, local, &definition)? {
        Need::Nothing => {}
        Need::Soon => claims.claim(&node.files, local, &pool.name, &definition, None)?,
        Need::Now(block) => claims.claim(&node.files, local, &pool.name, &definition, block)?,
    }
    Ok(pool.with_blocks(&definition, local.used()))
}
