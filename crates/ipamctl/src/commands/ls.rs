//! `ipamctl ls`: who holds which address.

use std::time::SystemTime;

use anyhow::Result;

use crate::Context;
use crate::arguments::LsArguments;
use crate::inventory::{HeldAddress, Inventory, Nodes, short_id};
use crate::output::table::Table;
use crate::output::times::ago;
use crate::output::warn;

pub(crate) fn run(arguments: &LsArguments, context: &Context<'_>) -> Result<bool> {
    let node = &context.node();
    let nodes = if arguments.all_nodes {
        Nodes::All
    } else {
        Nodes::This
    };
    let inventory = Inventory::read(node, nodes);
    let name = arguments.network.as_deref();
    if let Some(name) = name {
        inventory.must_know(node, name)?;
    }
    let is_wanted = |held: &&HeldAddress| name.is_none_or(|name| held.is_of(name));
    let rows: Vec<&HeldAddress> = inventory.held.iter().filter(is_wanted).collect();
    if rows.is_empty() {
        warn("no address is reserved");
    }
    let lines = || table(&rows, arguments).lines();
    context.print(&rows, lines)?;
    inventory.verdict(false)
}

fn table<'r>(rows: &'r [&HeldAddress], arguments: &'r LsArguments) -> Table<'r, &'r HeldAddress> {
    let now = SystemTime::now();
    let text = |value: &Option<String>, missing: &str| value.clone().unwrap_or(missing.to_owned());
    Table::of(rows)
        .text("ADDRESS", |held| {
            held.ip.map_or("-".to_owned(), |ip| ip.to_string())
        })
        .text("NETWORK", move |held| text(&held.network, "?"))
        .text("POOL", move |held| text(&held.pool, ""))
        .text("NODE", move |held| text(&held.node, ""))
        .text("OWNER", move |held| text(&held.owner, ""))
        .text("CONTAINER", move |held| match &held.container {
            Some(id) if !arguments.no_trunc => short_id(id).to_owned(),
            id => text(id, "?"),
        })
        .text("IF", move |held| text(&held.ifname, "-"))
        .text("SINCE", move |held| match held.since {
            Some(since) => ago(since, now),
            None => "?".to_owned(),
        })
        .text("NAME", |held| held.names.short())
        .text("STATE", |held| held.state.to_string())
}
