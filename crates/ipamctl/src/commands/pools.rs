//! `ipamctl pools`: size of each pool, and how full it is.

use anyhow::{Result, ensure};

use crate::context::Context;
use crate::node::{Extent, Inventory, PoolUsage, large, pool_usages};
use crate::output::table::Table;
use crate::output::{Output, Style, joined, warn};

/// Cells of a bar.
const BAR: usize = 10;

pub(crate) fn run(network: Option<&str>, context: &Context<'_>) -> Result<bool> {
    let output = context.output;
    let inventory = Inventory::read(&context.node(), Extent::Pools);
    let mut pools = pool_usages(&inventory);
    if let Some(name) = network {
        pools.retain(|pool| pool.is_of(name));
        ensure!(!pools.is_empty(), "no network and no pool is named {name}");
    }
    if pools.is_empty() && !output.json {
        warn("no network's addresses are kept here, and no conflist has a pool");
    } else {
        output.print(&pools, || table(&pools, output))?;
    }
    inventory.verdict(false)
}

fn table(pools: &[PoolUsage], output: Output) -> Vec<String> {
    let text = |value: &Option<String>, missing: &str| value.clone().unwrap_or(missing.to_owned());
    let count = |value: Option<u128>| value.map_or("?".to_owned(), large);
    Table::of(pools)
        .text("NETWORK", |pool| joined(&pool.networks, ","))
        .text("POOL", |pool| text(&pool.pool, ""))
        .text("RANGES", |pool| text(&pool.ranges, "not configured"))
        .number("SIZE", |pool| count(pool.size))
        .number("RESERVED", |pool| count(pool.reserved))
        .number("FREE", |pool| count(pool.free))
        .number("EXCLUDED", |pool| {
            let excluded = pool.excluded.filter(|excluded| *excluded > 0);
            excluded.map(large).unwrap_or_default()
        })
        .text("USED", |pool| pool.used.map(bar).unwrap_or_default())
        .lines(output, |pool| match pool.used {
            Some(used) if used >= 1.0 => Some(Style::Red),
            Some(used) if used >= 0.9 => Some(Style::Yellow),
            _ => None,
        })
}

/// A bar and a percentage. Only a full pool has 100 %, and only an empty one has 0 %.
fn bar(used: f64) -> String {
    const PARTS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "from 0 to 80"
    )]
    let eighths = (used * (8 * BAR) as f64).round() as usize;
    let eighths = eighths.clamp(usize::from(used > 0.0), 8 * BAR);
    let mut bar = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        bar.push(PARTS[eighths % 8]);
    }
    let percent = match used {
        0.0 => "0 %".to_owned(),
        used if used < 0.01 => "< 1 %".to_owned(),
        used if used >= 1.0 => "100 %".to_owned(),
        used => format!("{} %", (used * 100.0).floor().min(99.0)),
    };
    format!("▕{bar:<BAR$}▏ {percent}")
}
