//! `ipamctl gc`: releases the attachments of containers that are gone.
//!
//! Each stale attachment is undone by itself, by DEL through its chain. The command GC is
//! not sent: a delegate would release everything that the list doesn't have, and with it the
//! container whose ADD began after the list was made.

mod reasons_to_keep;

use std::fs;
use std::net::IpAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use chain::record::AttachmentRecord;
use chain::{Released, WhenBusy};
use docker_ipam_delegated::docker::plugin_calls::release_pool;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::arguments::GcArguments;
use crate::leaks::container_list::ContainerList;
use crate::leaks::evidence::Judge;
use crate::node::{
    Extent, Inventory, LostSubnet, NetworkAttachment, Node, Standing, attachments, held_addresses,
};
use crate::output::{Output, joined, warn};
use crate::release::by_chain::release;
use crate::release::deadline::{Deadline, LONGEST};
use reasons_to_keep::{changed_since, reason_to_keep, too_young};

/// Time after which a progress bar is drawn.
const PATIENCE: Duration = Duration::from_secs(1);

/// What was done with an attachment or a subnet.
enum Outcome {
    Released,
    WouldRelease,
    /// It was kept, for this reason.
    Kept(String),
    Failed(String),
}

/// An attachment or a subnet, and what was done with it. The keys are documented, and don't
/// change their meaning.
#[derive(Debug, Serialize)]
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
    let stale: Vec<&NetworkAttachment<'_>> = all
        .iter()
        .filter(|attachment| is_stale(attachment, valid.as_ref(), arguments))
        .collect();
    let collector = Collector {
        node,
        inventory: &inventory,
        judge: Judge::new(valid.as_ref(), arguments.list.older_than, &node.environment),
        arguments,
    };
    let started = Instant::now();
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} attachments")?;
    let bar = ProgressBar::hidden().with_style(style);
    bar.set_length(stale.len() as u64);
    let mut rows = Vec::with_capacity(stale.len());
    let mut printed = Ok(());
    let mut print = |row: Row| {
        // A reader that has gone doesn't stop the collection.
        if !output.json && printed.is_ok() {
            printed = bar.suspend(|| output.lines([row.text()]));
        }
        rows.push(row);
    };
    for attachment in stale {
        if bar.is_hidden() && started.elapsed() >= PATIENCE {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        print(collector.collect(attachment));
        bar.inc(1);
    }
    // After the addresses of each.
    if arguments.docker && arguments.network.is_empty() {
        for lost in &inventory.docker.lost_subnets {
            print(collector.collect_subnet(lost));
        }
    }
    bar.finish_and_clear();
    if output.json {
        Output::json(&rows)?;
    }
    let failed = rows.iter().filter(|row| row.outcome == "failed").count();
    let all = rows.len();
    ensure!(failed == 0, "{failed} of {all} could not be released");
    printed?;
    inventory.verdict(false)
}

/// True for an attachment of these networks that the list, or Docker, doesn't have.
fn is_stale(
    attachment: &NetworkAttachment<'_>,
    valid: Option<&ContainerList>,
    arguments: &GcArguments,
) -> bool {
    let mut networks = arguments.network.iter();
    let is_wanted = networks.len() == 0 || networks.any(|name| name == attachment.network);
    is_wanted
        && match (attachment.docker(), valid) {
            (Some(holder), _) => arguments.docker && holder.is_lost(),
            (None, Some(valid)) => !valid.contains(attachment.container),
            (None, None) => false,
        }
}

/// Says how many attachments of Docker's can't be judged, and why.
fn warn_of_unknown(all: &[NetworkAttachment<'_>]) {
    let reasons = all
        .iter()
        .filter_map(|attachment| match &attachment.docker()?.standing {
            Standing::Unknown(reason) => Some(reason),
            _ => None,
        });
    let reasons: Vec<&String> = reasons.collect();
    if let Some(reason) = reasons.first() {
        warn(format!(
            "{} of Docker's attachments can't be judged: {reason}",
            reasons.len()
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
    fn collect(&self, attachment: &NetworkAttachment<'_>) -> Row {
        Row {
            container: Some(attachment.container.to_owned()),
            ifname: attachment.ifname.map(str::to_owned),
            addresses: attachment.ips().collect(),
            ..Row::new(attachment.network, self.release(attachment))
        }
    }

    fn release(&self, attachment: &NetworkAttachment<'_>) -> Outcome {
        let even_in_use = self.arguments.even_in_use;
        let reason = reason_to_keep(attachment, &self.judge, even_in_use).or_else(|| {
            let is_unrecorded = attachment.record.is_none();
            let inventory = Some(self.inventory).filter(|_| is_unrecorded)?;
            inventory.may_have_a_record(self.node, attachment.network)
        });
        if let Some(reason) = reason {
            return Outcome::Kept(reason);
        }
        if self.arguments.dry_run {
            return Outcome::WouldRelease;
        }
        // Once more, while it is locked: its container may have been added again.
        let refuse = |record: Option<&AttachmentRecord>| match record {
            Some(record) if !self.judge.is_old(record.since()) => {
                Some("a call has worked on it meanwhile".to_owned())
            }
            _ => changed_since(attachment, &self.judge),
        };
        let released = Deadline::after(LONGEST)
            .map_err(anyhow::Error::from)
            .and_then(|bound| release(self.node, attachment, WhenBusy::Refuse, &bound, refuse));
        match released {
            Ok(Released::Done) => Outcome::Released,
            Ok(Released::Refused(reason)) => Outcome::Kept(reason),
            Err(error) => Outcome::Failed(format!("{error:#}")),
        }
    }

    fn collect_subnet(&self, lost: &LostSubnet) -> Row {
        Row {
            subnet: Some(lost.subnet.to_string()),
            ..Row::new(&lost.network, self.release_subnet(lost))
        }
    }

    /// Releases a reference to a subnet that Docker has no network of. Docker asks for the
    /// subnet before it lists the network: a young one is kept.
    fn release_subnet(&self, lost: &LostSubnet) -> Outcome {
        let changed = fs::metadata(&lost.file).and_then(|metadata| metadata.modified());
        if let Some(reason) = too_young(changed.ok(), &self.judge) {
            return Outcome::Kept(reason);
        }
        if self.arguments.dry_run {
            return Outcome::WouldRelease;
        }
        let plugin = &self.node.places.docker.docker_plugin;
        match release_pool(plugin, &lost.pool, &lost.reference) {
            Ok(()) => Outcome::Released,
            Err(error) => Outcome::Failed(format!("{error:#}")),
        }
    }
}

impl Row {
    fn new(network: &str, outcome: Outcome) -> Self {
        let (outcome, reason) = match outcome {
            Outcome::Released => ("released", None),
            Outcome::WouldRelease => ("would-release", None),
            Outcome::Kept(reason) => ("kept", Some(reason)),
            Outcome::Failed(reason) => ("failed", Some(reason)),
        };
        Self {
            network: network.to_owned(),
            container: None,
            ifname: None,
            addresses: Vec::new(),
            subnet: None,
            outcome,
            reason,
        }
    }

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
            (None, subnet) => {
                format!("subnet {} of {network}", subnet.as_deref().unwrap_or("?"))
            }
        };
        let outcome = match self.outcome {
            "would-release" => "would be released",
            other => other,
        };
        match &self.reason {
            None => format!("{what}: {outcome}"),
            Some(reason) => format!("{what}: {outcome}: {reason}"),
        }
    }
}
