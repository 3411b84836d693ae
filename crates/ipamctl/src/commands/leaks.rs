//! `ipamctl leaks`: attachments that nobody will release, each with the evidence.

use std::collections::BTreeMap;
use std::net::IpAddr;

use anyhow::Result;
use serde::Serialize;

use crate::age::{rfc3339, rounded};
use crate::arguments::LeaksArguments;
use crate::attached::{Attached, attached};
use crate::commands::Status;
use crate::commands::gc::listable;
use crate::commands::ls::short;
use crate::container_id::is_made_by_a_program;
use crate::evidence::{Evidence, Evidences};
use crate::inventory::{Extent, Inventory};
use crate::node::Node;
use crate::output::{Output, Style, warn};
use crate::table::{Align, Table};
use crate::valid::Valid;

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
    /// True if a call works on the attachment now.
    locked: bool,
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
            .map(|(it, evidence)| row(it, evidence, &all))
            .collect();
        Output::json(&rows)?;
    } else if found.is_empty() {
        let unless = if inventory.problems.is_empty() {
            ""
        } else {
            " in what could be read"
        };
        output.lines([format!("No leak is known{unless}.")])?;
    } else {
        output.table(&table(&found, &all, &evidences))?;
        let unknown = found.len() - proven;
        if unknown > 0 && valid.is_none() {
            warn(&format!(
                "{unknown} of {} can't be judged without a list of the containers: --valid FILE",
                all.len()
            ));
        }
    }
    inventory.verdict(if proven > 0 {
        Status::Found
    } else {
        Status::Fine
    })
}

fn is_proven(evidence: &[Evidence]) -> bool {
    evidence.iter().any(Evidence::is_proof)
}

fn row(it: &Attached<'_>, evidence: &[Evidence], all: &[Attached<'_>]) -> Row {
    Row {
        network: it.network.to_owned(),
        container: it.container.to_owned(),
        ifname: it.ifname.map(str::to_owned),
        addresses: it.addresses().collect(),
        names: it.names().pairs().clone(),
        since: it.last_change().map(rfc3339),
        evidence: evidence.iter().map(Evidence::key).collect(),
        evidence_text: evidence.iter().map(Evidence::text).collect(),
        locked: is_locked(it),
        release: release(it, all),
    }
}

/// True if a call works on the attachment now.
pub(crate) fn is_locked(it: &Attached<'_>) -> bool {
    let file = it.record.map(|record| &record.listed.file);
    file.is_some_and(|file| chain::tools::is_locked(file).unwrap_or(false))
}

/// The command that releases it, and nothing else.
fn release(it: &Attached<'_>, all: &[Attached<'_>]) -> String {
    let is_elsewhere = all
        .iter()
        .any(|other| other.container == it.container && other.network != it.network);
    if let Some(ip) = it.addresses().next().filter(|_| is_elsewhere) {
        return format!("ipamctl release {} {ip}", it.network);
    }
    let is_unique = |beginning: &str| {
        let mut others = all.iter().filter(|other| other.container != it.container);
        !others.any(|other| other.container.starts_with(beginning))
    };
    let beginning = short(it.container);
    if is_made_by_a_program(it.container) && is_unique(beginning) {
        return format!("ipamctl release {beginning}");
    }
    format!("ipamctl release {}", it.container)
}

fn table(
    found: &[(&Attached<'_>, Vec<Evidence>)],
    all: &[Attached<'_>],
    evidences: &Evidences<'_>,
) -> Table {
    let mut table = Table::new(&[
        ("ADDRESS", Align::Left),
        ("NETWORK", Align::Left),
        ("CONTAINER", Align::Left),
        ("AGE", Align::Left),
        ("NAME", Align::Left),
        ("EVIDENCE", Align::Left),
        ("RELEASED BY", Align::Left),
    ]);
    for (it, evidence) in found {
        let age = it
            .last_change()
            .and_then(|time| evidences.now.duration_since(time).ok());
        let texts: Vec<String> = evidence.iter().map(Evidence::text).collect();
        let is_proven = is_proven(evidence);
        let by = match (is_proven, is_locked(it)) {
            (_, true) => "nothing yet: a call is running".to_owned(),
            (true, false) => release(it, all),
            (false, false) if it.docker().is_some() => {
                "ipamctl gc --docker, if Docker doesn't have it".to_owned()
            }
            (false, false) => "ipamctl gc --valid, if its container is gone".to_owned(),
        };
        table.row(
            Some(if is_proven { Style::Yellow } else { Style::Dim }),
            [
                it.addresses_text(),
                it.network.to_owned(),
                short(it.container).to_owned(),
                age.map_or_else(|| "?".to_owned(), rounded),
                it.names().short(),
                texts.join("; "),
                by,
            ],
        );
    }
    table
}
