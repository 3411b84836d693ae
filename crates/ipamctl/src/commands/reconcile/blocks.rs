//! Blocks that live on this node: claims again those that etcd has lost.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use cluster::{BlockOwner, Definition, block_of};
use etcd::{Compare, Op, Range, Txn};
use ipam::{Interval, IpNet};
use node_blocks::{Files, Local, reserved};

use super::{Engine, Outcome, Row, changes_all_the_time, failed};
use crate::shared_pools::{ClaimedBlock, claimed_blocks};

/// Times that a block is looked at again, because it was changed meanwhile.
const MOST_TRIES: u32 = 10;

/// Claims the blocks in the node's files, and those in which addresses are reserved on the
/// node; what another node has is a conflict.
///
/// No process of the node claims a block meanwhile: one that has its answer of before the
/// restore has not noted it yet.
pub(super) fn claim_all(engine: &mut Engine<'_>) -> Result<Vec<Row>> {
    let cluster = &engine.cluster.cluster;
    let all = Files::all(cluster).map_err(failed)?;
    // A claim writes its pool's file before it asks etcd.
    let Some((files, _)) = all.first() else {
        return Ok(Vec::new());
    };
    let done = files.alone(cluster.settings.timeout, || Ok(claim_alone(engine)));
    done.map_err(failed)?
        .context("another process of this node is claiming a block: run this again")?
}

fn claim_alone(engine: &mut Engine<'_>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    // Nothing is claimed meanwhile but what lives on a node.
    let others = claimed_blocks(engine.cluster, &mut engine.client)?;
    for (files, local) in Files::all(&engine.cluster.cluster).map_err(failed)? {
        for (block, owner) in living(engine, &files, &local)? {
            let pool = local.pool();
            let outcome = claim(engine, &others, pool, block, &owner)?;
            rows.push(Row::new(format!("block {block}"), pool, None, outcome));
        }
    }
    Ok(rows)
}

/// The blocks of a pool, each with its value.
fn living(engine: &Engine<'_>, files: &Files, local: &Local) -> Result<Vec<(IpNet, BlockOwner)>> {
    let mut blocks: Vec<(IpNet, BlockOwner)> = Vec::new();
    blocks.extend(local.blocks.iter().map(|it| (it.cidr, it.owner.clone())));
    let key = engine.cluster.cluster.keys.pool(local.pool());
    let json = serde_json::to_vec(&local.definition)?;
    let definition = Definition::parse(&key, &json).map_err(|why| anyhow::anyhow!("{why}"))?;
    let reserved = reserved(files.data_dir(), local.pool()).map_err(failed)?;
    let ranges = &definition.pool.ranges;
    let unlisted: BTreeSet<IpNet> = reserved
        .into_iter()
        .filter(|ip| ranges.contains(*ip) && !blocks.iter().any(|it| it.0.contains(ip)))
        .filter_map(|ip| block_of(ip, definition.block?))
        .collect();
    let node = &engine.cluster.cluster.node;
    blocks.extend(unlisted.into_iter().map(|it| (it, BlockOwner::new(node))));
    Ok(blocks)
}

fn claim(
    engine: &mut Engine<'_>,
    others: &[ClaimedBlock],
    pool: &str,
    block: IpNet,
    owner: &BlockOwner,
) -> Result<Outcome> {
    let key = engine.cluster.cluster.keys.block(pool, block);
    let value = owner.to_value();
    let overlapping = others.iter().find(|it| {
        let overlaps = Interval::from(it.block).overlaps(Interval::from(block));
        it.block != block && it.pool.as_str() == pool && it.node() != owner.node && overlaps
    });
    if let Some(other) = overlapping {
        return Ok(Outcome::Conflict(format!(
            "block {} is node {}'s",
            other.block,
            other.node()
        )));
    }
    let mut found = None;
    for _ in 0..MOST_TRIES {
        // A value of this node's from before the restore is replaced: its files have this one.
        let is_as_found = match &found {
            None => Compare::is_missing(key.as_str()),
            Some(old) => Compare::value(key.as_str(), Vec::clone(old)),
        };
        let mut when = engine.conditions();
        when.push(is_as_found);
        let answer = engine.client.txn(&Txn {
            when,
            then: vec![Op::put(key.as_str(), value.as_slice())],
            otherwise: vec![Op::get(Range::key(key.as_str()))],
        })?;
        if answer.succeeded {
            return Ok(Outcome::Claimed);
        }
        let now = answer.ranges().next().and_then(|it| it.kvs.first());
        match now {
            Some(now) if now.value == value && answer.resent => return Ok(Outcome::Claimed),
            Some(now) if now.value == value => return Ok(Outcome::Held),
            Some(now) => match BlockOwner::parse(&now.value) {
                Some(it) if it.node == owner.node => found = Some(now.value.clone()),
                Some(it) => return Ok(Outcome::Conflict(format!("it is node {}'s", it.node))),
                None => return Ok(Outcome::Conflict("its key has foreign content".to_owned())),
            },
            None => found = None,
        }
        engine.verify_name()?;
    }
    Err(changes_all_the_time(&key))
}
