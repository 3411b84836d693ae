//! `ipamctl reconcile --begin`: marks all nodes, so that nothing new is given before each has
//! said what lives there.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use cni::NetworkName;
use etcd::{Client, Op, Range, Txn};

use crate::exit_status::Status;
use crate::output::Output;
use crate::shared_pools::{EtcdCluster, claimed_blocks};

/// Marks that are written at once.
const AT_ONCE: usize = 100;

/// The mark that lasts while the others are written. It names no node.
const BEGINNING: &str = ".begin";

pub(super) fn run(
    cluster: &EtcdCluster,
    client: &mut Client<'_>,
    named: &[String],
    output: Output,
) -> Result<Status> {
    for name in named {
        ensure!(
            name.parse::<NetworkName>().is_ok(),
            "{name:?} can't name a node"
        );
    }
    let keys = &cluster.cluster.keys;
    // First: a process that is killed here leaves a mark.
    client.put(keys.reconcile(BEGINNING), "")?;
    let mut nodes = known(cluster, client)?;
    nodes.extend(named.iter().cloned());
    ensure!(
        !nodes.is_empty(),
        "{} knows no node: name all of them, ipamctl reconcile --begin NODE…",
        cluster.path().display()
    );
    let all: Vec<&String> = nodes.iter().collect();
    for chunk in all.chunks(AT_ONCE) {
        let puts = chunk.iter().map(|it| Op::put(keys.reconcile(it), ""));
        client.txn(&Txn {
            then: puts.collect(),
            ..Txn::default()
        })?;
    }
    client.txn(&Txn {
        then: vec![Op::delete(keys.reconcile(BEGINNING))],
        ..Txn::default()
    })?;
    if output.json {
        Output::json(&nodes)?;
    } else {
        output.lines(
            [
                "nothing new is given before each of these nodes has run ipamctl reconcile:"
                    .to_owned(),
            ]
            .into_iter()
            .chain(nodes),
        )?;
    }
    Ok(Status::Fine)
}

/// The nodes that have not run `ipamctl reconcile`.
///
/// # Errors
///
/// Those of etcd.
pub(super) fn marked(
    cluster: &EtcdCluster,
    client: &mut Client<'_>,
) -> Result<Vec<String>, etcd::Error> {
    let keys = &cluster.cluster.keys;
    let found = client.range(&Range::prefix(keys.reconciles()).keys_only())?;
    let nodes = found.kvs.iter().map(|it| keys.parse_reconcile(&it.key));
    Ok(nodes.map(|it| it.unwrap_or("?").to_owned()).collect())
}

/// The nodes that etcd has something of.
fn known(cluster: &EtcdCluster, client: &mut Client<'_>) -> Result<BTreeSet<String>> {
    let keys = &cluster.cluster.keys;
    let mut nodes = BTreeSet::new();
    let blocks = claimed_blocks(cluster, client)?;
    nodes.extend(blocks.into_iter().filter_map(|it| Some(it.owner?.node)));
    for prefix in [keys.token(""), keys.nodes()] {
        let mut first = prefix.clone();
        let end = format!("{}0", prefix.trim_end_matches('/'));
        // One key of each node is enough.
        while let Some(found) = client
            .range(
                &Range::between(first.as_str(), end.as_str())
                    .keys_only()
                    .limit(1),
            )?
            .kvs
            .pop()
        {
            let key = String::from_utf8_lossy(&found.key).into_owned();
            let rest = key.strip_prefix(&prefix).unwrap_or_default();
            let (node, below) = rest.split_once('/').map_or((rest, ""), |it| (it.0, "/"));
            // The first key behind the node's: '/' is followed by '0'.
            first = match below {
                "" => format!("{key}\0"),
                _ => format!("{prefix}{node}0"),
            };
            if node.parse::<NetworkName>().is_ok() {
                nodes.insert(node.to_owned());
            }
        }
    }
    Ok(nodes)
}
