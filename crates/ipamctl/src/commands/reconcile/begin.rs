//! `ipamctl reconcile --begin`: marks all nodes, so that nothing new is given before each has
//! said what lives there.

use std::process::ExitCode;

use anyhow::{Result, ensure};
use cluster::Engine;
use cluster::restore::mark_nodes;
use cni::NetworkName;

use crate::output::Output;
use crate::shared_pools::SharedCluster;

pub(super) fn run(
    cluster: &SharedCluster,
    engine: &mut dyn Engine,
    named: &[String],
    output: Output,
) -> Result<ExitCode> {
    for name in named {
        ensure!(
            name.parse::<NetworkName>().is_ok(),
            "{name:?} can't name a node"
        );
    }
    let nodes = mark_nodes(engine, named)?;
    ensure!(
        !nodes.is_empty(),
        "{} knows no node: name all of them, ipamctl reconcile --begin NODE…",
        cluster.path().display()
    );
    output.print(&nodes, || {
        let text = "nothing new is given before each of these nodes has run ipamctl reconcile:";
        let mut lines = vec![text.to_owned()];
        lines.extend(nodes.clone());
        lines
    })?;
    Ok(ExitCode::SUCCESS)
}
