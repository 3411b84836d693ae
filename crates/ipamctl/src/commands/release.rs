//! `ipamctl release`: releases one attachment, or the file of one reservation.

use std::net::IpAddr;

use anyhow::{Context as _, Result, bail, ensure};
use chain::{Released, WhenBusy};
use serde::Serialize;

use crate::arguments::ReleaseArguments;
use crate::arguments::target::Target;
use crate::context::Context;
use crate::node::{
    Extent, HeldAddress, Inventory, NetworkAttachment, attachments, held_addresses,
    select_to_release,
};
use crate::output::joined;
use crate::release::releaser::Releaser;

/// A released attachment. The keys are documented, and don't change their meaning.
#[derive(Debug, Serialize)]
struct Row<'a> {
    network: Option<&'a str>,
    #[serde(rename = "containerID")]
    container: Option<&'a str>,
    ifname: Option<&'a str>,
    addresses: Vec<IpAddr>,
    /// `record`, `conflist`, or `file`.
    by: &'static str,
}

pub(crate) fn run(arguments: &ReleaseArguments, context: &Context<'_>) -> Result<bool> {
    let node = &context.node();
    let target = arguments.target().map_err(anyhow::Error::msg)?;
    let releaser = Releaser::new(node, WhenBusy::Wait, arguments.timeout)?;
    let inventory = Inventory::read(node, Extent::All);
    let addresses = held_addresses(&inventory);
    let (files, all);
    let released: Vec<Result<Row<'_>>> = if arguments.file_only {
        files = self::files(addresses, &target)?;
        let files = files.iter();
        files.map(|held| release_file(&releaser, held)).collect()
    } else {
        all = attachments(addresses);
        let found = select_to_release(&all, &target).map_err(anyhow::Error::msg)?;
        let found = found.into_iter();
        found.map(|one| release(&releaser, one)).collect()
    };
    let (mut rows, mut failed) = (Vec::new(), Vec::new());
    for released in released {
        match released {
            Ok(row) => rows.push(row),
            Err(error) => failed.push(format!("{error:#}")),
        }
    }
    // Also if another release has failed.
    let lines = || rows.iter().map(Row::text).collect();
    context.output.print(&rows, lines)?;
    ensure!(failed.is_empty(), "{}", failed.join("; "));
    Ok(false)
}

fn release<'a>(releaser: &Releaser<'_>, attachment: &NetworkAttachment<'a>) -> Result<Row<'a>> {
    let released = releaser.release(attachment, |_| None);
    if let Released::Refused(reason) = released.with_context(|| attachment.to_string())? {
        bail!("{attachment}: {reason}");
    }
    Ok(Row {
        network: Some(attachment.network),
        container: Some(attachment.container),
        ifname: attachment.ifname,
        addresses: attachment.ips().collect(),
        by: match (attachment.ifname, attachment.content()) {
            (None, _) => "file",
            (Some(_), Some(_)) => "record",
            (Some(_), None) => "conflist",
        },
    })
}

fn release_file<'a>(releaser: &Releaser<'_>, held: &HeldAddress<'a>) -> Result<Row<'a>> {
    releaser.remove_file(held)?;
    Ok(Row {
        network: held.network,
        container: held.container,
        ifname: held.ifname,
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
    let files = found.iter().flat_map(|attachment| &attachment.addresses);
    let files = files.filter(|held| held.directory.is_some() && (ip.is_none() || held.ip == ip));
    let files: Vec<HeldAddress<'a>> = files.cloned().collect();
    ensure!(!files.is_empty(), "there is no file of such a reservation");
    if let (Some(ip), [_, _, ..]) = (ip, &files[..]) {
        let files = files.iter().filter_map(HeldAddress::file);
        let files = joined(files.map(|file| file.display().to_string()), " and ");
        bail!("{ip} is in {files}; name NETWORK ADDRESS");
    }
    Ok(files)
}

/// The only file of an address with an unknown holder.
fn unknown_holder<'a, 'b>(
    addresses: &'b [HeldAddress<'a>],
    target: &Target,
) -> Option<&'b HeldAddress<'a>> {
    let ip = target.ip()?;
    let names = target.network.iter().chain(&target.network_or_pool);
    let mut files = addresses.iter().filter(|held| {
        held.ip == Some(ip)
            && held.directory.is_some()
            && names.clone().all(|name| held.is_of(name))
    });
    let found = files.next()?;
    (found.container.is_none() && files.next().is_none()).then_some(found)
}

impl Row<'_> {
    fn text(&self) -> String {
        let by = match self.by {
            "record" => "through the chain of its record",
            "conflist" => "through the chain of the current conflist",
            _ => "by its file only",
        };
        let addresses = match self.addresses[..] {
            [] => "what it held".to_owned(),
            _ => joined(&self.addresses, ", "),
        };
        format!(
            "{} {} on {}: released {addresses} {by}",
            self.container.unwrap_or("unknown holder"),
            self.ifname.unwrap_or("-"),
            self.network.unwrap_or("?"),
        )
    }
}
