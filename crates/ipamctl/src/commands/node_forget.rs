//! `ipamctl node-forget`: releases what a lost node holds.
//!
//! Nothing else does this: no clock releases what a node holds, since it may only be cut off.

use std::process::ExitCode;

use anyhow::{Result, bail, ensure};
use cluster::address::{Entry, entries};
use cluster::contents::{ClaimedBlock, claimed_blocks};
use cluster::forget::{Claim, forget_addresses, forget_block, forget_registration};
use cluster::{Holding, Key, restore};
use cni::NetworkName;
use serde::Serialize;

use crate::arguments::NodeForgetArguments;
use crate::node::Node;
use crate::output::confirmation::is_confirmed;
use crate::output::{Output, warn};
use crate::shared_pools::SharedCluster;

/// Addresses that are shown one by one.
const SHOWN: usize = 20;

/// What is released. The keys are documented, and don't change their meaning.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    node: String,
    addresses: Vec<Address>,
    blocks: Vec<Block>,
    /// False with `--dry-run`.
    released: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Address {
    address: String,
    pool: NetworkName,
    network: NetworkName,
    #[serde(rename = "containerID")]
    container_id: String,
    ifname: String,
}

#[derive(Debug, Serialize)]
struct Block {
    block: String,
    pool: NetworkName,
}

pub(crate) fn run(
    arguments: &NodeForgetArguments,
    node: &Node,
    output: Output,
) -> Result<ExitCode> {
    let cluster = SharedCluster::one(&node.networks, arguments.cluster.network.as_deref())?;
    let name = arguments.node.as_str();
    ensure!(
        name.parse::<NetworkName>().is_ok(),
        "{name:?} can't name a node"
    );
    ensure!(
        name != cluster.node().name,
        "{name} is this node: its containers use their addresses. Run it on another node"
    );
    let engine = &mut *cluster.engine();
    let held = entries(engine, Holding::of_node(name)).map_err(failed)?;
    let mut blocks = claimed_blocks(engine)?;
    for foreign in blocks.iter().filter(|block| block.owner.is_none()) {
        let ClaimedBlock { block, pool, .. } = foreign;
        warn(format!(
            "block {block} of pool {pool} has content that isn't ours: it isn't known whether it is {name}'s, and it is left alone"
        ));
    }
    blocks.retain(|block| block.owner.is_some() && block.node() == name);
    let registration = engine.get(Key::Node(name.to_owned()))?;
    let mark = restore::mark(engine, name)?;
    ensure!(
        !held.is_empty() || !blocks.is_empty() || registration.is_some() || mark.is_some(),
        "{} holds nothing of a node {name}",
        cluster.path().display()
    );
    let mut row = row(name, &held, &blocks);
    if !output.json {
        output.lines(lines(&row))?;
    }
    if !arguments.dry_run {
        let text = format!(
            "If containers of {name} still run, others will get their addresses.\nType the node's name to release all of this: "
        );
        if !arguments.yes && !is_confirmed(name, &text)? {
            bail!("nothing is released");
        }
        // First: without it, the node can claim nothing more.
        if let Some(registration) = registration {
            forget_registration(engine, &registration).map_err(failed)?;
        }
        let released = forget_addresses(engine, name, &held).map_err(failed)?;
        let mut released_blocks = Vec::new();
        for claimed in blocks {
            let claim = Claim {
                pool: claimed.pool.to_string(),
                cidr: claimed.block,
                revision: claimed.revision,
            };
            if forget_block(engine, name, &claim)? {
                released_blocks.push(claimed);
            } else {
                let ClaimedBlock { block, pool, .. } = &claimed;
                warn(format!(
                    "block {block} of pool {pool} was changed, or {name} has registered again meanwhile; it is left alone"
                ));
            }
        }
        row.blocks = released_blocks.iter().map(Block::from).collect();
        // What the node would have said lives there is released.
        if let Some(mark) = mark {
            restore::clear_mark(engine, &mark)?;
        }
        row.released = true;
        let rest = entries(engine, Holding::of_node(name))
            .map_err(failed)?
            .len();
        if rest > 0 {
            warn(format!(
                "{name} has reserved {rest} addresses meanwhile: it is not gone"
            ));
        }
        if !output.json {
            output.lines([format!(
                "released: {released} addresses, {} blocks",
                row.blocks.len()
            )])?;
        }
    }
    if output.json {
        Output::json(&[row])?;
    }
    Ok(ExitCode::SUCCESS)
}

fn failed(error: cni::Error) -> anyhow::Error {
    anyhow::Error::msg(error.msg)
}

impl From<&ClaimedBlock> for Block {
    fn from(it: &ClaimedBlock) -> Self {
        Self {
            block: it.block.to_string(),
            pool: it.pool.clone(),
        }
    }
}

fn row(node: &str, held: &[Entry], blocks: &[ClaimedBlock]) -> Row {
    let addresses = held.iter().map(|entry| Address {
        address: entry.held.ip.to_string(),
        pool: entry.held.pool.clone(),
        network: entry.held.network.clone(),
        container_id: entry.held.attachment.container_id.to_string(),
        ifname: entry.held.attachment.ifname.to_string(),
    });
    Row {
        node: node.to_owned(),
        addresses: addresses.collect(),
        blocks: blocks.iter().map(Block::from).collect(),
        released: false,
    }
}

fn lines(row: &Row) -> Vec<String> {
    let mut lines = vec![format!(
        "{} holds {} addresses and {} blocks:",
        row.node,
        row.addresses.len(),
        row.blocks.len()
    )];
    let addresses = row.addresses.iter().map(|address| {
        format!(
            "  {} of pool {}: {} {} on {}",
            address.address, address.pool, address.container_id, address.ifname, address.network
        )
    });
    lines.extend(addresses.take(SHOWN));
    if row.addresses.len() > SHOWN {
        lines.push(format!("  … and {} more", row.addresses.len() - SHOWN));
    }
    let blocks = row.blocks.iter();
    lines.extend(blocks.map(|block| format!("  block {} of pool {}", block.block, block.pool)));
    lines
}
