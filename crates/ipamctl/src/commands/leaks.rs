//! `ipamctl leaks`: what nobody will release, with the evidence and the command that releases it.

use std::collections::HashSet;
use std::time::SystemTime;

use anyhow::Result;
use cluster::{AddressKey, Held};
use serde::Serialize;

use crate::Context;
use crate::arguments::ListArguments;
use crate::clusters::{open_kubeconfig, retain_gone_owners};
use crate::container_list::ContainerList;
use crate::evidence::{Judge, Judgement, Keep};
use crate::inventory::{
    ContainerNames, Inventory, NetworkAttachment, NodeScope, attachments, short_id,
};
use crate::leases::lost_addresses;
use crate::output::joined;
use crate::output::table::Table;
use crate::output::times::{self, rounded};
use crate::release::release_command;

/// A leak, or an attachment of which it is unknown. The keys are documented, and don't change
/// their meaning.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Leak<'a> {
    #[serde(flatten)]
    attachment: &'a NetworkAttachment<'a>,
    names: &'a ContainerNames,
    #[serde(serialize_with = "times::serialize")]
    since: Option<SystemTime>,
    evidence: Vec<&'static str>,
    evidence_text: Vec<String>,
    /// The command that releases it.
    release: String,
    #[serde(skip)]
    is_proven: bool,
}

impl<'a> Leak<'a> {
    /// `None` if it is in use. What a list doesn't name and only its network namespace keeps is
    /// shown.
    fn of(
        attachment: &'a NetworkAttachment<'_>,
        judgement: Judgement,
        ipamctl: &str,
    ) -> Option<Self> {
        let is_proven = judgement.is_leak();
        let unknown = match judgement.keep {
            Some(Keep::Unknown(reason)) => Some(("unknown", format!("unknown: {reason}"))),
            Some(Keep::Alive(reason)) if !judgement.proofs.is_empty() => {
                Some(("netns-there", reason))
            }
            _ if is_proven => None,
            _ => Some(lost_lease(attachment)?),
        };
        let judged = judgement.proofs.into_iter();
        let proofs = judged.map(|proof| (proof.key, proof.text));
        let (evidence, evidence_text) = proofs.chain(unknown).unzip();
        Some(Self {
            attachment,
            names: &attachment.addresses[0].names,
            since: attachment.last_change(),
            evidence,
            evidence_text,
            release: release_command(ipamctl, attachment),
            is_proven,
        })
    }
}

/// The evidence of an attachment in use without an address that it has leased; `None` if it has all.
fn lost_lease(attachment: &NetworkAttachment<'_>) -> Option<(&'static str, String)> {
    match lost_addresses(attachment.record?) {
        Ok(ips) if ips.is_empty() => None,
        Ok(ips) => {
            let verb = if ips.len() == 1 { "is" } else { "are" };
            let text = format!("{} {verb} gone from the interface", joined(ips, ", "));
            Some(("lease-lost", text))
        }
        Err(reason) => Some(("unknown", format!("unknown: {reason}"))),
    }
}

pub(crate) fn run(list: &ListArguments, context: &Context<'_>) -> Result<bool> {
    let node = &context.node();
    let valid = ContainerList::read(list, context)?;
    let inventory = Inventory::read(node, NodeScope::ThisNode);
    let all = attachments(&inventory.rows);
    let mut judge = Judge::new(node, &inventory, &all, valid.as_ref())?;
    judge.gone_owners = gone_owners(&inventory, context)?;
    let ipamctl = context.sources.command();
    let judged = state_files::in_threads(&all, |one| Leak::of(one, judge.judge(one), &ipamctl));
    let leaks: Vec<Leak<'_>> = judged.into_iter().flatten().collect();
    context.print(&leaks, || {
        if leaks.is_empty() {
            return vec!["No leak is known.".to_owned()];
        }
        let lines = table(&leaks).into_iter();
        lines.chain(release_commands(&leaks)).collect()
    })?;
    inventory.verdict(leaks.iter().any(|leak| leak.is_proven))
}

/// The addresses whose owners are gone, by the rights of a person.
fn gone_owners(inventory: &Inventory, context: &Context<'_>) -> Result<HashSet<AddressKey>> {
    let kubeconfig = context.sources.kubeconfig.as_ref();
    let owned = inventory.rows.iter().filter(|row| row.owner.is_some());
    let stored = owned.filter_map(|row| Some(row.in_cluster.as_ref()?.held.clone()));
    let stored: Vec<Held> = stored.collect();
    if kubeconfig.is_none() || stored.is_empty() {
        return Ok(HashSet::new());
    }
    let gone = retain_gone_owners(&mut open_kubeconfig(kubeconfig)?, stored)?;
    Ok(gone.into_iter().map(|held| held.key).collect())
}

/// The commands that release the leaks.
fn release_commands(leaks: &[Leak<'_>]) -> Vec<String> {
    let mut lines = Vec::new();
    for (is_proven, title) in [
        (true, "To release them:"),
        (false, "Unknown ones, only if their containers are gone:"),
    ] {
        let chosen = leaks.iter().filter(|leak| leak.is_proven == is_proven);
        let commands: Vec<String> = chosen.map(|leak| format!("  {}", leak.release)).collect();
        if !commands.is_empty() {
            lines.extend([String::new(), title.to_owned()]);
            lines.extend(commands);
        }
    }
    lines
}

fn table(leaks: &[Leak<'_>]) -> Vec<String> {
    let age = |leak: &Leak<'_>| leak.since.and_then(|since| since.elapsed().ok());
    Table::of(leaks)
        .text("ADDRESS", |leak| leak.attachment.ips_text("-"))
        .text("NETWORK", |leak| leak.attachment.network.to_owned())
        .text("CONTAINER", |leak| {
            short_id(leak.attachment.container.unwrap_or("?")).to_owned()
        })
        .text("AGE", move |leak| age(leak).map_or("?".to_owned(), rounded))
        .text("NAME", |leak| leak.names.short())
        .text("EVIDENCE", |leak| leak.evidence_text.join("; "))
        .lines()
        .collect()
}
