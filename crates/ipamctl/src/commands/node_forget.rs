//! `ipamctl node-forget`: releases what a node holds that doesn't come back.
//!
//! Nothing else does this: no clock releases what a node holds, since it may only be cut off.

use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::{Result, bail, ensure};
use cni::NetworkName;
use conflist::Problem;
use etcd::{Client, Compare, Op, Txn};
use ipam_da_etcd::tools::{Entry, entries, release};
use serde::Serialize;

use crate::arguments::NodeForgetArguments;
use crate::commands::Status;
use crate::node::Node;
use crate::output::{Output, warn};
use crate::shared_pools::{ClaimedBlock, EtcdCluster, block_pools};

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

pub(crate) fn run(arguments: &NodeForgetArguments, node: &Node, output: Output) -> Result<Status> {
    let cluster = EtcdCluster::one(node, arguments.cluster.network.as_deref())?;
    let name = arguments.node.as_str();
    ensure!(
        name.parse::<NetworkName>().is_ok(),
        "{name:?} can't name a node"
    );
    ensure!(
        name != cluster.cluster.node,
        "{name} is this node: its containers use their addresses. Run it on another node"
    );
    let keys = &cluster.cluster.keys;
    let mut client = cluster.client()?;
    let held = entries(&mut client, keys, name, &keys.node(name))?;
    let blocks = blocks(&cluster, &mut client, name)?;
    let token = client.get(keys.token(name))?;
    ensure!(
        !held.is_empty() || !blocks.is_empty() || token.is_some(),
        "{} holds nothing of a node {name}",
        cluster.path().display()
    );
    let mut row = row(name, &held, &blocks);
    if !output.json {
        output.lines(lines(&row))?;
    }
    if !arguments.dry_run {
        if !arguments.yes && !is_confirmed(name)? {
            bail!("nothing is released");
        }
        let released = release(&mut client, keys, name, &held)?;
        for (pool, it) in &blocks {
            let key = keys.block(pool.as_str(), it.block);
            let owner = it.owner.as_ref().expect("it is the node's");
            client.txn(&Txn {
                when: vec![Compare::value(key.as_str(), owner.to_value())],
                then: vec![Op::delete(key)],
                otherwise: Vec::new(),
            })?;
        }
        // The last: without it, a node that comes back has to ask for its name again.
        if let Some(token) = token {
            client.txn(&Txn {
                when: vec![Compare::mod_revision(keys.token(name), token.mod_revision)],
                then: vec![Op::delete(keys.token(name))],
                otherwise: Vec::new(),
            })?;
        }
        row.released = true;
        let rest = entries(&mut client, keys, name, &keys.node(name))?.len();
        if rest > 0 {
            warn(&format!(
                "{name} has reserved {rest} addresses meanwhile: it is not gone"
            ));
        }
        if !output.json {
            output.lines([format!(
                "released: {released} addresses, {} blocks",
                blocks.len()
            )])?;
        }
    }
    if output.json {
        Output::json(&[row])?;
    }
    Ok(Status::Fine)
}

/// The node's blocks, with their pools.
fn blocks(
    cluster: &EtcdCluster,
    client: &mut Client<'_>,
    node: &str,
) -> Result<Vec<(NetworkName, ClaimedBlock)>> {
    let mut problems: Vec<Problem> = Vec::new();
    let pools = block_pools(cluster, client, &mut problems)?;
    for Problem { path, reason } in problems {
        warn(&format!("{}: {reason}", path.display()));
    }
    let blocks = pools.into_iter().flat_map(|pool| {
        let its = pool.claimed.into_iter();
        let its = its.filter(|it| it.owner.as_ref().is_some_and(|it| it.node == node));
        its.map(|it| (pool.name.clone(), it)).collect::<Vec<_>>()
    });
    Ok(blocks.collect())
}

fn row(node: &str, held: &[Entry], blocks: &[(NetworkName, ClaimedBlock)]) -> Row {
    let addresses = held.iter().map(|it| Address {
        address: it.held.ip.to_string(),
        pool: it.held.pool.clone(),
        network: it.held.network.clone(),
        container_id: it.held.attachment.container_id.to_string(),
        ifname: it.held.attachment.ifname.to_string(),
    });
    let blocks = blocks.iter().map(|(pool, it)| Block {
        block: it.block.to_string(),
        pool: pool.clone(),
    });
    Row {
        node: node.to_owned(),
        addresses: addresses.collect(),
        blocks: blocks.collect(),
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
    let addresses = row.addresses.iter().map(|it| {
        format!(
            "  {} of pool {}: {} {} on {}",
            it.address, it.pool, it.container_id, it.ifname, it.network
        )
    });
    lines.extend(addresses.take(SHOWN));
    if row.addresses.len() > SHOWN {
        lines.push(format!("  … and {} more", row.addresses.len() - SHOWN));
    }
    let blocks = row.blocks.iter();
    lines.extend(blocks.map(|it| format!("  block {} of pool {}", it.block, it.pool)));
    lines
}

/// Asks a person for the node's name.
fn is_confirmed(node: &str) -> Result<bool> {
    ensure!(
        io::stdin().is_terminal(),
        "stdin is no terminal, so nobody can be asked: --yes releases all of this"
    );
    let mut stderr = io::stderr();
    write!(
        stderr,
        "If containers of {node} still run, others will get their addresses.\nType the node's name to release all of this: "
    )?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(answer.trim() == node)
}
