//! `ipamctl ls --all-nodes`: the addresses of a cluster's pools, by whatever node.

use std::net::IpAddr;
use std::time::SystemTime;

use anyhow::{Result, ensure};
use cluster::Holder;
use cni::NetworkName;
use serde::Serialize;

use super::short;
use crate::arguments::LsArguments;
use crate::exit_status::Status;
use crate::node::Node;
use crate::output::table::{Align, Table};
use crate::output::times::ago;
use crate::output::{Output, warn};
use crate::shared_pools::{Member, claimed_blocks, since};

/// An address. The keys are documented, and don't change their meaning.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    address: IpAddr,
    pool: String,
    /// `null`, as all that follows, if the content in etcd isn't ours.
    node: Option<String>,
    network: Option<String>,
    #[serde(rename = "containerID")]
    container: Option<String>,
    ifname: Option<String>,
    since: Option<String>,
}

impl From<Member> for Row {
    fn from(it: Member) -> Self {
        let text = |f: fn(&Holder) -> &String| it.holder.as_ref().map(|it| f(it).clone());
        Self {
            address: it.ip,
            pool: it.pool.to_string(),
            node: text(|it| &it.node),
            network: text(|it| &it.network),
            container: text(|it| &it.container_id),
            ifname: text(|it| &it.ifname),
            since: text(|it| &it.since),
        }
    }
}

pub(super) fn run(arguments: &LsArguments, node: &Node, output: Output) -> Result<Status> {
    ensure!(
        !node.clusters.is_empty(),
        "no conflist leads to a cluster: none has ipam-da-etcd or ipam-ds-etcd among its delegates"
    );
    let mut members = Vec::new();
    for cluster in &node.clusters {
        let mut engine = cluster.engine();
        members.extend(cluster.members(&mut engine)?);
        let mut in_blocks: Vec<NetworkName> = claimed_blocks(&mut engine)?
            .into_iter()
            .map(|it| it.pool)
            .collect();
        in_blocks.sort();
        in_blocks.dedup();
        if !in_blocks.is_empty() {
            let pools: Vec<&str> = in_blocks.iter().map(NetworkName::as_str).collect();
            warn(&format!(
                "{} doesn't have the addresses of these pools, which are given in blocks (ipamctl blocks): {}",
                cluster.path().display(),
                pools.join(", ")
            ));
        }
    }
    if let Some(name) = &arguments.network {
        let is_of = |it: &Holder| it.network == *name;
        members.retain(|it| it.pool.as_str() == name || it.holder.as_ref().is_some_and(is_of));
    }
    if output.json {
        let rows: Vec<Row> = members.into_iter().map(Row::from).collect();
        Output::json(&rows)?;
    } else if members.is_empty() {
        warn("etcd has no address of a node");
    } else {
        output.table(&table(&members, arguments.no_trunc))?;
    }
    Ok(Status::Fine)
}

fn table(members: &[Member], no_trunc: bool) -> Table {
    let now = SystemTime::now();
    let mut table = Table::new(&[
        ("ADDRESS", Align::Left),
        ("POOL", Align::Left),
        ("NODE", Align::Left),
        ("NETWORK", Align::Left),
        ("CONTAINER", Align::Left),
        ("IF", Align::Left),
        ("SINCE", Align::Left),
    ]);
    for it in members {
        let holder = it.holder.as_ref();
        let text = |f: fn(&Holder) -> &String| holder.map_or("?", |it| f(it).as_str()).to_owned();
        let container = text(|it| &it.container_id);
        table.row(
            None,
            [
                it.ip.to_string(),
                it.pool.to_string(),
                text(|it| &it.node),
                text(|it| &it.network),
                if no_trunc {
                    container
                } else {
                    short(&container).to_owned()
                },
                text(|it| &it.ifname),
                holder
                    .and_then(since)
                    .map_or_else(|| "?".to_owned(), |since| ago(since, now)),
            ],
        );
    }
    table
}
