//! `ipamctl gc`: releases the attachments of containers that are gone.
//!
//! Each stale attachment is undone by itself, by DEL through its chain. The command GC is
//! not sent: a delegate would release whatever the list doesn't have, and with it the
//! container whose ADD began after the list was made.

use std::time::{Duration, Instant};
use std::{fs, io};

use anyhow::Result;
use chain::record::AttachmentRecord;
use chain::{Released, WhenBusy};
use docker_ipam_delegated::docker::plugin_calls::release_pool;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::arguments::GcArguments;
use crate::exit_status::Status;
use crate::leaks::container_id::is_of_a_build;
use crate::leaks::container_list::Valid;
use crate::leaks::evidence::Evidences;
use crate::leaks::netns::Namespace;
use crate::leaks::record_lock::Lock;
use crate::node::Node;
use crate::node::attachment::{Attached, attached};
use crate::node::docker::{LostSubnet, Standing};
use crate::node::inventory::{Extent, Inventory};
use crate::output::times::rounded;
use crate::output::{Output, warn};
use crate::release::by_chain::undo;
use crate::release::deadline::{Deadline, LONGEST};

/// Time after which a progress bar is drawn.
const PATIENCE: Duration = Duration::from_secs(1);

/// What has become of an attachment. The keys are documented, and don't change their
/// meaning.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    network: String,
    /// `None` for a subnet.
    #[serde(rename = "containerID")]
    container: Option<String>,
    ifname: Option<String>,
    addresses: Vec<std::net::IpAddr>,
    /// The subnet of a network that Docker has lost.
    subnet: Option<String>,
    /// `released`, `would-release`, `kept`, `failed`.
    outcome: &'static str,
    reason: Option<String>,
}

pub(crate) fn run(arguments: &GcArguments, node: &Node, output: Output) -> Result<Status> {
    let valid = arguments.valid.as_ref();
    let valid = valid.map(|file| Valid::read(file, arguments.none_valid));
    let valid = valid.transpose()?;
    let inventory = Inventory::read(node, Extent::All);
    inventory.warn();
    let all = attached(inventory.holdings());
    if let Some(valid) = &valid {
        valid.refuse_wrong_ids(&listable(&all))?;
    }
    for name in &arguments.network {
        let is_known = node.network(name).is_some() || all.iter().any(|it| it.network == name);
        anyhow::ensure!(is_known, "no network is named {name}");
    }
    let is_wanted = |it: &&Attached<'_>| {
        let networks = &arguments.network;
        networks.is_empty() || networks.iter().any(|name| name == it.network)
    };
    let is_stale = |it: &&Attached<'_>| match (it.docker(), &valid) {
        (Some(holder), _) => arguments.docker && holder.is_lost(),
        (None, Some(valid)) => !valid.contains(it.container),
        (None, None) => false,
    };
    let stale: Vec<&Attached<'_>> = all.iter().filter(is_stale).filter(is_wanted).collect();
    if arguments.docker {
        warn_of_unknown(&all);
    }
    let evidences = Evidences::new(valid.as_ref(), arguments.older_than, &node.environment);
    let started = Instant::now();
    let mut bar: Option<ProgressBar> = None;
    let mut rows = Vec::with_capacity(stale.len());
    let mut written = Ok(());
    // A reader that has gone keeps nobody's address reserved.
    let print = |row: &Row, bar: Option<&ProgressBar>, written: &mut io::Result<()>| {
        if output.json || written.is_err() {
            return;
        }
        let print = || output.lines([row.text()]);
        *written = bar.map_or_else(print, |bar| bar.suspend(print));
    };
    for (done, it) in stale.iter().enumerate() {
        if started.elapsed() >= PATIENCE {
            let bar = bar.get_or_insert_with(|| progress(stale.len()));
            bar.set_position(done as u64);
        }
        let row = collect((node, &inventory), it, &evidences, arguments);
        print(&row, bar.as_ref(), &mut written);
        rows.push(row);
    }
    // Behind the addresses of each.
    if arguments.docker && arguments.network.is_empty() {
        for lost in inventory.docker.lost_subnets() {
            let row = collect_subnet(node, lost, &evidences, arguments.dry_run);
            print(&row, bar.as_ref(), &mut written);
            rows.push(row);
        }
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    if output.json {
        Output::json(&rows)?;
    }
    let failed = rows.iter().filter(|row| row.outcome == "failed").count();
    anyhow::ensure!(
        failed == 0,
        "{failed} of {} could not be released",
        rows.len()
    );
    written?;
    inventory.verdict(Status::Fine)
}

/// The containers that a list can have: Docker's attachments have IDs of the daemon's.
pub(crate) fn listable<'a>(all: &[Attached<'a>]) -> Vec<&'a str> {
    let listable = all.iter().filter(|it| it.docker().is_none());
    listable.map(|it| it.container).collect()
}

/// Says how many attachments of Docker's can't be judged, and why.
fn warn_of_unknown(all: &[Attached<'_>]) {
    let reasons = all.iter().filter_map(|it| match &it.docker()?.standing {
        Standing::Unknown(reason) => Some(reason),
        _ => None,
    });
    let reasons: Vec<&String> = reasons.collect();
    if let Some(reason) = reasons.first() {
        warn(&format!(
            "{} of Docker's attachments can't be judged: {reason}",
            reasons.len()
        ));
    }
}

fn progress(attachments: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} attachments")
        .expect("the template is valid");
    ProgressBar::new(attachments as u64).with_style(style)
}

