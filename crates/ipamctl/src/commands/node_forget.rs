//! `ipamctl node-forget`: releases the addresses of a cluster's node that is gone, and of owners
//! whose objects are gone.
//!
//! No timeout does this, since the node may only be cut off.

use std::collections::BTreeSet;
use std::thread::sleep;

use anyhow::{Result, ensure};
use cluster::{Held, Holder, Inventory, release_each, until_answered};
use kubernetes::Kubernetes;

use super::address_outcome::{AddressOutcome, print};
use crate::Context;
use crate::arguments::NodeForgetArguments;
use crate::clusters::{Cluster, addresses, open_kubeconfig, retain_gone_owners};
use crate::output::{joined, warn};

pub(crate) fn run(arguments: &NodeForgetArguments, context: &Context<'_>) -> Result<bool> {
    let Some(name) = &arguments.node else {
        let store = &mut open_kubeconfig(context.sources.kubeconfig.as_ref())?;
        let held = held_by_deleted_nodes(store, arguments)?;
        return release(store, &held, arguments, context);
    };
    let cluster = Cluster::one(context)?;
    let store = &mut *cluster.open()?;
    let machine = &arguments.machine;
    let held = addresses(store, |held| {
        let mut holder = held.holder.iter().filter(|holder| holder.node == *name);
        holder.any(|holder| machine.is_none() || holder.machine == *machine)
    })?;
    let holders = || held.iter().filter_map(|held| held.holder.as_ref());
    let machines: BTreeSet<_> = holders().map(|holder| holder.machine.as_ref()).collect();
    ensure!(
        machines.len() < 2,
        "several machines hold addresses as {name}: {}. Name the one that is gone: --machine ID",
        joined(machines.into_iter().flatten(), ", ")
    );
    let mut this = cluster.node.iter();
    ensure!(
        !this.any(|this| holders().any(|holder| holder.is_on(this))),
        "{name} is this node: its containers use their addresses; what is leaked, ipamctl leaks shows"
    );
    release(store, &held, arguments, context)
}

/// What the first look has found at nodes that have no Node object at both looks, and of owners that
/// have no object.
fn held_by_deleted_nodes(
    store: &mut Kubernetes<'_>,
    arguments: &NodeForgetArguments,
) -> Result<Vec<Held>> {
    // The addresses first: a node that is added meanwhile isn't among them.
    let mut held = addresses(store, |held| held.holder.is_some())?;
    for look in 1..=2 {
        let known = until_answered(store, |store| store.nodes())?;
        let without_node = "the cluster has no Node at all: nothing is released";
        ensure!(!known.is_empty(), without_node);
        let is_owners = |held: &Held| held.holder.as_ref().is_some_and(|of| of.owner.is_some());
        let (of_owners, mut of_nodes): (Vec<Held>, Vec<Held>) =
            held.into_iter().partition(is_owners);
        let is_forgotten = |holder: &Holder| !known.contains(&holder.node);
        of_nodes.retain(|held| held.holder.as_ref().is_some_and(is_forgotten));
        of_nodes.extend(retain_gone_owners(store, of_owners)?);
        held = of_nodes;
        if look == 1 && arguments.yes && !held.is_empty() {
            let what = "addresses of nodes without a Node object, or of owners without one";
            warn(format!("{} {what}: looking again", held.len()));
            sleep(arguments.between_looks);
        }
    }
    Ok(held)
}

/// Releases these addresses, or only shows them. Each is printed when it is released: what fails is
/// the last to be said.
fn release(
    store: &mut dyn Inventory,
    held: &[Held],
    arguments: &NodeForgetArguments,
    context: &Context<'_>,
) -> Result<bool> {
    let row = |held: &Held, outcome| {
        let holder = held.holder.clone();
        holder.map(|holder| AddressOutcome::new(&held.key, holder, outcome))
    };
    if !arguments.yes {
        let shown = held.iter().filter_map(|held| row(held, "would-release"));
        let rows: Vec<AddressOutcome> = shown.collect();
        print(&rows, context)?;
        if !rows.is_empty() {
            let risk = "if their containers still run, others will get their addresses";
            warn(format!("{risk}: --yes releases them"));
        }
        return Ok(!rows.is_empty());
    }
    let mut rows = Vec::new();
    let mut printed = Ok(false);
    let outcome = release_each(store, held, |released| {
        let new = row(released, "released");
        if !context.json && printed.is_ok() {
            printed = print(new.as_slice(), context);
        }
        rows.extend(new);
    });
    printed?;
    if context.json {
        print(&rows, context)?;
    }
    outcome?;
    Ok(false)
}
