//! `ipamctl etcd import`: a catalogue of pools into etcd, all of it or nothing.

mod catalogue;

use anyhow::{Result, bail};
use cluster::import::{Imported, import};
use cluster::{Engine as _, Key};
use cni::NetworkName;
use serde::Serialize;

use crate::arguments::ImportArguments;
use crate::exit_status::Status;
use crate::node::Node;
use crate::output::Output;
use crate::shared_pools::EtcdCluster;

/// A pool, and whether it was written. The keys are documented, and don't change their meaning.
#[derive(Clone, Debug, Serialize)]
struct Row {
    pool: NetworkName,
    /// `created`, `replaced`, `unchanged`.
    outcome: &'static str,
}

pub(crate) fn run(arguments: &ImportArguments, node: &Node, output: Output) -> Result<Status> {
    let cluster = EtcdCluster::one(&node.networks, arguments.cluster.network.as_deref())?;
    let mut engine = cluster.engine();
    let path = |name: &str| engine.path(&Key::Pool(name.to_owned()));
    let pools = catalogue::read(&arguments.file, path)?;
    let rows: Vec<Row> = match import(&mut engine, &pools, arguments.replace) {
        Ok(outcomes) => outcomes.into_iter().map(Row::from).collect(),
        Err(error) if is_too_large(&error.msg) => bail!(
            "the pools are more than etcd takes in one transaction (--max-txn-ops, 128 unless set; --max-request-bytes): import the file in parts: {}",
            error.msg
        ),
        Err(error) => bail!(error.msg),
    };
    let line = |row: &Row| format!("{}: {}", row.pool, row.outcome);
    output.print(&rows, || rows.iter().map(line).collect())?;
    Ok(Status::Fine)
}

fn is_too_large(message: &str) -> bool {
    message.contains("too many operations") || message.contains("too large")
}

impl From<(NetworkName, Imported)> for Row {
    fn from((pool, imported): (NetworkName, Imported)) -> Self {
        let outcome = match imported {
            Imported::Created => "created",
            Imported::Replaced => "replaced",
            Imported::Unchanged => "unchanged",
        };
        Self { pool, outcome }
    }
}
