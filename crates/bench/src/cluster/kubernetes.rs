//! `cargo xtask bench kubernetes`: ADDs with Kubernetes' API, compared with as many bare creations
//! over as many connections, and with whereabouts, in the same run.

mod counters;
mod filling;
mod peers;
mod scale;
mod target;

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use clap::Args;
use serde_json::json;

use super::{Progress, again_in_release, interrupt, measure, write};
use crate::table::Table;
use target::Kubernetes;

/// Arguments of `cargo xtask bench kubernetes`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The executable of whereabouts 0.5.4, the last release that knows etcd, too. By default the
    /// one beside the API server's executable, if there is one.
    #[arg(long, value_name = "PATH")]
    whereabouts: Option<PathBuf>,
}

/// Measures, and writes bench-kubernetes.json and bench-kubernetes.md to the folder.
pub(crate) fn run(arguments: &Arguments, out: &Path) -> Result<()> {
    if cfg!(debug_assertions) {
        // The callers run in this process.
        return again_in_release();
    }
    interrupt::watch()?;
    let whereabouts = match &arguments.whereabouts {
        Some(path) => {
            ensure!(path.exists(), "{} is not there", path.display());
            Some(path.clone())
        }
        None => peers::whereabouts(),
    };
    let target = Kubernetes::new()?;
    let progress = Progress::start();
    let before = scale::measure(&target)?;
    let figures = measure(&target, &progress)?;
    progress.tell("lists");
    let after = scale::measure(&target)?;
    progress.tell("executables of peers");
    let peers = peers::measure(&target, whereabouts.as_deref())?;
    let more = [peers::table(&peers), scale::table(&[&before, &after])];
    for table in figures.tables().iter().chain(&more) {
        println!("\n{table}");
    }
    let mut json = figures.to_json();
    json["peers"] = peers.iter().map(peers::Measured::to_json).collect();
    json["scale"] = json!([before.to_json(), after.to_json()]);
    let mut page = figures.page(EXPLANATION);
    for table in more.iter().map(Table::to_string) {
        write!(page, "\n{table}")?;
    }
    write(out, "bench-kubernetes", &json, &page, &progress)
}

/// The page's explanation of this engine.
const EXPLANATION: &str = "\
The kinds, rights
and policies are those of [kubernetes-cluster-pool](kubernetes-cluster-pool); each node's token is bound to a pod on it.

- **Two nodes** take turns when many ask at once, each with separate folders, so that neither knows what the other one gives.
- **whereabouts** 0.5.4 is beside ours on the same etcd and on the same API server, as executables, each call for another pod.
  It ends a call after two minutes.
- **Reserved addresses** are written to etcd in the form in which the API server has written one.
";
