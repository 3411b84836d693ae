//! `ipamctl reconcile`: claims this node's addresses and blocks again in a restored engine.

mod living;
mod same_cluster;

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use cluster::restore::{
    LatestState, Reconciled, clear_mark, mark, mark_nodes, marked, reconcile_address,
    reconcile_blocks,
};
use cluster::{DefinedPools, Engine, Group, Identity, Read};
use cni::NetworkName;
use serde::Serialize;

use crate::arguments::ReconcileArguments;
use crate::context::Context;
use crate::output::{Output, warn};
use crate::shared_pools::{SharedCluster, failed, outcome};
use living::{Living, living};
use same_cluster::SameCluster;

/// Longest wait for calls that run on this node, and then for conflicts to go away.
const PATIENCE: Duration = Duration::from_secs(5);

/// Pause before a conflict is tested again.
const PAUSE: Duration = Duration::from_millis(200);

/// An address or a block that this node uses. The keys are documented, and don't change their
/// meaning.
#[derive(Debug, Serialize)]
struct Row {
    /// The address, or the block.
    what: String,
    pool: String,
    /// The container, the interface and the network; `null` for a block.
    holder: Option<String>,
    /// `held`: the engine still had it; `claimed`: the engine has it again; `conflict`.
    outcome: &'static str,
    /// In a conflict, the holder in the engine.
    other: Option<String>,
}

pub(crate) fn run(arguments: &ReconcileArguments, context: &Context<'_>) -> Result<bool> {
    if arguments.begin {
        let cluster = SharedCluster::chosen(&arguments.cluster.any, context)?;
        begin(&cluster, &arguments.nodes, context.output)?;
        return Ok(false);
    }
    let node = &context.node();
    let cluster = SharedCluster::of_this_node(&arguments.cluster, node)?;
    let engine = &mut *cluster.engine();
    let this_node = cluster.node();
    let name = this_node.name.as_str();
    let mut seen = LatestState::open(this_node).map_err(failed)?;
    // Its answer has the engine's state.
    engine.read(&[Read::Count(Group::Pools)])?;
    let mut own_mark = mark(engine, name)?;
    if let Err(error) = seen.refuse_older(this_node, engine) {
        warn(&error.msg);
        own_mark = mark(engine, name)?;
    }
    let moment = engine.moment().context("no cluster ID is answered")?;
    let mut same_cluster = SameCluster::new(&cluster, moment.cluster, context.environment);
    let (living, unread) = living(node, &mut same_cluster, Instant::now() + PATIENCE);
    let identity = &mut Identity::of(this_node, &node.environment, engine).map_err(failed)?;
    let rows = claim(engine, identity, this_node, &living)?;
    let lines = || lines(&rows, engine.name());
    context.output.print(&rows, lines)?;
    unread.iter().for_each(warn);
    // A conflist that can't be read may name a folder of further records.
    let problems = unread.len() + node.problems.len();
    ensure!(
        problems == 0,
        "the addresses of some attachments are unknown: {problems} records, folders or conflists can't be used now; node {name} stays marked"
    );
    let conflicts = rows.iter().filter(|row| row.is_conflict()).count();
    if conflicts > 0 {
        warn(format!(
            "{conflicts} conflicts: if pools have another definition than before the restore, define them as they were last; otherwise, end one of the two containers of each (here: ipamctl release; there: the same, or ipamctl node-forget for a node that is gone), then run this again"
        ));
        return Ok(true);
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
    Ok(false)
}

/// Claims all addresses and blocks of the node again. Conflicts are tested again for a while: an
/// ADD may have made a claim that it takes back when it finds the marks.
fn claim(
    engine: &mut dyn Engine,
    identity: &mut Identity<'_>,
    node: &cluster::Node,
    living: &[Living],
) -> Result<Vec<Row>> {
    let until = Instant::now() + PATIENCE;
    let mut rows = claim_once(engine, identity, node, living)?;
    while rows.iter().any(Row::is_conflict) && Instant::now() < until {
        sleep(PAUSE);
        let mut again = claim_once(engine, identity, node, living)?;
        again.retain(|now| rows.iter().any(|row| row.is_conflict() && row.is_same(now)));
        rows.retain(|row| !row.is_conflict());
        rows.extend(again);
    }
    Ok(rows)
}

fn claim_once(
    engine: &mut dyn Engine,
    identity: &mut Identity<'_>,
    node: &cluster::Node,
    living: &[Living],
) -> Result<Vec<Row>> {
    let mut pools = DefinedPools::read(engine).map_err(failed)?;
    let blocks = reconcile_blocks(engine, identity, &mut pools, node).map_err(failed)?;
    let blocks = blocks.into_iter();
    let mut rows: Vec<Row> = blocks
        .map(|(pool, cidr, state)| Row::new(format!("block {cidr}"), pool, None, state))
        .collect();
    for Living { held, record } in living {
        let lives = || record.try_exists().unwrap_or(true);
        let state = reconcile_address(engine, identity, &mut pools, held, lives);
        let state = state.map_err(failed)?;
        rows.extend(state.map(|state| {
            let holder = format!("{} of network {}", held.attachment, held.network);
            let (what, pool) = (held.ip.to_string(), held.pool.to_string());
            Row::new(what, pool, Some(holder), state)
        }));
    }
    Ok(rows)
}

/// `--begin`: marks all nodes. Nothing new is given before each of them has claimed its own again.
fn begin(cluster: &SharedCluster, named: &[String], output: Output) -> Result<()> {
    for name in named {
        let is_valid = name.parse::<NetworkName>().is_ok();
        ensure!(is_valid, "{name:?} can't name a node");
    }
    let nodes = mark_nodes(&mut *cluster.engine(), named)?;
    ensure!(
        !nodes.is_empty(),
        "{} knows no node: name all of them, ipamctl reconcile --begin NODE…",
        cluster.path().display()
    );
    let lines = || {
        let text = "nothing new is given before each of these nodes has run ipamctl reconcile:";
        let lines = [text].into_iter().chain(nodes.iter().map(String::as_str));
        lines.collect::<Vec<_>>()
    };
    Ok(output.print(&nodes, lines)?)
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

impl Row {
    fn new(what: String, pool: String, holder: Option<String>, state: Reconciled) -> Self {
        let (outcome, other) = outcome(state);
        Self {
            what,
            pool,
            holder,
            outcome,
            other,
        }
    }

    fn is_conflict(&self) -> bool {
        self.other.is_some()
    }

    /// True if both have the same address or block.
    fn is_same(&self, other: &Self) -> bool {
        (&self.what, &self.pool, &self.holder) == (&other.what, &other.pool, &other.holder)
    }

    fn text(&self) -> String {
        let mut text = format!("{} of pool {}", self.what, self.pool);
        text.extend(self.holder.iter().map(|holder| format!(" ({holder})")));
        text += &format!(": {}", self.outcome);
        text.extend(self.other.iter().map(|other| format!(": {other}")));
        text
    }
}
