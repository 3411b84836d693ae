//! GC: compares the node's blocks with etcd's, and gives back empty ones.

use std::time::{Duration, Instant};

use cluster::{Definition, ranges_in};
use cni::{Call, Error, Object, code};
use node_blocks::{Block, Local, Moment, Node, low, reserved};

use crate::claims::Claims;

/// Default of `ipam.keepEmptyBlocks`.
const KEEP: Duration = Duration::from_secs(60 * 60);

/// Time between the end of a block's use and its return: an ADD that still knew the block
/// has ended by then.
const LEAVE: Duration = Duration::from_secs(10 * 60);

/// Gives back blocks of this node that have been empty for long: of all pools that the node has
/// blocks of, whether a network still names them or not. It ends within `etcd.timeout`, or at
/// this time, if that is earlier.
///
/// # Errors
///
/// Code 11, with what was the matter with each pool.
pub fn give_back(call: &Call<'_>, until: Option<Instant>) -> Result<(), Error> {
    let node = Node::of(call)?;
    let keep = keep(&call.config.ipam()?)?;
    let deadline = Instant::now() + node.cluster.settings.timeout;
    let deadline = until.map_or(deadline, |until| until.min(deadline));
    let mut errors = Vec::new();
    for pool in node.files.pools()? {
        let left = deadline.saturating_duration_since(Instant::now());
        let done = node
            .files
            .alone(left, || collect(&node, &pool, call, keep, deadline));
        match done {
            Ok(Some(())) => {}
            Ok(None) => errors.push(format!("{pool}: another process claims blocks")),
            Err(error) => errors.push(format!("{pool}: {}", error.msg)),
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

fn collect(
    node: &Node,
    pool: &str,
    call: &Call<'_>,
    keep: Duration,
    deadline: Instant,
) -> Result<(), Error> {
    let Some(mut local) = node.files.read_of_any_folder(&node.cluster, pool)? else {
        return Ok(());
    };
    let name = pool;
    let client = cluster_client::client(&node.cluster, call)?;
    let client = client.until(deadline, node.cluster.settings.timeout);
    let mut claims = Claims::new(&node.cluster, call, client)?;
    // Without a definition with blocks, all of them go as soon as they are empty.
    let definition = claims.any_definition(name)?;
    let definition = definition.filter(|it| it.block.is_some());
    if let Some(definition) = &definition {
        local.definition = definition.object().clone();
    }
    claims.verify(&node.files, &mut local, name, definition.as_ref())?;
    for block in claims.unlisted(&local, name)? {
        tracing::warn!(block = %block.cidr, pool = name, "etcd has this block as the node's; it is used from now on");
        local.blocks.push(block);
    }
    node.files.write(&local)?;
    let now = Moment::now(node.boot.as_deref());
    let gone = mark(name, definition.as_ref(), &mut local, &now, keep)?;
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
    pool: &str,
    definition: Option<&Definition>,
    local: &mut Local,
    now: &Moment,
    keep: Duration,
) -> Result<Vec<Block>, Error> {
    let reserved = reserved(local.data_dir(), pool)?;
    let used = |block: &Block| {
        reserved
            .iter()
            .filter(|ip| block.cidr.contains(*ip))
            .count() as u128
    };
    let capacity = |block: &Block| {
        let ranges = definition.map(|it| ranges_in(&it.pool.ranges, block.cidr));
        let mut entry = Object::new();
        entry.set("ranges", &ranges.unwrap_or_default());
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
        if used(block) > 0 && definition.is_none() {
            // Nothing more is given from it.
            block.leaving_since.get_or_insert_with(|| now.clone());
            continue;
        }
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
        let is_spare =
            holds_none || definition.is_none_or(|it| without >= low(it).saturating_mul(2));
        let is_old = definition.is_none() || empty_for.unwrap_or_default() >= keep;
        if is_old && is_spare {
            left = without;
            block.leaving_since = Some(now.clone());
        }
    }
    Ok(gone)
}
