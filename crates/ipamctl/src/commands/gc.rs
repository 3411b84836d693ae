//! `ipamctl gc`: releases the attachments of containers that are gone.
//!
//! Each stale attachment is undone by a DEL through its chain. The command GC is
//! not sent: a delegate would release everything that the list doesn't have, and with it the
//! container whose ADD began after the list was made.

mod reasons_to_keep;

use std::fs;
use std::net::IpAddr;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use chain::record::AttachmentRecord;
use chain::{Released, WhenBusy};
use docker_ipam_delegated::docker::plugin_calls::release_pool;
use serde::Serialize;

use crate::arguments::GcArguments;
use crate::leaks::container_list::ContainerList;
use crate::leaks::evidence::Judge;
use crate::node::{
    Extent, Inventory, LostSubnet, NetworkAttachment, Node, Standing, attachments, held_addresses,
};
use crate::output::{Output, joined, warn};
use crate::release::releaser::{LONGEST, Releaser};
use reasons_to_keep::{changed_since, reason_to_keep, too_young};

/// An attachment or a subnet, and what was done with it. The keys are documented, and don't
/// change their meaning.
#[derive(Debug, Default, Serialize)]
struct Row {
    network: String,
    /// `None` for a subnet.
    #[serde(rename = "containerID")]
    container: Option<String>,
    ifname: Option<String>,
    addresses: Vec<IpAddr>,
    /// The subnet of a network that Docker has lost.
    subnet: Option<String>,
    /// `released`, `would-release`, `kept`, `failed`.
    outcome: &'static str,
    reason: Option<String>,
}

pub(crate) fn run(arguments: &GcArguments, node: &Node, output: Output) -> Result<ExitCode> {
    let valid = ContainerList::given(&arguments.list)?;
    let inventory = Inventory::read(node, Extent::All);
    let all = attachments(held_addresses(&inventory));
    if let Some(valid) = &valid {
        valid.refuse_wrong_ids(&all)?;
    }
    for name in &arguments.network {
        let mut networks = all.iter().map(|attachment| attachment.network);
        let is_known = node.network(name).is_some() || networks.any(|network| network == name);
        ensure!(is_known, "no network is named {name}");
    }
    if arguments.docker {
        warn_of_unknown(&all);
    }
    let collector = Collector {
        node,
        inventory: &inventory,
        judge: Judge::new(valid.as_ref(), arguments.list.older_than, &node.environment),
        arguments,
    };
    let mut rows: Vec<Row> = Vec::new();
    let mut printed = Ok(());
    let mut print = |row: Row| {
        // A reader that has gone doesn't stop the collection.
        if !output.json && printed.is_ok() {
            printed = output.lines([row.text()]);
        }
        rows.push(row);
    };
    let stale = all
        .iter()
        .filter(|attachment| collector.is_stale(attachment));
    stale.for_each(|attachment| print(collector.collect(attachment)));
    // After the addresses of each.
    if arguments.docker && arguments.network.is_empty() {
        let lost = inventory.docker.lost_subnets.iter();
        lost.for_each(|lost| print(collector.collect_subnet(lost)));
    }
    if output.json {
        Output::json(&rows)?;
    }
    let failed = rows.iter().filter(|row| row.outcome == "failed").count();
    let all = rows.len();
    ensure!(failed == 0, "{failed} of {all} could not be released");
    printed?;
    inventory.verdict(false)
}

/// Says how many attachments of Docker's can't be judged, and why.
fn warn_of_unknown(all: &[NetworkAttachment<'_>]) {
    let standings = all.iter().filter_map(|of| Some(&of.docker()?.standing));
    let reasons = standings.filter_map(|standing| match standing {
        Standing::Unknown(reason) => Some(reason),
        _ => None,
    });
    let reasons: Vec<&String> = reasons.collect();
    if let Some(reason) = reasons.first() {
        let number = reasons.len();
        warn(format!(
            "{number} of Docker's attachments can't be judged: {reason}"
        ));
    }
}

/// Releases stale attachments and subnets.
struct Collector<'a> {
    node: &'a Node,
    inventory: &'a Inventory,
    judge: Judge<'a>,
    arguments: &'a GcArguments,
}

