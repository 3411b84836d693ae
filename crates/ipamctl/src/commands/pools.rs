//! `ipamctl pools`: size of each pool, and how full it is, also of directories that no conflist names.

use anyhow::Result;

use crate::Context;
use crate::inventory::{Inventory, NodeScope};
use crate::output::table::Table;
use crate::output::{joined, text_or, warn};
use crate::usage::{PoolUsage, count_text, number_text, usages};

/// Cells of a bar.
const BAR: usize = 10;

pub(crate) fn run(network: Option<&str>, context: &Context<'_>) -> Result<bool> {
    let node = &context.node();
    let inventory = Inventory::read(node, NodeScope::CountsOnly);
    let mut pools = usages(&inventory);
    if let Some(name) = network {
        inventory.refuse_unknown_name(node, name)?;
        let serves = |usage: &PoolUsage| usage.networks.iter().any(|network| network == name);
        pools.retain(|usage| usage.pool.as_deref() == Some(name) || serves(usage));
    }
    if pools.is_empty() && inventory.unread == 0 {
        warn("no network's addresses are kept here, and no conflist has a pool");
    }
    context.print(&pools, || table(&pools))?;
    inventory.verdict(false)
}

fn table(pools: &[PoolUsage]) -> impl Iterator<Item = String> {
    Table::of(pools)
        .text("NETWORK", |pool| joined(&pool.networks, ","))
        .text("POOL", |pool| text_or(&pool.pool, ""))
        .text("RANGES", |pool| text_or(&pool.ranges, "not configured"))
        .number("SIZE", |pool| count_text(pool.size))
        .number("RESERVED", |pool| count_text(pool.reserved))
        .number("FREE", |pool| count_text(pool.free))
        .number("EXCLUDED", |pool| {
            let excluded = pool.excluded.filter(|excluded| *excluded > 0);
            text_or(&excluded.map(number_text), "")
        })
        .text("USED", |pool| {
            text_or(&pool.reserved.zip(pool.size).map(bar), "")
        })
        .lines()
}

/// A bar and a percentage. Only a full pool has 100 %; one without addresses is full.
fn bar((reserved, size): (u128, u128)) -> String {
    let share = (reserved * 100).checked_div(size).unwrap_or(100);
    let percent = usize::try_from(share).unwrap_or(100);
    let full = "█".repeat(percent * BAR / 100);
    format!("{full:·<BAR$} {percent:3} %")
}
