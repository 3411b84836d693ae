//! `ipamctl reconcile`: tells a restored engine which addresses and blocks this node uses.

mod begin;
mod living;
mod same_cluster;

use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use cluster::restore::{
    LatestState, Reconciled, clear_mark, mark, marked, reconcile_address, reconcile_blocks,
};
use cluster::{Engine, HeldKey, Identity};
use serde::Serialize;

use crate::arguments::ReconcileArguments;
use crate::node::Node;
use crate::output::{Output, warn};
use crate::shared_pools::SharedCluster;

/// An address or a block that lives on this node. The keys are documented, and don't change
/// their meaning.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    /// The address, or the block.
    what: String,
    pool: String,
    /// The container, the interface and the network; `null` for a block.
    holder: Option<String>,
    /// `held`: the engine has it so; `claimed`: the engine has it again; `conflict`.
    outcome: &'static str,
    /// Of a conflict: what the engine has.
    other: Option<String>,
}

pub(crate) fn run(arguments: &ReconcileArguments, node: &Node, output: Output) -> Result<ExitCode> {
    let cluster = SharedCluster::one(&node.networks, arguments.cluster.network.as_deref())?;
    let engine = &mut *cluster.engine();
    if arguments.begin {
        return begin::run(&cluster, engine, &arguments.nodes, output);
    }
    let this_node = cluster.node();
    let name = this_node.name.as_str();
    let mut seen = LatestState::open(this_node).map_err(failed)?;
    let mut own_mark = mark(engine, name)?;
    if let Err(error) = seen.refuse_older(this_node, engine) {
        warn(&error.msg);
        own_mark = mark(engine, name)?;
    }
    let mut problems = Vec::new();
    let moment = engine.moment().context("no cluster ID is answered")?;
    let mut same = same_cluster::SameCluster::new(&cluster, moment.cluster);
    let living = living::by_records(node, name, &mut same, &mut problems);
    let identity = Identity::of(this_node, &node.environment, engine);
    let mut identity = identity.map_err(failed)?;
    let blocks = reconcile_blocks(engine, &mut identity, this_node).map_err(failed)?;
    let rows = blocks.into_iter();
    let mut rows: Vec<Row> = rows
        .map(|(pool, cidr, state)| Row::new(format!("block {cidr}"), &pool, None, state))
        .collect();
    rows.extend(claim_addresses(engine, &mut identity, name, &living)?);
    output.print(&rows, || lines(&rows, engine.name()))?;
    for problem in &problems {
        warn(problem);
    }
    let conflicts = rows.iter().filter(|row| row.other.is_some()).count();
    // A conflist that can't be read may name a folder of further records.
    let problems = problems.len() + node.problems.len();
    ensure!(
        problems == 0,
        "it isn't known what all attachments hold: {problems} records, folders or conflists can't be used now; node {name} has not said everything"
    );
    if conflicts > 0 {
        warn(format!(
            "{conflicts} conflicts: end one of the two containers of each (here: ipamctl release; there: the same, or ipamctl node-forget for a node that is gone), then run this again"
        ));
        return Ok(ExitCode::from(1));
    }
    if let Some(own_mark) = own_mark {
        ensure!(
            clear_mark(engine, &own_mark)?,
            "ipamctl reconcile --begin has run meanwhile: run this again"
        );
    }
    let rest = marked(engine)?;
    seen.remember(engine);
    if !rest.is_empty() {
        warn(format!(
            "these nodes have not run ipamctl reconcile yet, and nothing new is given before they have: {}",
            rest.join(", ")
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn failed(error: cni::Error) -> anyhow::Error {
    anyhow::Error::msg(error.msg)
}

/// The lines for people; `engine` is the engine's name.
fn lines(rows: &[Row], engine: &str) -> Vec<String> {
    let mut lines: Vec<String> = rows.iter().map(Row::text).collect();
    let claimed = rows.iter().filter(|row| row.outcome == "claimed").count();
    lines.push(format!(
        "{} addresses and blocks live here; {engine} had lost {claimed} of them",
        rows.len()
    ));
    lines
}

/// Claims again the addresses that live on this node; what another has is a conflict.
fn claim_addresses(
    engine: &mut dyn Engine,
    identity: &mut Identity<'_>,
    node: &str,
    living: &[living::Living],
) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for address in living {
        let held = HeldKey {
            node: node.to_owned(),
            network: address.network.clone(),
            attachment: address.attachment.clone(),
            pool: address.pool.parse()?,
            ip: address.ip,
        };
        let lives = || address.record.try_exists().unwrap_or(true);
        let state = reconcile_address(engine, identity, &held, lives).map_err(failed)?;
        if let Some(state) = state {
            let holder = format!(
                "{} {} of network {}",
                held.attachment.container_id, held.attachment.ifname, held.network
            );
            let what = held.ip.to_string();
            rows.push(Row::new(what, &address.pool, Some(holder), state));
        }
    }
    Ok(rows)
}

impl Row {
    fn new(what: String, pool: &str, holder: Option<String>, state: Reconciled) -> Self {
        let (outcome, other) = match state {
            Reconciled::Held => ("held", None),
            Reconciled::Claimed => ("claimed", None),
            Reconciled::Conflict(other) => ("conflict", Some(other)),
        };
        Self {
            what,
            pool: pool.to_owned(),
            holder,
            outcome,
            other,
        }
    }

    fn text(&self) -> String {
        let holder = self.holder.as_ref();
        let holder = holder.map_or(String::new(), |holder| format!(" ({holder})"));
        let other = self.other.as_ref();
        let other = other.map_or(String::new(), |other| format!(": {other}"));
        let Self {
            what,
            pool,
            outcome,
            ..
        } = self;
        format!("{what} of pool {pool}{holder}: {outcome}{other}")
    }
}
