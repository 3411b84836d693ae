//! `ipamctl import`: defines the pools of a catalogue, all of them or none.

mod catalogue;

use std::process::ExitCode;

use anyhow::Result;
use cluster::Key;
use cluster::import::{Imported, import};
use cni::NetworkName;
use serde::Serialize;

use crate::arguments::ImportArguments;
use crate::node::Node;
use crate::output::Output;
use crate::shared_pools::SharedCluster;

/// A pool, and whether it was written. The keys are documented, and don't change their meaning.
#[derive(Clone, Debug, Serialize)]
struct Row {
    pool: NetworkName,
    /// `created`, `replaced`, `unchanged`.
    outcome: &'static str,
}

pub(crate) fn run(arguments: &ImportArguments, node: &Node, output: Output) -> Result<ExitCode> {
    let cluster = SharedCluster::one(&node.networks, arguments.cluster.network.as_deref())?;
    let mut engine = cluster.engine();
    let path = |name: &str| engine.path(&Key::Pool(name.to_owned()));
    let pools = catalogue::read(&arguments.file, path)?;
    let imported = import(&mut *engine, &pools, arguments.replace);
    let imported = imported.map_err(|error| anyhow::Error::msg(error.msg))?;
    let rows: Vec<Row> = imported.into_iter().map(Row::from).collect();
    let line = |row: &Row| format!("{}: {}", row.pool, row.outcome);
    output.print(&rows, || rows.iter().map(line).collect())?;
    Ok(ExitCode::SUCCESS)
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
