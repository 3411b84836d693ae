//! `ipamctl node-forget`: releases the addresses and blocks of a lost node.
//!
//! No timeout does this, since the node may only be cut off.

use anyhow::{Result, bail, ensure};
use cluster::contents::ClaimedBlock;
use cluster::forget::NodeHoldings;
use cni::NetworkName;
use serde_json::{Value, json};

use crate::arguments::NodeForgetArguments;
use crate::context::Context;
use crate::output::confirmation::is_confirmed;
use crate::output::{Output, warn};
use crate::shared_pools::{SharedCluster, failed};

/// Most addresses that are listed.
const SHOWN: usize = 20;

pub(crate) fn run(arguments: &NodeForgetArguments, context: &Context<'_>) -> Result<bool> {
    let output = context.output;
    let cluster = SharedCluster::chosen(&arguments.cluster, context)?;
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
            "block {block} of pool {pool} has content that isn't ours: its node is unknown, and it is kept"
        ));
    }
    ensure!(
        !holdings.is_empty(),
        "{} holds nothing of a node {name}",
        cluster.path().display()
    );
    if !output.json {
        output.lines(lines(name, &holdings))?;
    }
    let addresses = addresses(&holdings);
    let (blocks, is_released) = if arguments.dry_run {
        (holdings.blocks, false)
    } else {
        let text = format!(
            "If containers of {name} still run, others will get their addresses.\nType the node's name to release all of this: "
        );
        if !arguments.yes && !is_confirmed(name, &text)? {
            bail!("nothing is released");
        }
        let forgotten = holdings.release(engine).map_err(failed)?;
        for ClaimedBlock { block, pool, .. } in &forgotten.changed_blocks {
            warn(format!(
                "block {block} of pool {pool} was changed, or {name} has registered again meanwhile; it is kept"
            ));
        }
        let rest = forgotten.reserved_meanwhile;
        if rest > 0 {
            warn(format!(
                "{name} has reserved {rest} addresses meanwhile: it is not gone"
            ));
        }
        if !output.json {
            let (addresses, blocks) = (forgotten.addresses, forgotten.blocks.len());
            output.lines([format!("released: {addresses} addresses, {blocks} blocks")])?;
        }
        (forgotten.blocks, true)
    };
    if output.json {
        let blocks = blocks.iter();
        let blocks = blocks.map(|claimed| json!({"block": claimed.block, "pool": claimed.pool}));
        // The keys are documented, and don't change their meaning.
        Output::json(&[json!({
            "node": name,
            "addresses": addresses,
            "blocks": blocks.collect::<Vec<_>>(),
            "released": is_released,
        })])?;
    }
    Ok(false)
}

/// The addresses as JSON.
fn addresses(holdings: &NodeHoldings) -> Vec<Value> {
    let held = holdings.addresses.iter().map(|entry| &entry.held);
    let addresses = held.map(|held| {
        json!({
            "address": held.ip,
            "pool": held.pool,
            "network": held.network,
            "containerID": held.attachment.container_id,
            "ifname": held.attachment.ifname,
        })
    });
    addresses.collect()
}

/// The node's addresses and blocks, for people.
fn lines(node: &str, holdings: &NodeHoldings) -> Vec<String> {
    let (addresses, blocks) = (holdings.addresses.len(), holdings.blocks.len());
    let mut lines = vec![format!(
        "{node} holds {addresses} addresses and {blocks} blocks:"
    )];
    let shown = holdings.addresses.iter().take(SHOWN);
    lines.extend(shown.map(|entry| {
        let held = &entry.held;
        let (ip, pool, network) = (held.ip, &held.pool, &held.network);
        format!("  {ip} of pool {pool}: {} on {network}", held.attachment)
    }));
    if addresses > SHOWN {
        lines.push(format!("  … and {} more", addresses - SHOWN));
    }
    let blocks = holdings.blocks.iter();
    lines.extend(
        blocks.map(|claimed| format!("  block {} of pool {}", claimed.block, claimed.pool)),
    );
    lines
}