impl Collector<'_> {
    /// True for an attachment of these networks that the list, or Docker, doesn't have.
    fn is_stale(&self, attachment: &NetworkAttachment<'_>) -> bool {
        let mut networks = self.arguments.network.iter();
        let is_wanted = networks.len() == 0 || networks.any(|name| name == attachment.network);
        is_wanted
            && match (attachment.docker(), self.judge.valid) {
                (Some(holder), _) => self.arguments.docker && holder.is_lost(),
                (None, Some(valid)) => !valid.contains(attachment.container),
                (None, None) => false,
            }
    }

    fn collect(&self, attachment: &NetworkAttachment<'_>) -> Row {
        let keep = reason_to_keep(attachment, &self.judge, self.arguments.even_in_use);
        let keep = keep.or_else(|| {
            let unrecorded = Some(self.inventory).filter(|_| attachment.record.is_none())?;
            unrecorded.may_have_a_record(self.node, attachment.network)
        });
        // Once more, while it is locked: its container may have been added again.
        let refuse = |record: Option<&AttachmentRecord>| match record {
            Some(record) if !self.judge.is_old(record.since()) => {
                Some("a call has worked on it meanwhile".to_owned())
            }
            _ => changed_since(attachment, &self.judge),
        };
        let row = self.released_unless(keep, || {
            let releaser = Releaser::new(self.node, WhenBusy::Refuse, LONGEST)?;
            releaser.release(attachment, refuse)
        });
        Row {
            network: attachment.network.to_owned(),
            container: Some(attachment.container.to_owned()),
            ifname: attachment.ifname.map(str::to_owned),
            addresses: attachment.ips().collect(),
            ..row
        }
    }

    /// Releases a reference to a subnet that Docker has no network of. Docker asks for the
    /// subnet before it lists the network: a young one is kept.
    fn collect_subnet(&self, lost: &LostSubnet) -> Row {
        let changed = fs::metadata(&lost.file).and_then(|metadata| metadata.modified());
        let keep = too_young(changed.ok(), &self.judge);
        let plugin = &self.node.places.docker.docker_plugin;
        let row = self.released_unless(keep, || {
            release_pool(plugin, &lost.pool, &lost.reference)?;
            Ok(Released::Done)
        });
        Row {
            network: lost.network.clone(),
            subnet: Some(lost.subnet.to_string()),
            ..row
        }
    }

    /// The outcome of a release, which isn't begun if there is a reason to keep what it releases.
    fn released_unless(
        &self,
        keep: Option<String>,
        release: impl FnOnce() -> Result<Released>,
    ) -> Row {
        let (outcome, reason) = match keep {
            Some(reason) => ("kept", Some(reason)),
            None if self.arguments.dry_run => ("would-release", None),
            None => match release() {
                Ok(Released::Done) => ("released", None),
                Ok(Released::Refused(reason)) => ("kept", Some(reason)),
                Err(error) => ("failed", Some(format!("{error:#}"))),
            },
        };
        Row {
            outcome,
            reason,
            ..Row::default()
        }
    }
}

impl Row {
    fn text(&self) -> String {
        let network = &self.network;
        let what = match (&self.container, &self.subnet) {
            (Some(container), _) => {
                let ifname = self.ifname.as_deref().unwrap_or("(any interface)");
                let addresses = match self.addresses[..] {
                    [] => "no address".to_owned(),
                    _ => joined(&self.addresses, ", "),
                };
                format!("{container} {ifname} on {network} ({addresses})")
            }
            (None, subnet) => format!("subnet {} of {network}", subnet.as_deref().unwrap_or("?")),
        };
        let outcome = match self.outcome {
            "would-release" => "would be released",
            other => other,
        };
        let reason = self.reason.iter().map(|reason| format!(": {reason}"));
        format!("{what}: {outcome}{}", reason.collect::<String>())
    }
}
