//! `ipamctl leaks`: attachments that nobody will release, each with the evidence.

use std::collections::BTreeMap;
use std::net::IpAddr;

use anyhow::Result;
use serde::Serialize;

use crate::arguments::LeaksArguments;
use crate::commands::gc::listable;
use crate::commands::ls::short;
use crate::exit_status::Status;
use crate::leaks::container_list::Valid;
use crate::leaks::evidence::{Evidence, Evidences, is_proven};
use crate::leaks::record_lock::Lock;
use crate::node::Node;
use crate::node::attachment::{Attached, attached};
use crate::node::inventory::{Extent, Inventory};
use crate::output::table::{Align, Table};
use crate::output::times::{rfc3339, rounded};
use crate::output::{Output, Style, warn};
use crate::release::printed_command;

/// A leak. The keys are documented, and don't change their meaning.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    network: String,
    #[serde(rename = "containerID")]
    container: String,
    ifname: Option<String>,
    addresses: Vec<IpAddr>,
    names: BTreeMap<String, String>,
    since: Option<String>,
    evidence: Vec<&'static str>,
    evidence_text: Vec<String>,
    /// True if a process holds the attachment's lock; `null` if that is unknown.
    locked: Option<bool>,
    /// These processes.
    locked_by: Vec<String>,
    release: String,
}

pub(crate) fn run(arguments: &LeaksArguments, node: &Node, output: Output) -> Result<Status> {
    let valid = match &arguments.valid {
        Some(file) => Some(Valid::read(file, arguments.none_valid)?),
        None => None,
    };
    let inventory = Inventory::read(node, Extent::All);
    inventory.warn();
    let all = attached(inventory.holdings());
    if let Some(valid) = &valid {
        valid.refuse_wrong_ids(&listable(&all))?;
    }
    let evidences = Evidences::new(valid.as_ref(), arguments.older_than, &node.environment);
    let found: Vec<(&Attached<'_>, Vec<Evidence>)> = all
        .iter()
        .map(|it| (it, evidences.of(it)))
        .filter(|(_, evidence)| !evidence.is_empty())
        .collect();
    let proven = found
        .iter()
        .filter(|(_, evidence)| is_proven(evidence))
        .count();
    if output.json {
        let rows: Vec<Row> = found
            .iter()
            .map(|(it, evidence)| row(it, evidence, node))
            .collect();
        Output::json(&rows)?;
    } else if found.is_empty() {
        let unless = if inventory.is_whole() {
            ""
        } else {
            " in what could be read"
        };
        output.lines([format!("No leak is known{unless}.")])?;
    } else {
        output.table(&table(&found, &evidences))?;
        output.lines(remedies(&found, node))?;
        let unknown = found.len() - proven;
        if unknown > 0 && valid.is_none() {
            warn(&format!(
                "{unknown} of {} can't be judged without a list of the containers: --valid FILE",
                all.len()
            ));
        }
    }
    inventory.verdict(Status::of(proven > 0))
}

fn row(it: &Attached<'_>, evidence: &[Evidence], node: &Node) -> Row {
    let lock = Lock::of(it);
    Row {
        network: it.network.to_owned(),
        container: it.container.to_owned(),
        ifname: it.ifname.map(str::to_owned),
        addresses: it.addresses().collect(),
        names: it.names().pairs().clone(),
        since: it.last_change().map(rfc3339),
        evidence: evidence.iter().map(Evidence::key).collect(),
        evidence_text: evidence.iter().map(Evidence::text).collect(),
        locked: lock.is_held(),
        locked_by: match lock {
            Lock::Held(holders) => holders,
            Lock::Free | Lock::Unknown(_) => Vec::new(),
        },
        release: printed_command::release(node, it),
    }
}

/// What releases the leaks, a line each: whole, so that it can be copied.
fn remedies(found: &[(&Attached<'_>, Vec<Evidence>)], node: &Node) -> Vec<String> {
    let (mut commands, mut of_docker, mut of_others) = (Vec::new(), false, false);
    for (it, evidence) in found {
        if is_proven(evidence) {
            commands.push(format!("  {}", printed_command::release(node, it)));
        } else if it.docker().is_some() {
            of_docker = true;
        } else {
            of_others = true;
        }
    }
    let mut lines = Vec::new();
    if !commands.is_empty() {
        lines.extend([String::new(), "To release them:".to_owned()]);
        lines.extend(commands);
    }
    if of_others || of_docker {
        lines.push(String::new());
    }
    if of_others {
        lines
            .push("Unknown ones, if their containers are gone: ipamctl gc --valid FILE".to_owned());
    }
    if of_docker {
        lines.push("Unknown ones, if Docker doesn't have them: ipamctl gc --docker".to_owned());
    }
    lines
}

fn table(found: &[(&Attached<'_>, Vec<Evidence>)], evidences: &Evidences<'_>) -> Table {
    let mut table = Table::new(&[
        ("ADDRESS", Align::Left),
        ("NETWORK", Align::Left),
        ("CONTAINER", Align::Left),
        ("AGE", Align::Left),
        ("NAME", Align::Left),
        ("EVIDENCE", Align::Left),
    ]);
    for (it, evidence) in found {
        let age = it
            .last_change()
            .and_then(|time| evidences.now.duration_since(time).ok());
        let mut texts: Vec<String> = evidence.iter().map(Evidence::text).collect();
        texts.extend(Lock::of(it).reason());
        table.row(
            Some(if is_proven(evidence) {
                Style::Yellow
            } else {
                Style::Dim
            }),
            [
                it.addresses_text(),
                it.network.to_owned(),
                short(it.container).to_owned(),
                age.map_or_else(|| "?".to_owned(), rounded),
                it.names().short(),
                texts.join("; "),
            ],
        );
    }
    table
}
