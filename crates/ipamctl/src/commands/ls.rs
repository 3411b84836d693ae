//! `ipamctl ls`: who holds what.

mod all_nodes;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::SystemTime;

use anyhow::{Result, bail};
use serde::Serialize;

use crate::arguments::LsArguments;
use crate::exit_status::Status;
use crate::node::Node;
use crate::node::held_address::{Holding, HoldingState};
use crate::node::inventory::{Extent, Inventory};
use crate::output::table::{Align, Table};
use crate::output::times::{ago, rfc3339};
use crate::output::{Output, Style, warn};

/// Characters of a container ID that are shown, as by the runtimes' own commands.
const SHORT: usize = 12;

/// A holding. The keys are documented, and don't change their meaning.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    pub(crate) address: Option<IpAddr>,
    pub(crate) network: Option<String>,
    pub(crate) pool: Option<String>,
    #[serde(rename = "containerID")]
    pub(crate) container: Option<String>,
    pub(crate) ifname: Option<String>,
    pub(crate) since: Option<String>,
    pub(crate) state: &'static str,
    pub(crate) names: BTreeMap<String, String>,
    pub(crate) record: Option<String>,
}

impl From<&Holding<'_>> for Row {
    fn from(it: &Holding<'_>) -> Self {
        Self {
            address: it.ip,
            network: it.network.map(str::to_owned),
            pool: it.pool_name().map(str::to_owned),
            container: it.container.map(str::to_owned),
            ifname: it.ifname.map(str::to_owned),
            since: it.since.map(rfc3339),
            state: it.state.as_str(),
            names: it.names().pairs().clone(),
            record: it.record.map(|it| it.listed.file.display().to_string()),
        }
    }
}

pub(crate) fn run(arguments: &LsArguments, node: &Node, output: Output) -> Result<Status> {
    if arguments.all_nodes {
        return all_nodes::run(arguments, node, output);
    }
    let inventory = Inventory::read(node, Extent::All);
    inventory.warn();
    let network = arguments.network.as_deref();
    let holdings = inventory.holdings_of(network);
    if let Some(name) = network
        && holdings.is_empty()
        && node.network(name).is_none()
        && !inventory.pools.all.iter().any(|it| it.name() == Some(name))
        && !inventory
            .directories
            .iter()
            .any(|it| it.name.as_str() == name)
    {
        bail!("no network and no pool is named {name}");
    }
    if output.json {
        let rows: Vec<Row> = holdings.iter().map(Row::from).collect();
        Output::json(&rows)?;
        return inventory.verdict(Status::Fine);
    }
    if holdings.is_empty() {
        warn("no address is reserved");
        return inventory.verdict(Status::Fine);
    }
    output.table(&table(&holdings, arguments.no_trunc))?;
    inventory.verdict(Status::Fine)
}

fn table(holdings: &[Holding<'_>], no_trunc: bool) -> Table {
    let now = SystemTime::now();
    let mut table = Table::new(&[
        ("ADDRESS", Align::Left),
        ("NETWORK", Align::Left),
        ("POOL", Align::Left),
        ("CONTAINER", Align::Left),
        ("IF", Align::Left),
        ("SINCE", Align::Left),
        ("NAME", Align::Left),
        ("STATE", Align::Left),
    ]);
    for it in holdings {
        let container = it.container.unwrap_or("?");
        let style = match it.state {
            HoldingState::Added | HoldingState::Reserved => None,
            _ => Some(Style::Yellow),
        };
        table.row(
            style,
            [
                it.ip.map_or_else(|| "-".to_owned(), |ip| ip.to_string()),
                it.network.unwrap_or("?").to_owned(),
                it.pool_name().unwrap_or_default().to_owned(),
                if no_trunc {
                    container
                } else {
                    short(container)
                }
                .to_owned(),
                it.ifname.unwrap_or("-").to_owned(),
                it.since
                    .map_or_else(|| "?".to_owned(), |since| ago(since, now)),
                it.names().short(),
                it.state.as_str().to_owned(),
            ],
        );
    }
    table
}

/// The beginning of a container ID, long enough for people.
pub(crate) fn short(container: &str) -> &str {
    container.get(..SHORT).unwrap_or(container)
}
