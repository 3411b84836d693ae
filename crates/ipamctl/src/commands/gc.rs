//! `ipamctl gc`: releases the attachments of containers that are gone.
//!
//! Each stale attachment is released by a DEL through its chain. The command GC is not sent: a
//! delegate would release everything that isn't in the list, including a container whose ADD began
//! after the list was made.

mod reasons_to_keep;

use std::fs;
use std::net::IpAddr;

use anyhow::{Result, ensure};
use chain::record::AttachmentRecord;
use chain::{Released, WhenBusy};
use docker_ipam_delegated::docker::plugin_calls::release_pool;
use ipam::IpNet;
use serde::Serialize;

use crate::arguments::GcArguments;
use crate::context::Context;
use crate::leaks::container_list::ContainerList;
use crate::leaks::evidence::Judge;
use crate::node::{
    Extent, Inventory, LostSubnet, NetworkAttachment, Node, Standing, attachments, held_addresses,
};
use crate::output::{Output, warn};
use crate::release::releaser::{LONGEST, Releaser};
use reasons_to_keep::{changed_since, reason_to_keep, too_young};

/// An attachment or a subnet, and the outcome. The keys are documented, and don't change their
/// meaning.
#[derive(Serialize)]
struct Row<'a> {
    /// The attachment or the subnet, for people.
    #[serde(skip)]
    what: String,
    network: &'a str,
    /// `None` for a subnet.
    #[serde(rename = "containerID")]
    container: Option<&'a str>,
    ifname: Option<&'a str>,
    addresses: Vec<IpAddr>,
    /// The subnet of a network that Docker has lost.
    subnet: Option<IpNet>,
    /// `released`, `would-release`, `kept`, `failed`.
    outcome: &'static str,
    reason: Option<String>,
}

pub(crate) fn run(arguments: &GcArguments, context: &Context<'_>) -> Result<bool> {
    let (node, output) = (&context.node(), context.output);
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
    let stale = all.iter().filter(|one| collector.is_stale(one));
    let stale = stale.map(|attachment| collector.collect(attachment));
    let lost = inventory.docker.lost_subnets.iter();
    let lost = lost.filter(|_| arguments.docker && arguments.network.is_empty());
    // After the addresses of each.
    let lost = lost.map(|lost| collector.collect_subnet(lost));
    let mut rows: Vec<Row<'_>> = Vec::new();
    let mut printed = Ok(());
    for row in stale.chain(lost) {
        // A closed pipe doesn't stop the collection.
        if !output.json && printed.is_ok() {
            printed = output.lines([row.text()]);
        }
        rows.push(row);
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

/// Prints how many of Docker's attachments can't be judged, and the reason.
fn warn_of_unknown(all: &[NetworkAttachment<'_>]) {
    let standings = all.iter().filter_map(|of| Some(&of.docker()?.standing));
    let mut reasons = standings.filter_map(|standing| match standing {
        Standing::Unknown(reason) => Some(reason),
        _ => None,
    });
    if let Some(reason) = reasons.next() {
        let number = 1 + reasons.count();
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
    /// True for an attachment of these networks that isn't in the list, or that Docker has lost.
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

    fn collect<'a>(&self, attachment: &'a NetworkAttachment<'_>) -> Row<'a> {
        let keep = reason_to_keep(attachment, &self.judge, self.arguments.even_in_use);
        let keep = keep.or_else(|| {
            let unrecorded = Some(self.inventory).filter(|_| attachment.record.is_none())?;
            unrecorded.may_have_a_record(self.node, attachment.network)
        });
        // Again under the lock: its container may have been added again.
        let refuse = |record: Option<&AttachmentRecord>| match record {
            Some(record) if !self.judge.is_old(record.since()) => {
                Some("a call has worked on it meanwhile".to_owned())
            }
            _ => changed_since(attachment, &self.judge),
        };
        let (outcome, reason) = self.released_unless(keep, || {
            let releaser = Releaser::new(self.node, WhenBusy::Refuse, LONGEST)?;
            releaser.release(attachment, refuse)
        });
        let what = match attachment.ifname {
            Some(_) => format!("{attachment} ({})", attachment.ips_text("no address")),
            None => attachment.to_string(),
        };
        Row {
            what,
            network: attachment.network,
            container: Some(attachment.container),
            ifname: attachment.ifname,
            addresses: attachment.ips().collect(),
            subnet: None,
            outcome,
            reason,
        }
    }

    /// Releases a reference to a subnet for which Docker has no network. Docker requests the subnet
    /// before it lists the network, so a new one is kept.
    fn collect_subnet<'a>(&self, lost: &'a LostSubnet) -> Row<'a> {
        let changed = fs::metadata(&lost.file).and_then(|metadata| metadata.modified());
        let keep = too_young(changed.ok(), &self.judge);
        let plugin = &self.node.places.docker_plugin;
        let (outcome, reason) = self.released_unless(keep, || {
            release_pool(plugin, &lost.pool, &lost.reference)?;
            Ok(Released::Done)
        });
        Row {
            what: format!("subnet {} of {}", lost.subnet, lost.network),
            network: &lost.network,
            container: None,
            ifname: None,
            addresses: Vec::new(),
            subnet: Some(lost.subnet),
            outcome,
            reason,
        }
    }

    /// The outcome of a release. It isn't started if there is a reason to keep.
    fn released_unless(
        &self,
        keep: Option<String>,
        release: impl FnOnce() -> Result<Released>,
    ) -> (&'static str, Option<String>) {
        if let Some(reason) = keep {
            return ("kept", Some(reason));
        }
        if self.arguments.dry_run {
            return ("would-release", None);
        }
        match release() {
            Ok(Released::Done) => ("released", None),
            Ok(Released::Refused(reason)) => ("kept", Some(reason)),
            Err(error) => ("failed", Some(format!("{error:#}"))),
        }
    }
}

impl Row<'_> {
    fn text(&self) -> String {
        let outcome = match self.outcome {
            "would-release" => "would be released",
            other => other,
        };
        let reason = self.reason.iter().map(|reason| format!(": {reason}"));
        format!("{}: {outcome}{}", self.what, reason.collect::<String>())
    }
}
