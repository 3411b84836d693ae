//! `ipamctl leaks`: leaked attachments, each with the evidence.

use std::collections::BTreeSet;
use std::time::SystemTime;

use anyhow::Result;
use serde::Serialize;

use crate::arguments::ListArguments;
use crate::context::Context;
use crate::leaks::container_list::ContainerList;
use crate::leaks::evidence::{Judge, is_proven};
use crate::leaks::record_lock::Lock;
use crate::node::{
    Extent, Inventory, Names, NetworkAttachment, attachments, held_addresses, short_id,
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
    #[serde(flatten)]
    lock: Lock,
    /// The command that releases it.
    release: String,
    #[serde(skip)]
    is_proven: bool,
}

pub(crate) fn run(list: &ListArguments, context: &Context<'_>) -> Result<bool> {
    let (node, output) = (&context.node(), context.output);
    let valid = ContainerList::given(list)?;
    let inventory = Inventory::read(node, Extent::All);
    let all = attachments(held_addresses(&inventory));
    if let Some(valid) = &valid {
        valid.refuse_wrong_ids(&all)?;
    }
    let judge = Judge::new(valid.as_ref(), list.older_than, &node.environment);
    let judged = all.iter().map(|one| (one, judge.evidence(one)));
    let leaks = judged.filter(|(_, evidence)| !evidence.is_empty());
    let leaks = leaks.map(|(attachment, evidence)| Leak {
        attachment,
        names: attachment.names(),
        since: attachment.last_change(),
        evidence: evidence.iter().map(|evidence| evidence.key).collect(),
        is_proven: is_proven(&evidence),
        evidence_text: evidence.into_iter().map(|evidence| evidence.text).collect(),
        lock: Lock::of(attachment),
        release: release_command(node, attachment),
    });
    let leaks: Vec<Leak<'_>> = leaks.collect();
    output.print(&leaks, || {
        if leaks.is_empty() {
            let unread = inventory.unread > 0;
            let unless = if unread { " in what could be read" } else { "" };
            return vec![format!(
                "No leak is known in the networks of the conflists and the records{unless}."
            )];
        }
        let mut lines = table(&leaks, output);
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

/// The commands that release the leaks. They aren't cut, so that they can be copied.
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

fn table(leaks: &[Leak<'_>], output: Output) -> Vec<String> {
    let age = |leak: &Leak<'_>| leak.since.and_then(|since| since.elapsed().ok());
    Table::of(leaks)
        .text("ADDRESS", |leak| leak.attachment.ips_text("-"))
        .text("NETWORK", |leak| leak.attachment.network.to_owned())
        .text("CONTAINER", |leak| {
            short_id(leak.attachment.container).to_owned()
        })
        .text("AGE", |leak| age(leak).map_or("?".to_owned(), rounded))
        .text("NAME", |leak| leak.names.short())
        .text("EVIDENCE", |leak| {
            joined(leak.evidence_text.iter().chain(&leak.lock.reason), "; ")
        })
        .lines(output, |leak| {
            let is_proven = leak.is_proven;
            Some(if is_proven { Style::Yellow } else { Style::Dim })
        })
}
