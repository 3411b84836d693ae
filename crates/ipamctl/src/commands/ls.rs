//! `ipamctl ls`: who holds which address, by network or pool; with `--all-nodes`, in the whole cluster.

use std::time::SystemTime;

use anyhow::Result;

use crate::Context;
use crate::arguments::LsArguments;
use crate::inventory::{Inventory, NodeScope, Row, short_id};
use crate::output::table::Table;
use crate::output::times::ago;
use crate::output::{text_or, warn};

pub(crate) fn run(arguments: &LsArguments, context: &Context<'_>) -> Result<bool> {
    let node = &context.node();
    let nodes = if arguments.all_nodes {
        NodeScope::AllNodes
    } else {
        NodeScope::ThisNode
    };
    let inventory = Inventory::read(node, nodes);
    let name = arguments.network.as_deref();
    if let Some(name) = name {
        inventory.refuse_unknown_name(node, name)?;
    }
    let is_wanted = |row: &&Row| name.is_none_or(|name| row.matches_name(name));
    let rows: Vec<&Row> = inventory.rows.iter().filter(is_wanted).collect();
    if rows.is_empty() && inventory.unread == 0 {
        warn("no address is reserved");
    }
    let lines = || table(&rows, arguments).lines();
    context.print(&rows, lines)?;
    inventory.verdict(false)
}

fn table<'r>(rows: &'r [&Row], arguments: &'r LsArguments) -> Table<'r, &'r Row> {
    let now = SystemTime::now();
    let age = move |row: &Row| row.since.map(|since| ago(since, now));
    Table::of(rows)
        .text("ADDRESS", |row| text_or(&row.ip, "-"))
        .text("NETWORK", |row| text_or(&row.network, "?"))
        .text("POOL", |row| text_or(&row.pool, ""))
        .text("NODE", |row| text_or(&row.node, ""))
        .text("OWNER", |row| text_or(&row.owner, ""))
        .text("CONTAINER", |row| match &row.container {
            Some(id) if !arguments.no_trunc => short_id(id).to_owned(),
            id => text_or(id, "?"),
        })
        .text("IF", |row| text_or(&row.ifname, "-"))
        .text("SINCE", move |row| text_or(&age(row), "?"))
        .text("NAME", |row| row.names.short())
        .text("STATE", |row| row.state.to_string())
}
