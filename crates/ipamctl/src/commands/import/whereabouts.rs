//! `ipamctl import --from-whereabouts`: claims the addresses that whereabouts has given to pods,
//! for the same containers.
//!
//! An address whose pod isn't there, or isn't known to have it, is shown and not claimed. If one
//! can't be claimed, nothing is.

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::{Result, bail, ensure};
use cluster::contents::{DefinedPool, definitions, held_addresses};
use kubernetes::Engine;
use kubernetes::whereabouts::Snapshot;

use super::plan::{Plan, Planned, Row};
use crate::arguments::ImportArguments;
use crate::node::Node;
use crate::output::{Output, joined, warn};
use crate::shared_pools::engines::kubernetes_cluster;

pub(super) fn run(
    arguments: &ImportArguments,
    node: impl FnOnce() -> Node,
    output: Output,
) -> Result<ExitCode> {
    let cluster = kubernetes_cluster(&arguments.cluster, node)?;
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
    let conflicts = count(&plan.addresses, "conflict");
    if arguments.dry_run || conflicts > 0 {
        print(&plan.addresses, output)?;
        if conflicts > 0 {
            warn(format!(
                "nothing is written: {conflicts} addresses can't be claimed"
            ));
        }
        return Ok(verdict(&plan.addresses, &given.unread));
    }
    let changed = Snapshot::read(&mut engine.client)?.changed_since(&before);
    ensure!(
        changed.is_empty(),
        "nothing is written, since whereabouts has changed these meanwhile: {}; stop it first",
        joined(changed, ", ")
    );
    let claimed = claim(&mut engine, &mut plan.addresses);
    print(&plan.addresses, output)?;
    claimed?;
    let changed = Snapshot::read(&mut engine.client)?.changed_since(&before);
    ensure!(
        changed.is_empty(),
        "what is claimed stays, but whereabouts has changed these meanwhile: {}; stop it, and run this again",
        joined(changed, ", ")
    );
    if !output.json {
        output.lines(next_steps(&plan.addresses))?;
    }
    Ok(verdict(&plan.addresses, &given.unread))
}

/// The pools; all of them must be usable.
fn pools(engine: &mut Engine<'_>) -> Result<Vec<DefinedPool>> {
    let mut pools = Vec::new();
    for pool in definitions(engine)? {
        match pool {
            Ok(pool) => pools.push(pool),
            Err((path, reason)) => bail!("{path}: {reason}"),
        }
    }
    ensure!(
        !pools.is_empty(),
        "no pool is defined: run ipamctl import with a file of pools first"
    );
    Ok(pools)
}

/// Claims all planned addresses, and tells the nodes.
fn claim(engine: &mut Engine<'_>, addresses: &mut [Planned<'_>]) -> Result<()> {
    let mut nodes = BTreeSet::new();
    let mut failed = None;
    for Planned { row, claim } in addresses {
        let Some(claim) = claim else {
            continue;
        };
        let (namespace, pod) = (&claim.attachment.namespace, &claim.attachment.pod);
        engine.set_pod(Some(namespace.clone()), Some(pod.clone()));
        match cluster::take_over(engine, claim.pool, &claim.held) {
            Ok(state) => row.answered(state),
            Err(error) => {
                failed = Some(error.msg);
                break;
            }
        }
        nodes.insert(claim.held.node.as_str());
    }
    // Also after a failure, and on a later run for what an earlier one has claimed.
    for node in nodes {
        engine.tell_node(node)?;
    }
    match failed {
        None => Ok(()),
        Some(reason) => bail!("what is claimed stays; run this again: {reason}"),
    }
}

fn count(addresses: &[Planned<'_>], outcome: &str) -> usize {
    let outcomes = addresses.iter().map(|planned| planned.row.outcome);
    outcomes.filter(|one| *one == outcome).count()
}

fn print(addresses: &[Planned<'_>], output: Output) -> Result<()> {
    let rows: Vec<&Row> = addresses.iter().map(|planned| &planned.row).collect();
    let sum = |outcome: &str| count(addresses, outcome);
    let lines = || {
        let mut lines: Vec<String> = rows.iter().map(|row| row.text()).collect();
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

/// 1 if an address of a pool was not imported, or something could not be read.
fn verdict(addresses: &[Planned<'_>], unread: &[String]) -> ExitCode {
    let is_all = count(addresses, "conflict") + count(addresses, "not-imported") == 0;
    ExitCode::from(u8::from(!is_all || !unread.is_empty()))
}

fn next_steps(addresses: &[Planned<'_>]) -> Vec<String> {
    let claims = addresses
        .iter()
        .filter_map(|planned| planned.claim.as_ref());
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
