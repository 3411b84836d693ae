//! `ipamctl collect-nodes`: releases the holdings of nodes whose Nodes were deleted long ago, and
//! writes the status of pools.
//!
//! A run that finds a Node missing writes a note on the node's registration. A later run releases
//! the node's addresses and blocks, unless the registration has changed or the node has claimed
//! something since the note.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use anyhow::{Result, ensure};
use cluster::contents::{claimed_blocks, definitions};
use cluster::forget::NodeHoldings;
use cluster::restore::marked;
use kubernetes::node_objects::{MissingNote, NodeState, RegisteredNode};
use kubernetes::pool_status::HeldCounts;
use kubernetes::{Engine, OtherResource, is_dns_subdomain};
use serde::Serialize;

use crate::arguments::CollectNodesArguments;
use crate::context::Context;
use crate::output::{joined, warn};
use crate::shared_pools::{SharedCluster, failed};

/// A node whose Node is missing. The keys are documented, and don't change their meaning.
#[derive(Debug, Default, Serialize)]
struct Row {
    node: String,
    /// `noted`, `waiting`, `released`, `would-release`, `kept`.
    outcome: &'static str,
    /// The time of the note.
    since: Option<String>,
    /// Number of released addresses.
    addresses: usize,
    /// Number of released blocks.
    blocks: usize,
    reason: Option<String>,
}

pub(crate) fn run(arguments: &CollectNodesArguments, context: &Context<'_>) -> Result<bool> {
    let cluster = SharedCluster::chosen(&arguments.cluster, context)?.in_kubernetes()?;
    let mut engine = cluster.kubernetes_engine();
    let marked = marked(&mut engine)?;
    ensure!(
        marked.is_empty(),
        "nothing is collected: the cluster was restored, or pools are being imported: {}",
        joined(marked, ", ")
    );
    let registered = RegisteredNode::all(&mut engine.client)?;
    let now = engine.client.server_time()?;
    let mut rows = Vec::new();
    let others = registered.iter();
    for node in others.filter(|node| node.name != cluster.node.name) {
        rows.extend(collect(&mut engine, node, now, arguments)?);
    }
    let held = write_status(&mut engine, arguments.dry_run)?;
    if !arguments.dry_run
        && let Err(error) = engine.remove_notes()
    {
        warn(format!("the notes of an ended restore stay: {error}"));
    }
    let known: BTreeSet<&str> = registered.iter().map(|node| node.name.as_str()).collect();
    let is_unregistered = |node: &&str| !known.contains(node) && is_dns_subdomain(node);
    let unregistered: BTreeSet<&str> = held.nodes().filter(is_unregistered).collect();
    for node in unregistered {
        if engine.client.get(OtherResource::Node, node)?.is_none() {
            let reason = format!("it has no registration: ipamctl node-forget {node}");
            rows.push(Row::kept(node, None, reason));
        }
    }
    let lines = || rows.iter().map(Row::text).collect();
    context.output.print(&rows, lines)?;
    Ok(rows.iter().any(|row| row.outcome == "kept"))
}

/// Releases, or writes a note about, one registration; `None` if its Node exists.
fn collect(
    engine: &mut Engine<'_>,
    node: &RegisteredNode,
    now: SystemTime,
    arguments: &CollectNodesArguments,
) -> Result<Option<Row>> {
    let name = node.name.as_str();
    let row = match &node.state {
        NodeState::Exists(_) => {
            write_note(engine, node, arguments.dry_run)?;
            return Ok(None);
        }
        NodeState::NeverSeen => {
            let reason = format!(
                "no Node of this name was ever seen: its ipam.node may be another name than its Node's. If it is gone: ipamctl node-forget {name}"
            );
            Row::kept(name, None, reason)
        }
        NodeState::Missing => {
            write_note(engine, node, arguments.dry_run)?;
            Row::new(name, None, "noted")
        }
        NodeState::MissingSince(note) if !has_passed(note, now, arguments.gone_for) => {
            Row::new(name, Some(note), "waiting")
        }
        NodeState::MissingSince(note) => release(engine, node, note, arguments.dry_run)?,
    };
    Ok(Some(row))
}

