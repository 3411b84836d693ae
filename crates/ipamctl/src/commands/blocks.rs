//! `ipamctl blocks`: the blocks of a cluster's pools, by node.

mod svg;

use std::process::ExitCode;

use anyhow::{Result, ensure};
use conflist::Problem;
use ipam::IpNet;
use serde::Serialize;

use crate::arguments::BlocksArguments;
use crate::node::Node;
use crate::output::table::Table;
use crate::output::{Output, joined, warn};
use crate::shared_pools::SharedCluster;
use crate::shared_pools::blocks::{BlockPool, block_pools};

/// A pool. The keys are documented, and don't change their meaning.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row<'a> {
    pool: &'a str,
    ranges: String,
    /// Length of the prefix of a block.
    block: u8,
    /// Number of blocks, as text: IPv6 pools have many.
    blocks: String,
    claimed: Vec<Claimed<'a>>,
}

#[derive(Debug, Serialize)]
struct Claimed<'a> {
    block: IpNet,
    node: Option<&'a str>,
    since: Option<&'a str>,
}

pub(crate) fn run(
    arguments: &BlocksArguments,
    node: impl FnOnce() -> Node,
    output: Output,
) -> Result<ExitCode> {
    let cluster = SharedCluster::chosen(&arguments.cluster, node)?;
    let mut problems: Vec<Problem> = Vec::new();
    let mut pools = block_pools(&mut *cluster.engine(), &mut problems)?;
    problems.iter().for_each(warn);
    if let Some(name) = &arguments.pool {
        pools.retain(|pool| pool.name.as_str() == name);
        ensure!(
            !pools.is_empty() || problems.is_empty(),
            "it isn't known whether pool {name} is given in blocks: {} pools could not be read",
            problems.len()
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
            let rows: Vec<Row<'_>> = pools.iter().map(row).collect();
            output.print(&rows, || table(&pools).lines(output))?;
        }
    }
    ensure!(
        problems.is_empty(),
        "this is not everything: {} pools could not be read",
        problems.len()
    );
    Ok(ExitCode::SUCCESS)
}

fn row(pool: &BlockPool) -> Row<'_> {
    let claimed = pool.claimed.iter().map(|claimed| {
        let owner = claimed.owner.as_ref();
        Claimed {
            block: claimed.block,
            node: owner.map(|owner| owner.node.as_str()),
            since: owner.map(|owner| owner.since.as_str()),
        }
    });
    Row {
        pool: pool.name.as_str(),
        ranges: pool.ranges.to_string(),
        block: pool.length,
        blocks: pool.size().to_string(),
        claimed: claimed.collect(),
    }
}

/// A line for each node of each pool, and one for the blocks that nobody has.
fn table(pools: &[BlockPool]) -> Table {
    let mut table = Table::new(&["POOL", "NODE", "BLOCKS", "WHICH"]).right_aligned(&["BLOCKS"]);
    for pool in pools {
        let name = format!("{}/{}", pool.name, pool.length);
        for (node, count) in pool.by_node() {
            let claimed = pool.claimed.iter().filter(|block| block.node() == node);
            let which = joined(claimed.map(|block| block.block), " ");
            let cells = [name.clone(), node.to_owned(), count.to_string(), which];
            table.row(None, cells);
        }
        let free = pool.size().saturating_sub(pool.claimed.len() as u128);
        let cells = [name, "(free)".to_owned(), free.to_string(), String::new()];
        table.row(None, cells);
    }
    table
}
