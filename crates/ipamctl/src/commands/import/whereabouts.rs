//! `ipamctl import --from-whereabouts`: claims the addresses that whereabouts has allocated to pods,
//! for the same containers.
//!
//! An address is shown and not claimed if its pod is missing, or isn't known to have it. If one
//! address has a conflict, none is claimed.

use std::collections::BTreeSet;

use anyhow::{Result, anyhow, bail, ensure};
use cluster::contents::{DefinedPool, definitions, held_addresses};
use kubernetes::Engine;
use kubernetes::whereabouts::Snapshot;

use super::plan::{Plan, Row};
use crate::arguments::ImportArguments;
use crate::context::Context;
use crate::output::{Output, joined, warn};
use crate::shared_pools::{SharedCluster, outcome};

pub(super) fn run(arguments: &ImportArguments, context: &Context<'_>) -> Result<bool> {
    let output = context.output;
    let cluster = SharedCluster::chosen(&arguments.cluster, context)?.in_kubernetes()?;
    let mut engine = cluster.kubernetes_engine();
    let before = Snapshot::read(&mut engine.client)?;
    let given = before.given(&mut engine.client)?;
    let pools = pools(&mut engine)?;
    let held = held_addresses(&mut engine, true)?;
    let mut plan = Plan::new(&given.allocations, &pools, &held);
    given.unread.iter().for_each(warn);
    for (ip_pool, number) in &plan.of_no_pool {
        warn(format!(
            "IPPool {ip_pool}: no pool has {number} of its addresses; they are left alone"
        ));
    }
    let conflicts = count(&plan.rows, "conflict");
    if arguments.dry_run || conflicts > 0 {
        print(&plan.rows, output)?;
        if conflicts > 0 {
            warn(format!(
                "nothing is written: {conflicts} addresses can't be claimed"
            ));
        }
        return Ok(has_findings(&plan.rows, &given.unread));
    }
    let changed = Snapshot::read(&mut engine.client)?.changed_since(&before);
    ensure!(
        changed.is_empty(),
        "nothing is written, since whereabouts has changed these meanwhile: {}; stop it first",
        joined(changed, ", ")
    );
    let claimed = claim(&mut engine, &mut plan.rows);
    print(&plan.rows, output)?;
    claimed?;
    let changed = Snapshot::read(&mut engine.client)?.changed_since(&before);
    ensure!(
        changed.is_empty(),
        "what is claimed stays, but whereabouts has changed these meanwhile: {}; stop it, and run this again",
        joined(changed, ", ")
    );
    if !output.json {
        output.lines(next_steps(&plan.rows))?;
    }
    Ok(has_findings(&plan.rows, &given.unread))
}

/// The pools; all of them must be usable.
fn pools(engine: &mut Engine<'_>) -> Result<Vec<DefinedPool>> {
    let pools: Result<Vec<DefinedPool>, _> = definitions(engine)?.into_iter().collect();
    let pools = pools.map_err(|(path, reason)| anyhow!("{path}: {reason}"))?;
    ensure!(
        !pools.is_empty(),
        "no pool is defined: run ipamctl import with a file of pools first"
    );
    Ok(pools)
}

/// Claims all planned addresses, and tells their nodes before and after.
fn claim(engine: &mut Engine<'_>, rows: &mut [Row<'_>]) -> Result<()> {
    let claims = rows.iter().filter_map(|row| row.claim.as_ref());
    let nodes: BTreeSet<String> = claims.map(|claim| claim.held.node.clone()).collect();
    for node in &nodes {
        engine.begin_taking_over(node)?;
    }
    let mut failed = None;
    for row in rows {
        let Some(claim) = &row.claim else {
            continue;
        };
        let (namespace, pod) = (&claim.attachment.namespace, &claim.attachment.pod);
        engine.set_pod(Some(namespace.clone()), Some(pod.clone()));
        match cluster::take_over(engine, claim.pool, &claim.held) {
            Ok(state) => {
                let (outcome, other) = outcome(state);
                (row.outcome, row.reason) = (outcome, other.map(|other| format!("it is {other}")));
            }
            Err(error) => {
                failed = Some(error.msg);
                break;
            }
        }
    }
    // Also after a failure, and for addresses that an earlier run has claimed.
    for node in &nodes {
        engine.end_taking_over(node)?;
    }
    match failed {
        None => Ok(()),
        Some(reason) => bail!("what is claimed stays; run this again: {reason}"),
    }
}

fn count(rows: &[Row<'_>], outcome: &str) -> usize {
    rows.iter().filter(|row| row.outcome == outcome).count()
}

fn print(rows: &[Row<'_>], output: Output) -> Result<()> {
    let sum = |outcome: &str| count(rows, outcome);
    let lines = || {
        let mut lines: Vec<String> = rows.iter().map(Row::text).collect();
        lines.push(format!(
            "{} addresses: {} claimed, {} to claim, {} held already, {} not imported, {} conflicts",
            rows.len(),
            sum("claimed"),
            sum("would-claim"),
            sum("held"),
            sum("not-imported"),
            sum("conflict"),
        ));
        lines
    };
    Ok(output.print(&rows, lines)?)
}

/// True if an address of a pool was not imported, or something could not be read.
fn has_findings(rows: &[Row<'_>], unread: &[String]) -> bool {
    count(rows, "conflict") + count(rows, "not-imported") > 0 || !unread.is_empty()
}

fn next_steps(rows: &[Row<'_>]) -> Vec<String> {
    let claims = rows.iter().filter_map(|row| row.claim.as_ref());
    let definitions: BTreeSet<&str> = claims
        .filter_map(|claim| claim.attachment.definition.as_deref())
        .collect();
    vec![
        String::new(),
        "Next, while whereabouts is stopped:".to_owned(),
        format!(
            "1. In these NetworkAttachmentDefinitions, replace ipam, and keep name: {}",
            joined(definitions, ", ")
        ),
        "2. Start a pod, end an old one, and look at both: kubectl get addresses".to_owned(),
        "3. Remove whereabouts with its IPPools and OverlappingRangeIPReservations".to_owned(),
    ]
}