fn write_note(engine: &mut Engine<'_>, node: &RegisteredNode, dry_run: bool) -> Result<()> {
    if !dry_run && !node.note(&mut engine.client)? {
        warn(format!(
            "{}: it was changed meanwhile; a later run looks again",
            node.name
        ));
    }
    Ok(())
}

/// True if the note is old enough. A note from the future isn't.
fn has_passed(note: &MissingNote, now: SystemTime, gone_for: Duration) -> bool {
    let age = now.duration_since(note.since);
    age.is_ok_and(|age| age >= gone_for)
}

fn release(
    engine: &mut Engine<'_>,
    node: &RegisteredNode,
    note: &MissingNote,
    dry_run: bool,
) -> Result<Row> {
    let name = node.name.as_str();
    let holdings = NodeHoldings::read(engine, name).map_err(failed)?;
    let registration = holdings.registration.as_ref();
    if registration.is_none_or(|registration| registration.revision != node.revision) {
        return Ok(Row::kept(name, Some(note), "it was changed just now"));
    }
    let addresses = holdings.addresses.iter().map(|entry| entry.revision);
    let blocks = holdings.blocks.iter().map(|block| block.revision);
    let mut claims = addresses.chain(blocks);
    if claims.any(|claimed| claimed > note.revision) {
        // A node that claims is running, whatever the API server says of its Node.
        if !dry_run {
            node.note_missing(&mut engine.client)?;
        }
        let reason = "it has claimed something since then, so it runs without a Node: delete its machine, or restart its kubelet";
        return Ok(Row::kept(name, Some(note), reason));
    }
    let (outcome, addresses, blocks) = if dry_run {
        let (addresses, blocks) = (holdings.addresses.len(), holdings.blocks.len());
        ("would-release", addresses, blocks)
    } else {
        let forgotten = holdings.release(engine).map_err(failed)?;
        ("released", forgotten.addresses, forgotten.blocks.len())
    };
    Ok(Row {
        addresses,
        blocks,
        ..Row::new(name, Some(note), outcome)
    })
}

/// Writes the status of each pool; returns the numbers of held addresses.
fn write_status(engine: &mut Engine<'_>, dry_run: bool) -> Result<HeldCounts> {
    let mut pools = Vec::new();
    for pool in definitions(engine)? {
        match pool {
            Ok(pool) => pools.push(pool),
            Err((path, reason)) => warn(format!("{path}: {reason}")),
        }
    }
    let blocks = claimed_blocks(engine)?;
    let mut held = HeldCounts::read(&mut engine.client)?;
    held.add_blocks(&pools, &blocks);
    for pool in pools.iter().filter(|_| !dry_run) {
        if !held.write(&mut engine.client, pool)? {
            warn(format!(
                "pool {}: it was changed meanwhile; its status is not written",
                pool.name
            ));
        }
    }
    Ok(held)
}

impl Row {
    fn new(node: &str, note: Option<&MissingNote>, outcome: &'static str) -> Self {
        let since = note.map(|note| humantime::format_rfc3339_seconds(note.since).to_string());
        Self {
            node: node.to_owned(),
            outcome,
            since,
            ..Self::default()
        }
    }

    fn kept(node: &str, note: Option<&MissingNote>, reason: impl Into<String>) -> Self {
        Self {
            reason: Some(reason.into()),
            ..Self::new(node, note, "kept")
        }
    }

    fn text(&self) -> String {
        let since = self.since.as_deref().unwrap_or("now");
        let missing = format!("{}: its Node is missing since {since}", self.node);
        let number = format!("{} addresses and {} blocks", self.addresses, self.blocks);
        match (self.outcome, &self.reason) {
            ("waiting", _) => missing,
            ("released", _) => format!("{missing}; released {number}"),
            ("would-release", _) => format!("{missing}; would release {number}"),
            (_, Some(reason)) => format!("{}: kept: {reason}", self.node),
            (_, None) => format!("{}: its Node is missing; noted", self.node),
        }
    }
}
