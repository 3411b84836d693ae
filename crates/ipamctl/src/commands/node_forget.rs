//! `ipamctl node-forget`: releases the addresses of a cluster's node that is gone.
//!
//! No timeout does this, since the node may only be cut off.

use std::collections::BTreeSet;
use std::thread::sleep;

use anyhow::{Result, ensure};
use cluster::{Held, Inventory, release_each, until_answered};
use kubernetes::Kubernetes;

use super::cluster_row::{Row, print};
use crate::Context;
use crate::arguments::NodeForgetArguments;
use crate::clusters::{Cluster, of_person};
use crate::output::{joined, warn};

pub(crate) fn run(arguments: &NodeForgetArguments, context: &Context<'_>) -> Result<bool> {
    let Some(name) = &arguments.node else {
        let store = &mut of_person(context.places.kubeconfig.as_ref())?;
        let held = of_deleted_nodes(store, arguments)?;
        return release(store, held, arguments, context);
    };
    let cluster = Cluster::one(context)?;
    let store = &mut *cluster.open()?;
    let mut held = until_answered(store, |store| store.addresses())?;
    let machine = &arguments.machine;
    held.retain(|held| {
        let holder = held.holder.as_ref().filter(|holder| holder.node == *name);
        holder.is_some_and(|holder| machine.is_none() || holder.machine == *machine)
    });
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
    release(store, held, arguments, context)
}

/// What the first look has found at nodes that have no Node object at both looks.
fn of_deleted_nodes(
    store: &mut Kubernetes<'_>,
    arguments: &NodeForgetArguments,
) -> Result<Vec<Held>> {
    // The addresses first: a node that is added meanwhile isn't among them.
    let mut held = until_answered(store, |store| store.addresses())?;
    for look in 1..=2 {
        let known = until_answered(store, |store| store.nodes())?;
        ensure!(
            !known.is_empty(),
            "the cluster has no Node at all: nothing is released"
        );
        held.retain(|held| {
            let mut holder = held.holder.iter();
            holder.any(|holder| !known.contains(&holder.node))
        });
        if look == 1 && arguments.yes && !held.is_empty() {
            let number = held.len();
            warn(format!(
                "{number} addresses of nodes without a Node object: looking again"
            ));
            sleep(arguments.between_looks);
        }
    }
    Ok(held)
}

/// Releases these addresses, or only shows them.
fn release(
    store: &mut dyn Inventory,
    held: Vec<Held>,
    arguments: &NodeForgetArguments,
    context: &Context<'_>,
) -> Result<bool> {
    let outcome = if arguments.yes {
        release_each(store, &held)?;
        "released"
    } else {
        "would-release"
    };
    let row = |held: Held| Some(Row::new(&held.key, held.holder?, outcome));
    let rows: Vec<Row> = held.into_iter().filter_map(row).collect();
    print(&rows, context.output)?;
    let is_only_shown = !arguments.yes && !rows.is_empty();
    if is_only_shown {
        warn("if their containers still run, others will get their addresses: --yes releases them");
    }
    Ok(is_only_shown)
}
