//! `ipamctl blocks`: the blocks of a cluster's pools, by node.

mod svg;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::arguments::BlocksArguments;
use crate::context::Context;
use crate::output::table::Table;
use crate::output::{Output, joined, warn};
use crate::shared_pools::SharedCluster;
use crate::shared_pools::blocks::{BlockPool, block_pools};

pub(crate) fn run(arguments: &BlocksArguments, context: &Context<'_>) -> Result<bool> {
    let output = context.output;
    let cluster = SharedCluster::chosen(&arguments.cluster, context)?;
    let (mut pools, problems) = block_pools(&mut *cluster.engine())?;
    problems.iter().for_each(warn);
    let unread = problems.len();
    if let Some(name) = &arguments.pool {
        pools.retain(|pool| pool.name.as_str() == name);
        ensure!(
            !pools.is_empty() || unread == 0,
            "it isn't known whether pool {name} is given in blocks: {unread} pools could not be read"
        );
        ensure!(
            !pools.is_empty(),
            "{} has no pool {name} that is given in blocks",
            cluster.path().display()
        );
    }
    match &arguments.svg {
        Some(file) => svg::picture(&pools).write(file, output)?,
        None if pools.is_empty() && !output.json => warn("no pool is given in blocks"),
        None => {
            let objects: Vec<Value> = pools.iter().map(object).collect();
            output.print(&objects, || lines(&pools, output))?;
        }
    }
    ensure!(
        unread == 0,
        "this is not everything: {unread} pools could not be read"
    );
    Ok(false)
}

/// The pool as JSON. The keys are documented, and don't change their meaning.
fn object(pool: &BlockPool) -> Value {
    let claimed = pool.claimed.iter().map(|claimed| {
        let owner = claimed.owner.as_ref();
        json!({
            "block": claimed.block,
            "node": owner.map(|owner| &owner.node),
            "since": owner.map(|owner| &owner.since),
        })
    });
    json!({
        "pool": pool.name,
        "ranges": pool.ranges.to_string(),
        "block": pool.length,
        // As text: IPv6 pools have many.
        "blocks": pool.size().to_string(),
        "claimed": claimed.collect::<Vec<_>>(),
    })
}

/// A line for each node of each pool, and one for the pool's free blocks.
fn lines(pools: &[BlockPool], output: Output) -> Vec<String> {
    let mut rows = Vec::new();
    for pool in pools {
        let name = format!("{}/{}", pool.name, pool.length);
        for (node, blocks) in pool.by_node() {
            let count = blocks.len() as u128;
            rows.push((name.clone(), node, count, joined(blocks, " ")));
        }
        let free = pool.size().saturating_sub(pool.claimed.len() as u128);
        rows.push((name, "(free)", free, String::new()));
    }
    Table::of(&rows)
        .text("POOL", |(pool, ..)| pool.clone())
        .text("NODE", |(_, node, ..)| (*node).to_owned())
        .number("BLOCKS", |(_, _, count, _)| count.to_string())
        .text("WHICH", |(.., blocks)| blocks.clone())
        .lines(output, |_| None)
}
