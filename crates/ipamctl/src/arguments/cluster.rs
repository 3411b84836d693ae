//! Arguments of the commands for a cluster's pools.

use std::path::PathBuf;

use clap::Args;

/// A cluster.
#[derive(Debug, Args)]
pub(crate) struct ClusterArguments {
    /// The network whose conflist leads to the cluster, if there are several clusters.
    #[arg(long, value_name = "NAME")]
    pub(crate) network: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct BlocksArguments {
    #[command(flatten)]
    pub(crate) cluster: ClusterArguments,
    /// Only this pool.
    pub(crate) pool: Option<String>,
    /// Write a picture to this file as SVG; - is stdout.
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArguments {
    #[command(flatten)]
    pub(crate) cluster: ClusterArguments,
    /// File with pools, as in a catalogue of ipam-ds-rules; - is stdin.
    pub(crate) file: PathBuf,
    /// Replace definitions that are there, unless addresses or blocks that are held need them.
    #[arg(long)]
    pub(crate) replace: bool,
}

#[derive(Debug, Args)]
pub(crate) struct NodeForgetArguments {
    #[command(flatten)]
    pub(crate) cluster: ClusterArguments,
    /// The node's name.
    pub(crate) node: String,
    /// Don't ask.
    #[arg(long)]
    pub(crate) yes: bool,
    /// Show what would be released, and release nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct NodeRegisterArguments {
    #[command(flatten)]
    pub(crate) cluster: ClusterArguments,
    /// Don't ask.
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReconcileArguments {
    #[command(flatten)]
    pub(crate) cluster: ClusterArguments,
    /// Before any node uses the restored cluster: nothing new is given until each node has run
    /// this command.
    #[arg(long)]
    pub(crate) begin: bool,
    /// Nodes that the restored cluster may not know.
    #[arg(value_name = "NODE", requires = "begin")]
    pub(crate) nodes: Vec<String>,
}