fn collect(
    (node, inventory): (&Node, &Inventory),
    it: &Attached<'_>,
    evidences: &Evidences<'_>,
    arguments: &GcArguments,
) -> Row {
    let row = |outcome, reason: Option<String>| Row {
        network: it.network.to_owned(),
        container: Some(it.container.to_owned()),
        ifname: it.ifname.map(str::to_owned),
        addresses: it.addresses().collect(),
        subnet: None,
        outcome,
        reason,
    };
    if let Some(reason) = too_young(it, evidences) {
        return row("kept", Some(reason));
    }
    if let Some(reason) = Lock::of(it).reason() {
        return row("kept", Some(reason));
    }
    if let Some(reason) = in_use(it, evidences).filter(|_| !arguments.even_in_use) {
        return row("kept", Some(reason));
    }
    if it.record.is_none()
        && let Some(reason) = inventory.may_have_a_record(node, it.network)
    {
        return row("kept", Some(reason));
    }
    if arguments.dry_run {
        return row("would-release", None);
    }
    // Once more, while it is locked: its container may have been added again.
    let refuse = |record: Option<&AttachmentRecord>| match record {
        Some(record) if !evidences.is_old(record.since()) => {
            Some("a call has worked on it meanwhile".to_owned())
        }
        _ => changed_since(it, evidences),
    };
    let undone = Deadline::after(LONGEST)
        .map_err(anyhow::Error::from)
        .and_then(|deadline| undo(node, it, WhenBusy::Refuse, &deadline, refuse));
    match undone {
        Ok(Released::Done) => row("released", None),
        Ok(Released::Refused(reason)) => row("kept", Some(reason)),
        Err(error) => row("failed", Some(format!("{error:#}"))),
    }
}

/// Releases a reference to a subnet that Docker has no network of. Docker asks for the subnet
/// before it lists the network: a young one is kept.
fn collect_subnet(
    node: &Node,
    lost: &LostSubnet,
    evidences: &Evidences<'_>,
    is_dry_run: bool,
) -> Row {
    let row = |outcome, reason: Option<String>| Row {
        network: lost.network.clone(),
        container: None,
        ifname: None,
        addresses: Vec::new(),
        subnet: Some(lost.subnet.to_string()),
        outcome,
        reason,
    };
    let changed = fs::metadata(&lost.file).and_then(|it| it.modified());
    match changed {
        Err(error) => return row("kept", Some(format!("its age is unknown: {error}"))),
        Ok(time) if !evidences.is_old(time) => {
            let limit = rounded(evidences.older_than);
            return row("kept", Some(format!("it is younger than {limit}")));
        }
        Ok(_) if is_dry_run => return row("would-release", None),
        Ok(_) => {}
    }
    let plugin = &node.docker_places().docker_plugin;
    match release_pool(plugin, &lost.pool, &lost.reference) {
        Ok(()) => row("released", None),
        Err(error) => row("failed", Some(format!("{error:#}"))),
    }
}

/// The reason to leave an attachment alone that something may use which no list has: the step
/// of a build, for example.
fn in_use(it: &Attached<'_>, evidences: &Evidences<'_>) -> Option<String> {
    // Docker has been asked. The namespace is the host's, or one of the daemon's.
    if it.docker().is_some() {
        return None;
    }
    match evidences.namespace(it) {
        Some(Namespace::There) => {
            let netns = it.content().map_or("", |content| &content.netns);
            Some(format!("its network namespace {netns} is there"))
        }
        Some(Namespace::Unknown(reason)) => Some(format!(
            "whether its network namespace is there is unknown: {reason}"
        )),
        Some(Namespace::Missing | Namespace::BeforeBoot) => None,
        // host-local leaves no record that names one.
        None => is_of_a_build(it.container)
            .then(|| "it may be a step of a build that is running".to_owned()),
    }
}

/// The reason to leave a young attachment alone: no list may have it yet.
fn too_young(it: &Attached<'_>, evidences: &Evidences<'_>) -> Option<String> {
    let limit = rounded(evidences.older_than);
    match it.last_change() {
        None => Some("its age is unknown".to_owned()),
        Some(time) if !evidences.is_old(time) => Some(format!("it is younger than {limit}")),
        Some(_) => None,
    }
}

/// The reason to leave an attachment alone whose reservations were written since they were
/// read.
fn changed_since(it: &Attached<'_>, evidences: &Evidences<'_>) -> Option<String> {
    let placed = it
        .holdings
        .iter()
        .filter_map(|it| Some((it.directory?, it.ip?)));
    for (directory, ip) in placed {
        if directory.shared_by.is_some() {
            continue;
        }
        let now = match reservations::view::address(&directory.path, ip) {
            Ok(None) => continue,
            Ok(Some(now)) => now.since,
            Err(error) => return Some(format!("{ip} can't be read: {error}")),
        };
        match now {
            Some(since) if evidences.is_old(since) => {}
            Some(_) => return Some(format!("{ip} was reserved again meanwhile")),
            None => return Some(format!("the age of {ip} can't be read")),
        }
    }
    None
}

impl Row {
    fn text(&self) -> String {
        let ips: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        let of_container = |container: &str| {
            format!(
                "{container} {} on {} ({})",
                self.ifname.as_deref().unwrap_or("(any interface)"),
                self.network,
                if ips.is_empty() {
                    "no address".to_owned()
                } else {
                    ips.join(", ")
                },
            )
        };
        let of_subnet = || {
            let subnet = self.subnet.as_deref().unwrap_or_default();
            format!("subnet {subnet} of {}", self.network)
        };
        let what = self
            .container
            .as_deref()
            .map_or_else(of_subnet, of_container);
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
