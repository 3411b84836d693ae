//! `ipamctl leaks`: attachments that nobody will release, each with the evidence.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::Result;
use serde::Serialize;

use crate::arguments::ListArguments;
use crate::leaks::container_list::ContainerList;
use crate::leaks::evidence::{Evidence, Judge, is_proven};
use crate::leaks::record_lock::Lock;
use crate::node::{
    Extent, Inventory, Names, NetworkAttachment, Node, attachments, held_addresses, short_id,
};
use crate::output::table::Table;
use crate::output::times::{self, rounded};
use crate::output::{Output, Style, joined, warn};
use crate::release::printed_command::release_command;

/// A leak. The keys are documented, and don't change their meaning.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Leak<'a> {
    #[serde(flatten)]
    attachment: &'a NetworkAttachment<'a>,
    names: &'a Names,
    #[serde(serialize_with = "times::serialize")]
    since: Option<SystemTime>,
    evidence: Vec<&'static str>,
    evidence_text: Vec<String>,
    /// True if a process holds the attachment's lock; `null` if that is unknown.
    locked: Option<bool>,
    /// These processes.
    locked_by: Vec<String>,
    /// The command that releases it.
    release: String,
    /// The reason not to release it: its lock.
    #[serde(skip)]
    lock_reason: Option<String>,
    #[serde(skip)]
    is_proven: bool,
}

impl<'a> Leak<'a> {
    fn new(attachment: &'a NetworkAttachment<'a>, evidence: &[Evidence], node: &Node) -> Self {
        let lock = Lock::of(attachment);
        Self {
            attachment,
            names: attachment.names(),
            since: attachment.last_change(),
            evidence: evidence.iter().map(|evidence| evidence.key).collect(),
            evidence_text: evidence
                .iter()
                .map(|evidence| evidence.text.clone())
                .collect(),
            locked: lock.is_held,
            locked_by: lock.holders,
            release: release_command(node, attachment),
            lock_reason: lock.reason,
            is_proven: is_proven(evidence),
        }
    }
}

pub(crate) fn run(list: &ListArguments, node: &Node, output: Output) -> Result<ExitCode> {
    let valid = ContainerList::given(list)?;
    let inventory = Inventory::read(node, Extent::All);
    let all = attachments(held_addresses(&inventory));
    if let Some(valid) = &valid {
        valid.refuse_wrong_ids(&all)?;
    }
    let judge = Judge::new(valid.as_ref(), list.older_than, &node.environment);
    let mut leaks = Vec::new();
    for attachment in &all {
        let evidence = judge.evidence(attachment);
        if !evidence.is_empty() {
            leaks.push(Leak::new(attachment, &evidence, node));
        }
    }
    output.print(&leaks, || {
        if leaks.is_empty() {
            let unread = inventory.unread > 0;
            let unless = if unread { " in what could be read" } else { "" };
            return vec![format!("No leak is known{unless}.")];
        }
        let mut lines = table(&leaks).lines(output);
        lines.extend(remedies(&leaks));
        lines
    })?;
    let proven = leaks.iter().filter(|leak| leak.is_proven).count();
    let unknown = leaks.len() - proven;
    if unknown > 0 && valid.is_none() && !output.json {
        warn(format!(
            "{unknown} of {} can't be judged without a list of the containers: --valid FILE",
            all.len()
        ));
    }
    inventory.verdict(proven > 0)
}

/// The commands that release the leaks, a line each: whole, so that they can be copied.
fn remedies(leaks: &[Leak<'_>]) -> Vec<String> {
    let mut lines = Vec::new();
    if leaks.iter().any(|leak| leak.is_proven) {
        lines.extend([String::new(), "To release them:".to_owned()]);
        let proven = leaks.iter().filter(|leak| leak.is_proven);
        lines.extend(proven.map(|leak| format!("  {}", leak.release)));
    }
    let unknown = leaks.iter().filter(|leak| !leak.is_proven);
    let is_dockers: BTreeSet<bool> = unknown
        .map(|leak| leak.attachment.docker().is_some())
        .collect();
    if !is_dockers.is_empty() {
        lines.push(String::new());
    }
    lines.extend(is_dockers.into_iter().map(|is_dockers| match is_dockers {
        false => "Unknown ones, if their containers are gone: ipamctl gc --valid FILE".to_owned(),
        true => "Unknown ones, if Docker doesn't have them: ipamctl gc --docker".to_owned(),
    }));
    lines
}

fn table(leaks: &[Leak<'_>]) -> Table {
    let header = &["ADDRESS", "NETWORK", "CONTAINER", "AGE", "NAME", "EVIDENCE"];
    let mut table = Table::new(header);
    for leak in leaks {
        let style = match leak.is_proven {
            true => Style::Yellow,
            false => Style::Dim,
        };
        let age = leak.since.and_then(|since| since.elapsed().ok());
        let attachment = leak.attachment;
        let cells = [
            attachment.ips_text(),
            attachment.network.to_owned(),
            short_id(attachment.container).to_owned(),
            age.map_or("?".to_owned(), rounded),
            leak.names.short(),
            joined(leak.evidence_text.iter().chain(&leak.lock_reason), "; "),
        ];
        table.row(Some(style), cells);
    }
    table
}
