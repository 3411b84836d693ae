//! `ipamctl release`: releases one attachment, or the file of one reservation.

use std::net::IpAddr;

use anyhow::{Context, Result, bail, ensure};
use chain::{Released, WhenBusy};
use reservations::{DataDir, Settings, State};
use serde::Serialize;

use crate::arguments::{ReleaseArguments, Target};
use crate::attached::{Attached, attached, named_to_release};
use crate::commands::Status;
use crate::holding::Holding;
use crate::inventory::{Extent, Inventory};
use crate::node::Node;
use crate::output::Output;
use crate::undo::undo;

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
    let target = Target::read(&arguments.target).map_err(anyhow::Error::msg)?;
    let inventory = Inventory::read(node, Extent::All);
    inventory.warn();
    let released = if arguments.file_only {
        files(node, &inventory, &target)?
    } else {
        attachments(node, &inventory, &target)?
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

fn attachments(node: &Node, inventory: &Inventory, target: &Target) -> Result<Vec<Result<Row>>> {
    let all = attached(inventory.holdings());
    let found = named_to_release(&all, target).map_err(anyhow::Error::msg)?;
    let release = |it: &Attached<'_>| {
        match undo(node, it, WhenBusy::Wait, |_| None).with_context(|| it.describe())? {
            Released::Done => {}
            Released::Refused(reason) => bail!("{}: {reason}", it.describe()),
        }
        Ok(Row {
            network: Some(it.network.to_owned()),
            container: Some(it.container.to_owned()),
            ifname: it.ifname.map(str::to_owned),
            addresses: it.addresses().collect(),
            by: if it.content().is_some() {
                "record"
            } else {
                "conflist"
            },
        })
    };
    Ok(found.into_iter().map(release).collect())
}

/// Removes the files of the reservations that the target names.
fn files(node: &Node, inventory: &Inventory, target: &Target) -> Result<Vec<Result<Row>>> {
    let holdings = inventory.holdings();
    let placed: Vec<&Holding<'_>> = match target {
        // Nobody may be known to hold it: a file that can't be read.
        Target::Address(ip, network) => holdings
            .iter()
            .filter(|it| it.ip == Some(*ip) && it.directory.is_some())
            .filter(|it| network.as_ref().is_none_or(|name| it.is_of(name)))
            .collect(),
        Target::Container(_) => {
            let all = attached(holdings.clone());
            let found = named_to_release(&all, target).map_err(anyhow::Error::msg)?;
            let container = found[0].container;
            holdings
                .iter()
                .filter(|it| it.container == Some(container) && it.directory.is_some())
                .collect()
        }
    };
    match (&placed[..], target) {
        ([], _) => bail!("there is no file of such a reservation"),
        ([_, _, ..], Target::Address(ip, _)) => {
            let paths: Vec<String> = placed.iter().map(|it| path(it)).collect();
            bail!("{ip} is in {}; name NETWORK ADDRESS", paths.join(" and "));
        }
        _ => {}
    }
    Ok(placed.into_iter().map(|it| remove(node, it)).collect())
}

fn path(it: &Holding<'_>) -> String {
    let directory = it.directory.map(|it| it.path.display().to_string());
    let ip = it.ip.map(|ip| ip.to_string());
    format!(
        "{}/{}",
        directory.unwrap_or_default(),
        ip.unwrap_or_default()
    )
}

/// Removes the file of a reservation, while its directory is locked.
fn remove(node: &Node, it: &Holding<'_>) -> Result<Row> {
    let (Some(directory), Some(ip)) = (it.directory, it.ip) else {
        bail!("it has no file");
    };
    ensure!(
        directory.shared_by.is_none(),
        "{} is in etcd, and no file: release it without --file-only",
        path(it)
    );
    let data_dir = directory
        .path
        .parent()
        .context("the directory has no parent")?;
    // The index of the allocator, so that it stays up to date.
    let same = node
        .networks
        .iter()
        .find(|it| it.folders.data_dir == data_dir);
    let cache_dir = match same {
        Some(network) => network.folders.cache_dir.clone(),
        None => ipam_da_host_local::Folders::read(&cni::Object::new())?.cache_dir,
    };
    let settings = Settings {
        data_dir: data_dir.to_owned(),
        cache_dir,
        network: directory.name.clone(),
        reclaim_before: None,
        cancellation: None,
    };
    let data_dir = DataDir::new(settings);
    let mut store = data_dir
        .open(&directory.name)?
        .with_context(|| format!("{} is gone", directory.path.display()))?;
    let state = store
        .state(ip)?
        .with_context(|| format!("{} is gone", path(it)))?;
    if let (State::Reserved(now), Some(container)) = (&state, it.container) {
        ensure!(
            now.container_id == container,
            "{} was given to {now} meanwhile",
            path(it)
        );
    }
    store.release(ip, state)?;
    Ok(Row {
        network: it.network.map(str::to_owned),
        container: it.container.map(str::to_owned),
        ifname: it.ifname.map(str::to_owned),
        addresses: vec![ip],
        by: "file",
    })
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
