//! `ipamctl collect-nodes`: releases what nodes hold whose Nodes were deleted for long, and writes
//! the status of pools.
//!
//! A run that finds a Node missing writes a note on the node's registration; a later run releases
//! what the node holds if the registration is still the same and the node has claimed nothing
//! since the note.

use std::collections::BTreeSet;
use std::process::ExitCode;
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
use crate::node::Node;
use crate::output::{Output, joined, warn};
use crate::shared_pools::engines::kubernetes_cluster;

/// A node whose Node is missing. The keys are documented, and don't change their meaning.
#[derive(Debug, Serialize)]
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

pub(crate) fn run(
    arguments: &CollectNodesArguments,
    node: impl FnOnce() -> Node,
    output: Output,
) -> Result<ExitCode> {
    let cluster = kubernetes_cluster(&arguments.cluster, node)?;
    let mut engine = cluster.kubernetes_engine();
    let marked = marked(&mut engine)?;
    ensure!(
        marked.is_empty(),
        "nothing is collected: the cluster was restored, or pools are being imported: {}",
        joined(marked, ", ")
    );
    let registered = RegisteredNode::all(&mut engine.client)?;
    let mut rows = Vec::new();
    for node in &registered {
        if node.name == cluster.node.name {
            continue;
        }
        rows.extend(collect(&mut engine, node, arguments)?);
    }
    let held = write_status(&mut engine, arguments.dry_run)?;
    let known: BTreeSet<&str> = registered.iter().map(|node| node.name.as_str()).collect();
    let is_unregistered = |node: &&str| !known.contains(node) && is_dns_subdomain(node);
    let unregistered: BTreeSet<&str> = held.nodes().filter(is_unregistered).collect();
    for node in unregistered {
        if engine.client.get(OtherResource::Node, node)?.is_none() {
            let reason = format!("it has no registration: ipamctl node-forget {node}");
            rows.push(Row::new(node, "kept", None).because(reason));
        }
    }
    output.print(&rows, || rows.iter().map(Row::text).collect())?;
    let is_open = rows.iter().any(|row| row.outcome == "kept");
    Ok(ExitCode::from(u8::from(is_open)))
}

/// What is done about one registration; `None` if its Node exists.
fn collect(
    engine: &mut Engine<'_>,
    node: &RegisteredNode,
    arguments: &CollectNodesArguments,
) -> Result<Option<Row>> {
    let name = node.name.as_str();
    match &node.state {
        NodeState::Exists(_) => {
            write_note(engine, node, arguments.dry_run)?;
            Ok(None)
        }
        NodeState::NeverSeen => {
            let reason = format!(
                "no Node of this name was ever seen: its ipam.node may be another name than its Node's. If it is gone: ipamctl node-forget {name}"
            );
            Ok(Some(Row::new(name, "kept", None).because(reason)))
        }
        NodeState::Missing => {
            write_note(engine, node, arguments.dry_run)?;
            Ok(Some(Row::new(name, "noted", None)))
        }
        NodeState::MissingSince(note) if !has_passed(note, arguments.gone_for) => {
            Ok(Some(Row::new(name, "waiting", Some(note))))
        }
        NodeState::MissingSince(note) => release(engine, node, note, arguments.dry_run).map(Some),
    }
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
fn has_passed(note: &MissingNote, gone_for: Duration) -> bool {
    let age = SystemTime::now().duration_since(note.since);
    age.is_ok_and(|age| age >= gone_for)
}

fn release(
    engine: &mut Engine<'_>,
    node: &RegisteredNode,
    note: &MissingNote,
    dry_run: bool,
) -> Result<Row> {
    let row = |outcome| Row::new(&node.name, outcome, Some(note));
    let holdings = NodeHoldings::read(engine, &node.name).map_err(failed)?;
    let registration = holdings.registration.as_ref();
    if registration.is_none_or(|registration| registration.revision != node.revision) {
        return Ok(row("kept").because("it was changed just now".to_owned()));
    }
    let addresses = holdings.addresses.iter().map(|entry| entry.revision);
    let blocks = holdings.blocks.iter().map(|block| block.revision);
    if addresses
        .chain(blocks)
        .any(|claimed| claimed > note.revision)
    {
        // Whoever claims is running, whatever the API server says of its Node.
        if !dry_run {
            node.note_missing(&mut engine.client)?;
        }
        let reason = "it has claimed something since then, so it runs without a Node: delete its machine, or restart its kubelet";
        return Ok(row("kept").because(reason.to_owned()));
    }
    if dry_run {
        return Ok(Row {
            addresses: holdings.addresses.len(),
            blocks: holdings.blocks.len(),
            ..row("would-release")
        });
    }
    let forgotten = holdings.release(engine).map_err(failed)?;
    Ok(Row {
        addresses: forgotten.addresses,
        blocks: forgotten.blocks.len(),
        ..row("released")
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

fn failed(error: cni::Error) -> anyhow::Error {
    anyhow::Error::msg(error.msg)
}

impl Row {
    fn new(node: &str, outcome: &'static str, note: Option<&MissingNote>) -> Self {
        let since = note.map(|note| humantime::format_rfc3339_seconds(note.since).to_string());
        Self {
            node: node.to_owned(),
            outcome,
            since,
            addresses: 0,
            blocks: 0,
            reason: None,
        }
    }

    fn because(self, reason: String) -> Self {
        Self {
            reason: Some(reason),
            ..self
        }
    }

    fn text(&self) -> String {
        let node = &self.node;
        let since = self.since.as_deref().unwrap_or("now");
        let number = format!("{} addresses and {} blocks", self.addresses, self.blocks);
        match self.outcome {
            "noted" => format!("{node}: its Node is missing; noted"),
            "waiting" => format!("{node}: its Node is missing since {since}"),
            "released" => format!("{node}: its Node is missing since {since}; released {number}"),
            "would-release" => {
                format!("{node}: its Node is missing since {since}; would release {number}")
            }
            _ => format!(
                "{node}: kept: {}",
                self.reason.as_deref().unwrap_or_default()
            ),
        }
    }
}
