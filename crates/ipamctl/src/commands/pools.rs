//! `ipamctl pools`: size of each pool, and how full it is.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use cni::NetworkName;
use serde::Serialize;

use crate::arguments::PoolsArguments;
use crate::exit_status::Status;
use crate::node::Node;
use crate::node::inventory::{Directory, Extent, Inventory};
use crate::node::usage::Usage;
use crate::output::table::{Align, Table};
use crate::output::{Output, Style, warn};

/// Cells of a bar.
const BAR: usize = 10;

/// A pool. The keys are documented, and don't change their meaning.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    /// The networks that use it.
    pub(crate) networks: Vec<NetworkName>,
    /// Its name, if it has one.
    pub(crate) pool: Option<String>,
    /// The directory of its reservations.
    pub(crate) directory: String,
    /// Its ranges; `null` if no configuration says them.
    pub(crate) ranges: Option<String>,
    /// Addresses that are given without request, as text, since IPv6 pools are large.
    #[serde(serialize_with = "number")]
    pub(crate) size: Option<u128>,
    /// Reserved ones of these.
    #[serde(serialize_with = "number")]
    pub(crate) reserved: Option<u128>,
    /// Free ones of these.
    #[serde(serialize_with = "number")]
    pub(crate) free: Option<u128>,
    /// Excluded addresses.
    #[serde(serialize_with = "number")]
    pub(crate) excluded: Option<u128>,
    /// Reserved excluded addresses, which were requested.
    #[serde(serialize_with = "number")]
    pub(crate) excluded_reserved: Option<u128>,
    /// Reserved part of the size, from 0 to 1.
    pub(crate) used: Option<f64>,
}

/// A number that JSON readers take for what it is: beyond 2^53, it is text.
fn number<S: serde::Serializer>(value: &Option<u128>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        None => serializer.serialize_none(),
        Some(value) => match u64::try_from(*value) {
            Ok(small) if small <= 1 << 53 => serializer.serialize_u64(small),
            _ => serializer.serialize_str(&value.to_string()),
        },
    }
}

pub(crate) fn run(arguments: &PoolsArguments, node: &Node, output: Output) -> Result<Status> {
    let inventory = Inventory::read(node, Extent::Pools);
    inventory.warn();
    let mut rows = rows(&inventory);
    if let Some(name) = &arguments.network {
        rows.retain(|row| row.is_of(name));
        if rows.is_empty() {
            bail!("no network and no pool is named {name}");
        }
    }
    if output.json {
        Output::json(&rows)?;
        return inventory.verdict(Status::Fine);
    }
    if rows.is_empty() {
        warn("no network's addresses are kept here, and no conflist has a pool");
        return inventory.verdict(Status::Fine);
    }
    output.table(&table(&rows))?;
    inventory.verdict(Status::Fine)
}

/// The pools of a node; a directory whose pools nobody configures is one, too.
pub(crate) fn rows(inventory: &Inventory) -> Vec<Row> {
    let mut rows: Vec<Row> = inventory
        .pools
        .all
        .iter()
        .map(|placed| {
            let usage = Usage::of(&placed.pool.ranges, inventory.taken(&placed.directory));
            let is_known = !inventory.is_unreadable(&placed.directory);
            Row {
                networks: placed.networks.clone(),
                pool: placed.name().map(str::to_owned),
                directory: placed.directory.display().to_string(),
                ranges: Some(placed.pool.ranges.to_string()),
                size: Some(usage.size),
                reserved: Some(usage.reserved).filter(|_| is_known),
                free: Some(usage.free()).filter(|_| is_known),
                excluded: Some(usage.excluded),
                excluded_reserved: Some(usage.excluded_reserved).filter(|_| is_known),
                used: Some(usage.ratio()).filter(|_| is_known),
            }
        })
        .collect();
    let directories = inventory.directories.iter();
    for directory in directories.filter(|it| !inventory.is_configured(&it.path)) {
        let (networks, is_named) = match &directory.shared_by {
            Some(networks) => (networks.clone(), true),
            None => networks_in(directory),
        };
        rows.push(Row {
            networks,
            pool: is_named.then(|| directory.name.to_string()),
            directory: directory.path.display().to_string(),
            ranges: None,
            size: None,
            reserved: Some(directory.taken.len() as u128),
            free: None,
            excluded: None,
            excluded_reserved: None,
            used: None,
        });
    }
    rows
}

/// The networks that a directory of this node has addresses of, and whether it is a named
/// pool's.
fn networks_in(directory: &Directory) -> (Vec<NetworkName>, bool) {
    let networks: BTreeSet<NetworkName> = directory
        .listed
        .iter()
        .filter_map(|it| it.network.as_deref()?.parse().ok())
        .collect();
    let mut networks: Vec<NetworkName> = networks.into_iter().collect();
    if networks.is_empty() {
        networks.push(directory.name.clone());
    }
    let is_named = !networks.contains(&directory.name);
    (networks, is_named)
}

impl Row {
    pub(crate) fn is_of(&self, name: &str) -> bool {
        self.pool.as_deref() == Some(name) || self.networks.iter().any(|it| it.as_str() == name)
    }
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(&[
        ("NETWORK", Align::Left),
        ("POOL", Align::Left),
        ("RANGES", Align::Left),
        ("SIZE", Align::Right),
        ("RESERVED", Align::Right),
        ("FREE", Align::Right),
        ("EXCLUDED", Align::Right),
        ("USED", Align::Left),
    ]);
    for row in rows {
        let count = |value: Option<u128>| value.map_or_else(|| "?".to_owned(), large);
        let networks: Vec<&str> = row.networks.iter().map(NetworkName::as_str).collect();
        table.row(
            row.used.and_then(style),
            [
                networks.join(","),
                row.pool.clone().unwrap_or_default(),
                row.ranges
                    .clone()
                    .unwrap_or_else(|| "not configured".to_owned()),
                count(row.size),
                count(row.reserved),
                count(row.free),
                row.excluded
                    .filter(|it| *it > 0)
                    .map(large)
                    .unwrap_or_default(),
                row.used.map(bar).unwrap_or_default(),
            ],
        );
    }
    table
}

/// The number; one of more than nine digits as a power of two.
pub(crate) fn large(value: u128) -> String {
    if value < 1_000_000_000 {
        return value.to_string();
    }
    let exponent = value.ilog2();
    if value.is_power_of_two() {
        format!("2^{exponent}")
    } else if value.saturating_add(value / 1000).ilog2() > exponent || value == u128::MAX {
        format!("~2^{}", exponent + 1)
    } else {
        format!("~2^{exponent}")
    }
}

/// A bar and a percentage. No address is left at 100 % alone, and none is taken at 0 %
/// alone.
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
    let empty = BAR - bar.chars().count();
    let percent = match used {
        0.0 => "0 %".to_owned(),
        it if it < 0.01 => "< 1 %".to_owned(),
        it if it >= 1.0 => "100 %".to_owned(),
        it => format!("{} %", (it * 100.0).floor().min(99.0)),
    };
    format!("▕{bar}{}▏ {percent}", " ".repeat(empty))
}

/// The style of a pool that is this full.
fn style(used: f64) -> Option<Style> {
    match used {
        it if it >= 1.0 => Some(Style::Red),
        it if it >= 0.9 => Some(Style::Yellow),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_are_powers_of_two() {
        assert_eq!(large(65_533), "65533");
        assert_eq!(large(1 << 64), "2^64");
        assert_eq!(large((1 << 64) - 2), "~2^64");
        assert_eq!(large(u128::MAX), "~2^128");
        assert_eq!(large((1 << 40) + 9), "~2^40");
    }
}
