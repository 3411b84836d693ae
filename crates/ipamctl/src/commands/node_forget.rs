//! `ipamctl node-forget`: releases what a lost node holds.
//!
//! Nothing else does this: no clock releases what a node holds, since it may only be cut off.

use std::net::IpAddr;
use std::process::ExitCode;

use anyhow::{Result, bail, ensure};
use cluster::address::Entry;
use cluster::contents::ClaimedBlock;
use cluster::forget::NodeHoldings;
use cni::{Attachment, NetworkName};
use ipam::IpNet;
use serde::Serialize;

use crate::arguments::NodeForgetArguments;
use crate::node::Node;
use crate::output::confirmation::is_confirmed;
use crate::output::{Output, warn};
use crate::shared_pools::{SharedCluster, failed};

/// Addresses that are shown one by one.
const SHOWN: usize = 20;

/// What is released. The keys are documented, and don't change their meaning.
#[derive(Debug, Serialize)]
struct Row {
    node: String,
    addresses: Vec<Address>,
    blocks: Vec<Block>,
    /// False with `--dry-run`.
    released: bool,
}

#[derive(Debug, Serialize)]
struct Address {
    address: IpAddr,
    pool: NetworkName,
    network: NetworkName,
    #[serde(flatten)]
    attachment: Attachment,
}

#[derive(Debug, Serialize)]
struct Block {
    block: IpNet,
    pool: NetworkName,
}

pub(crate) fn run(
    arguments: &NodeForgetArguments,
    node: impl FnOnce() -> Node,
    output: Output,
) -> Result<ExitCode> {
    let cluster = SharedCluster::chosen(&arguments.cluster, node)?;
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
    let holdings = NodeHoldings::read(engine, name).map_err(failed)?;
    for ClaimedBlock { block, pool, .. } in &holdings.foreign_blocks {
        warn(format!(
            "block {block} of pool {pool} has content that isn't ours: it isn't known whether it is {name}'s, and it is left alone"
        ));
    }
    ensure!(
        !holdings.is_empty(),
        "{} holds nothing of a node {name}",
        cluster.path().display()
    );
    let mut row = Row {
        node: name.to_owned(),
        addresses: holdings.addresses.iter().map(Address::from).collect(),
        blocks: holdings.blocks.iter().map(Block::from).collect(),
        released: false,
    };
    if !output.json {
        output.lines(row.lines())?;
    }
    if !arguments.dry_run {
        let text = format!(
            "If containers of {name} still run, others will get their addresses.\nType the node's name to release all of this: "
        );
        if !arguments.yes && !is_confirmed(name, &text)? {
            bail!("nothing is released");
        }
        let forgotten = holdings.release(engine).map_err(failed)?;
        for ClaimedBlock { block, pool, .. } in &forgotten.changed_blocks {
            warn(format!(
                "block {block} of pool {pool} was changed, or {name} has registered again meanwhile; it is left alone"
            ));
        }
        let rest = forgotten.reserved_meanwhile;
        if rest > 0 {
            warn(format!(
                "{name} has reserved {rest} addresses meanwhile: it is not gone"
            ));
        }
        row.blocks = forgotten.blocks.iter().map(Block::from).collect();
        row.released = true;
        if !output.json {
            let (addresses, blocks) = (forgotten.addresses, row.blocks.len());
            output.lines([format!("released: {addresses} addresses, {blocks} blocks")])?;
        }
    }
    if output.json {
        Output::json(&[row])?;
    }
    Ok(ExitCode::SUCCESS)
}

impl From<&Entry> for Address {
    fn from(entry: &Entry) -> Self {
        let held = &entry.held;
        Self {
            address: held.ip,
            pool: held.pool.clone(),
            network: held.network.clone(),
            attachment: held.attachment.clone(),
        }
    }
}

impl From<&ClaimedBlock> for Block {
    fn from(claimed: &ClaimedBlock) -> Self {
        Self {
            block: claimed.block,
            pool: claimed.pool.clone(),
        }
    }
}

impl Row {
    fn lines(&self) -> Vec<String> {
        let (addresses, blocks) = (self.addresses.len(), self.blocks.len());
        let mut lines = vec![format!(
            "{} holds {addresses} addresses and {blocks} blocks:",
            self.node
        )];
        for Address {
            address,
            pool,
            network,
            attachment,
        } in self.addresses.iter().take(SHOWN)
        {
            let Attachment {
                container_id,
                ifname,
            } = attachment;
            lines.push(format!(
                "  {address} of pool {pool}: {container_id} {ifname} on {network}"
            ));
        }
        if addresses > SHOWN {
            lines.push(format!("  … and {} more", addresses - SHOWN));
        }
        let blocks = self.blocks.iter();
        lines.extend(blocks.map(|Block { block, pool }| format!("  block {block} of pool {pool}")));
        lines
    }
}
