//! GC: compares the node's blocks with etcd's, and gives back empty ones.

use std::time::Duration;

use cluster::{Definition, ranges_in};
use cni::{Call, Error, Object, code};
use node_blocks::{Asked, Block, Local, Moment, Node, asked, low, reserved};

use crate::claims::Claims;

/// Default of `ipam.keepEmptyBlocks`.
const KEEP: Duration = Duration::from_secs(60 * 60);

/// Time between the end of a block's use and its return: an ADD that still knew the block
/// has ended by then.
const LEAVE: Duration = Duration::from_secs(10 * 60);

/// Gives back blocks of the call's pools that have been empty for long.
pub(crate) fn gc(call: &Call<'_>) -> Result<(), Error> {
    let node = Node::of(call)?;
    let keep = keep(&call.config.ipam()?)?;
    let mut errors = Vec::new();
    for pool in asked(&call.config)? {
        let at_most = node.cluster.settings.timeout;
        let done = node
            .files
            .alone(at_most, || collect(&node, &pool, call, keep));
        if let Err(error) = done {
            errors.push(error.msg);
        }
    }
    match errors.is_empty() {
        true => Ok(()),
        false => Err(Error::new(code::TRY_AGAIN_LATER, errors.join("; "))),
    }
}

fn keep(ipam: &Object) -> Result<Duration, Error> {
    let text: Option<String> = ipam.read("ipam", "keepEmptyBlocks")?;
    text.map_or(Ok(KEEP), |text| {
        humantime::parse_duration(&text).map_err(|_| {
            Error::config(format!(
                "ipam.keepEmptyBlocks: {text:?} is no time such as \"1h\""
            ))
        })
    })
}

fn collect(node: &Node, pool: &Asked, call: &Call<'_>, keep: Duration) -> Result<(), Error> {
    let Some(mut local) = node.files.read(&node.cluster, &pool.name)? else {
        return Ok(());
    };
    let name = &pool.name;
    let client = cluster_client::client(&node.cluster, call)?;
    let mut claims = Claims::new(&node.cluster, call, client)?;
    let definition = claims.definition(name)?;
    local.definition = definition.object().clone();
    claims.verify(&node.files, &mut local, name, &definition)?;
    for block in claims.unlisted(&local, name)? {
        tracing::warn!(block = %block.cidr, pool = name, "etcd has this block as the node's; it is used from now on");
        local.blocks.push(block);
    }
    node.files.write(&local)?;
    let now = Moment::now(node.boot.as_deref());
    let gone = mark(node, name, &definition, &mut local, &now, keep)?;
    node.files.write(&local)?;
    for block in gone {
        claims.give_back(&block, name)?;
        // Only now: had it been left out before, and the answer lost, it would stay claimed.
        local.blocks.retain(|it| *it != block);
        node.files.write(&local)?;
        tracing::debug!(block = %block.cidr, pool = name, "gave a block back");
    }
    Ok(())
}

/// Marks the blocks that are empty and those that aren't used any more; returns those that
/// are to be given back.
fn mark(
    node: &Node,
    pool: &str,
    definition: &Definition,
    local: &mut Local,
    now: &Moment,
    keep: Duration,
) -> Result<Vec<Block>, Error> {
    let reserved = reserved(node.files.data_dir(), pool)?;
    let ranges = &definition.pool.ranges;
    let used = |block: &Block| {
        reserved
            .iter()
            .filter(|ip| block.cidr.contains(*ip))
            .count() as u128
    };
    let capacity = |block: &Block| {
        let mut entry = Object::new();
        entry.set("ranges", &ranges_in(ranges, block.cidr));
        ipam::Pool::read("a block", entry).map_or(0, |it| it.ranges.capacity())
    };
    let free = |block: &Block| capacity(block).saturating_sub(used(block));
    let mut left: u128 = local
        .blocks
        .iter()
        .filter(|it| it.leaving_since.is_none())
        .map(free)
        .sum();
    let holds_none = local.blocks.iter().all(|it| used(it) == 0);
    let mut gone = Vec::new();
    for block in &mut local.blocks {
        if used(block) > 0 {
            (block.empty_since, block.leaving_since) = (None, None);
            continue;
        }
        // After a boot, the time starts anew.
        let passed = |since: &Option<Moment>| since.as_ref().and_then(|it| it.until(now));
        if block.leaving_since.is_some() {
            match passed(&block.leaving_since) {
                Some(passed) if passed >= LEAVE.min(keep) => gone.push(block.clone()),
                Some(_) => {}
                None => block.leaving_since = Some(now.clone()),
            }
            continue;
        }
        let empty_for = passed(&block.empty_since);
        if empty_for.is_none() {
            block.empty_since = Some(now.clone());
        }
        let without = left.saturating_sub(free(block));
        let is_spare = holds_none || without >= low(definition).saturating_mul(2);
        if empty_for.unwrap_or_default() >= keep && is_spare {
            left = without;
            block.leaving_since = Some(now.clone());
        }
    }
    Ok(gone)
}
