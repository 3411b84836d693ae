//! `ipamctl release`: releases one attachment, or the file of one reservation.

use std::net::IpAddr;
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use chain::{Released, WhenBusy};
use serde::Serialize;

use crate::arguments::ReleaseArguments;
use crate::arguments::target::Target;
use crate::node::{
    Extent, HeldAddress, Inventory, NetworkAttachment, Node, attachments, held_addresses,
    select_to_release,
};
use crate::output::{Output, joined};
use crate::release::deadline::Deadline;
use crate::release::{by_chain, by_file};

/// What was released. The keys are documented, and don't change their meaning.
#[derive(Debug, Serialize)]
struct Row {
    network: Option<String>,
    #[serde(rename = "containerID")]
    container: Option<String>,
    ifname: Option<String>,
    addresses: Vec<IpAddr>,
    /// `record`, `conflist`, or `file`.
    by: &'static str,
}

pub(crate) fn run(arguments: &ReleaseArguments, node: &Node, output: Output) -> Result<ExitCode> {
    let target = arguments.target().map_err(anyhow::Error::msg)?;
    let deadline = Deadline::after(arguments.timeout)?;
    let inventory = Inventory::read(node, Extent::All);
    let addresses = held_addresses(&inventory);
    let released = if arguments.file_only {
        let files = files(addresses, &target)?;
        let files = files.iter();
        files
            .map(|file| release_file(node, file, &deadline))
            .collect()
    } else {
        let all = attachments(addresses);
        let found = select_to_release(&all, &target).map_err(anyhow::Error::msg)?;
        let found = found.into_iter();
        found
            .map(|one| release(node, one, &deadline))
            .collect::<Vec<_>>()
    };
    // What was released is printed, whatever failed beside it.
    let (rows, failed): (Vec<_>, Vec<_>) = released.into_iter().partition(Result::is_ok);
    let rows: Vec<Row> = rows.into_iter().flatten().collect();
    output.print(&rows, || rows.iter().map(Row::text).collect())?;
    let failed = failed.into_iter().filter_map(Result::err);
    let failed = joined(failed.map(|error| format!("{error:#}")), "; ");
    ensure!(failed.is_empty(), "{failed}");
    Ok(ExitCode::SUCCESS)
}

fn release(node: &Node, attachment: &NetworkAttachment<'_>, deadline: &Deadline) -> Result<Row> {
    let released = by_chain::release(node, attachment, WhenBusy::Wait, deadline, |_| None);
    match released.with_context(|| attachment.to_string())? {
        Released::Done => {}
        Released::Refused(reason) => bail!("{attachment}: {reason}"),
    }
    Ok(Row {
        network: Some(attachment.network.to_owned()),
        container: Some(attachment.container.to_owned()),
        ifname: attachment.ifname.map(str::to_owned),
        addresses: attachment.ips().collect(),
        by: match (attachment.ifname, attachment.content()) {
            (None, _) => "file",
            (Some(_), Some(_)) => "record",
            (Some(_), None) => "conflist",
        },
    })
}

fn release_file(node: &Node, held: &HeldAddress<'_>, deadline: &Deadline) -> Result<Row> {
    by_file::remove(node, held, deadline)?;
    Ok(Row {
        network: held.network.map(str::to_owned),
        container: held.container.map(str::to_owned),
        ifname: held.ifname.map(str::to_owned),
        addresses: held.ip.into_iter().collect(),
        by: "file",
    })
}

/// The reservations with a file that the target names.
fn files<'a>(addresses: Vec<HeldAddress<'a>>, target: &Target) -> Result<Vec<HeldAddress<'a>>> {
    if let Some(unknown) = unknown_holder(&addresses, target) {
        return Ok(vec![unknown.clone()]);
    }
    let all = attachments(addresses);
    let found = select_to_release(&all, target).map_err(anyhow::Error::msg)?;
    let ip = target.ip();
    let ip = ip.filter(|ip| found.iter().any(|attachment| attachment.holds(*ip)));
    let files: Vec<HeldAddress<'a>> = found
        .iter()
        .flat_map(|attachment| &attachment.addresses)
        .filter(|held| held.directory.is_some() && (ip.is_none() || held.ip == ip))
        .cloned()
        .collect();
    ensure!(!files.is_empty(), "there is no file of such a reservation");
    if let (Some(ip), [_, _, ..]) = (ip, &files[..]) {
        let directories = files.iter().filter_map(|held| held.directory);
        let paths = directories.map(|directory| directory.path.join(ip.to_string()));
        let paths: Vec<String> = paths.map(|path| path.display().to_string()).collect();
        bail!("{ip} is in {}; name NETWORK ADDRESS", paths.join(" and "));
    }
    Ok(files)
}

/// The one file of an address whose holder is unknown.
fn unknown_holder<'a, 'b>(
    addresses: &'b [HeldAddress<'a>],
    target: &Target,
) -> Option<&'b HeldAddress<'a>> {
    let ip = target.ip()?;
    let names = [&target.network, &target.network_or_pool]
        .into_iter()
        .flatten();
    let mut files = addresses.iter().filter(|held| {
        held.ip == Some(ip)
            && held.directory.is_some()
            && names.clone().all(|name| held.is_of(name))
    });
    let found = files.next()?;
    (found.container.is_none() && files.next().is_none()).then_some(found)
}

impl Row {
    fn text(&self) -> String {
        let by = match self.by {
            "record" => "through the chain of its record",
            "conflist" => "through the chain of today's conflist",
            _ => "by its file alone",
        };
        let addresses = match self.addresses[..] {
            [] => "what it held".to_owned(),
            _ => joined(&self.addresses, ", "),
        };
        format!(
            "{} {} on {}: released {addresses} {by}",
            self.container.as_deref().unwrap_or("unknown holder"),
            self.ifname.as_deref().unwrap_or("-"),
            self.network.as_deref().unwrap_or("?"),
        )
    }
}
