//! `ipamctl release`: releases one attachment, or the file of one reservation.

use std::net::IpAddr;

use anyhow::{Context, Result, bail, ensure};
use chain::{Released, WhenBusy};
use serde::Serialize;

use crate::arguments::ReleaseArguments;
use crate::arguments::target::Target;
use crate::exit_status::Status;
use crate::node::Node;
use crate::node::attachment::{Attached, attached, named_to_release};
use crate::node::held_address::Holding;
use crate::node::inventory::{Extent, Inventory};
use crate::output::Output;
use crate::release::by_chain::undo;
use crate::release::by_file::{path, remove};
use crate::release::deadline::Deadline;

/// What was released. The keys are documented, and don't change their meaning.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    network: Option<String>,
    #[serde(rename = "containerID")]
    container: Option<String>,
    ifname: Option<String>,
    addresses: Vec<IpAddr>,
    /// `record`, `conflist`, or `file`.
    by: &'static str,
}

pub(crate) fn run(arguments: &ReleaseArguments, node: &Node, output: Output) -> Result<Status> {
    let target = arguments.target().map_err(anyhow::Error::msg)?;
    let deadline = Deadline::after(arguments.timeout)?;
    let inventory = Inventory::read(node, Extent::All);
    inventory.warn();
    let released = if arguments.file_only {
        files(node, &inventory, &target, &deadline)?
    } else {
        attachments(node, &inventory, &target, &deadline)?
    };
    // What was released is said, whatever failed beside it.
    let (mut rows, mut failed) = (Vec::new(), Vec::new());
    for it in released {
        match it {
            Ok(row) => rows.push(row),
            Err(error) => failed.push(format!("{error:#}")),
        }
    }
    if output.json {
        Output::json(&rows)?;
    } else {
        output.lines(rows.iter().map(Row::text))?;
    }
    ensure!(failed.is_empty(), "{}", failed.join("; "));
    Ok(Status::Fine)
}

fn attachments(
    node: &Node,
    inventory: &Inventory,
    target: &Target,
    deadline: &Deadline,
) -> Result<Vec<Result<Row>>> {
    let all = attached(inventory.holdings());
    let found = named_to_release(&all, target).map_err(anyhow::Error::msg)?;
    let release = |it: &Attached<'_>| {
        match undo(node, it, WhenBusy::Wait, deadline, |_| None).with_context(|| it.describe())? {
            Released::Done => {}
            Released::Refused(reason) => bail!("{}: {reason}", it.describe()),
        }
        Ok(Row {
            network: Some(it.network.to_owned()),
            container: Some(it.container.to_owned()),
            ifname: it.ifname.map(str::to_owned),
            addresses: it.addresses().collect(),
            by: match (it.ifname, it.content()) {
                (None, _) => "file",
                (Some(_), Some(_)) => "record",
                (Some(_), None) => "conflist",
            },
        })
    };
    Ok(found.into_iter().map(release).collect())
}

/// Removes the files of the reservations that the target names.
fn files(
    node: &Node,
    inventory: &Inventory,
    target: &Target,
    deadline: &Deadline,
) -> Result<Vec<Result<Row>>> {
    let holdings = inventory.holdings();
    let all = attached(holdings.clone());
    let placed: Vec<&Holding<'_>> = match unknown_holder(&holdings, target) {
        Some(it) => vec![it],
        None => {
            let found = named_to_release(&all, target).map_err(anyhow::Error::msg)?;
            let ip = target
                .ip()
                .filter(|ip| found.iter().any(|it| holds(it, *ip)));
            let placed = found.into_iter().flat_map(|it| &it.holdings);
            let placed = placed.filter(|it| ip.is_none_or(|ip| it.ip == Some(ip)));
            placed.filter(|it| it.directory.is_some()).collect()
        }
    };
    ensure!(!placed.is_empty(), "there is no file of such a reservation");
    if let (Some(ip), [_, _, ..]) = (target.ip(), &placed[..]) {
        let paths: Vec<String> = placed.iter().map(|it| path(it)).collect();
        bail!("{ip} is in {}; name NETWORK ADDRESS", paths.join(" and "));
    }
    let remove = |it: &Holding<'_>| {
        remove(node, it, deadline)?;
        Ok(Row {
            network: it.network.map(str::to_owned),
            container: it.container.map(str::to_owned),
            ifname: it.ifname.map(str::to_owned),
            addresses: it.ip.into_iter().collect(),
            by: "file",
        })
    };
    Ok(placed.into_iter().map(remove).collect())
}

fn holds(it: &Attached<'_>, ip: IpAddr) -> bool {
    it.addresses().any(|its| its == ip)
}

/// The file of an address whose holder is unknown, if the target names an address, and nobody
/// is known to hold it.
fn unknown_holder<'a>(holdings: &'a [Holding<'a>], target: &Target) -> Option<&'a Holding<'a>> {
    let ip = target.ip()?;
    let mut files = holdings.iter().filter(|it| {
        it.ip == Some(ip)
            && it.directory.is_some()
            && target.network().is_none_or(|name| it.is_of(name))
    });
    let found = files.next()?;
    (found.container.is_none() && files.next().is_none()).then_some(found)
}

impl Row {
    fn text(&self) -> String {
        let ips: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        let by = match self.by {
            "record" => "through the chain of its record",
            "conflist" => "through the chain of today's conflist",
            _ => "by its file alone",
        };
        format!(
            "{} {} on {}: released {} {by}",
            self.container.as_deref().unwrap_or("unknown holder"),
            self.ifname.as_deref().unwrap_or("-"),
            self.network.as_deref().unwrap_or("?"),
            if ips.is_empty() {
                "what it held".to_owned()
            } else {
                ips.join(", ")
            },
        )
    }
}
