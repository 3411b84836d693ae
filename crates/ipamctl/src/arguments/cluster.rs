//! Arguments of the commands for a cluster's pools.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

/// A cluster: the one of this node's networks, or the one of a kubeconfig.
#[derive(Debug, Args)]
pub(crate) struct AnyClusterArguments {
    /// A network of the cluster, if conflists and records name several clusters.
    #[arg(long, value_name = "NAME")]
    pub(crate) network: Option<String>,
    /// The Kubernetes cluster of this kubeconfig. No conflist and no record is needed.
    #[arg(long, value_name = "FILE", conflicts_with = "network")]
    pub(crate) kubeconfig: Option<PathBuf>,
}

/// A cluster, and this machine as a node of it.
#[derive(Debug, Args)]
pub(crate) struct OwnClusterArguments {
    #[command(flatten)]
    pub(crate) any: AnyClusterArguments,
    /// This machine's node, if neither the kubeconfig nor the host's name is its name.
    #[arg(long, value_name = "NODE", requires = "kubeconfig")]
    pub(crate) node: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct BlocksArguments {
    #[command(flatten)]
    pub(crate) cluster: AnyClusterArguments,
    /// Only this pool.
    pub(crate) pool: Option<String>,
    /// Write a picture to this file as SVG; - is stdout.
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArguments {
    #[command(flatten)]
    pub(crate) cluster: AnyClusterArguments,
    /// File with pools, as in a catalogue of ipam-ds-rules; - is stdin.
    #[arg(required_unless_present = "from_whereabouts")]
    pub(crate) file: Option<PathBuf>,
    /// Claim the addresses that whereabouts has allocated to pods, in the pools with these addresses.
    #[arg(long, conflicts_with_all = ["file", "replace"])]
    pub(crate) from_whereabouts: bool,
    /// With --from-whereabouts: show what would be claimed, and claim nothing.
    #[arg(long, requires = "from_whereabouts")]
    pub(crate) dry_run: bool,
    /// Replace existing definitions, unless held addresses or blocks need them.
    #[arg(long)]
    pub(crate) replace: bool,
}

#[derive(Debug, Args)]
pub(crate) struct NodeForgetArguments {
    #[command(flatten)]
    pub(crate) cluster: AnyClusterArguments,
    /// The node's name.
    pub(crate) node: String,
    /// Don't ask for a confirmation.
    #[arg(long)]
    pub(crate) yes: bool,
    /// Show what would be released, and release nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CollectNodesArguments {
    #[command(flatten)]
    pub(crate) cluster: AnyClusterArguments,
    /// Time from the first run that finds a Node missing to the run that releases.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) gone_for: Duration,
    /// Show what would be released, and write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct NodeRegisterArguments {
    #[command(flatten)]
    pub(crate) cluster: OwnClusterArguments,
    /// Don't ask for a confirmation.
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReconcileArguments {
    #[command(flatten)]
    pub(crate) cluster: OwnClusterArguments,
    /// Mark all nodes, before any of them uses the restored cluster: no node gets a new address or
    /// block before each marked node has run this command.
    #[arg(long, conflicts_with = "node")]
    pub(crate) begin: bool,
    /// Nodes that may be missing in the restored cluster.
    #[arg(value_name = "NODE", requires = "begin")]
    pub(crate) nodes: Vec<String>,
}
