//! Arguments of the commands for a cluster's pools.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct ImportArguments {
    /// File with pools, as in a catalogue of ipam-ds-rules; - is stdin. For etcd: in Kubernetes,
    /// pools are objects for kubectl apply.
    #[arg(required_unless_present = "from_whereabouts")]
    pub(crate) file: Option<PathBuf>,
    /// Claim the addresses that whereabouts has allocated to pods, by --kubeconfig.
    #[arg(long, conflicts_with = "file", requires_all = ["pool", "network"])]
    pub(crate) from_whereabouts: bool,
    /// The pool with these addresses.
    #[arg(long, value_name = "NAME", requires = "from_whereabouts")]
    pub(crate) pool: Option<cni::NetworkName>,
    /// The network of these addresses, by its name in the configuration.
    #[arg(long, value_name = "NAME", requires = "from_whereabouts")]
    pub(crate) network: Option<cni::NetworkName>,
}

#[derive(Debug, Args)]
pub(crate) struct NodeForgetArguments {
    /// The node's name.
    #[arg(required_unless_present = "deleted")]
    pub(crate) node: Option<String>,
    /// The machine that held the addresses, if several machines did under this name.
    #[arg(long, value_name = "ID", conflicts_with = "deleted")]
    pub(crate) machine: Option<String>,
    /// All nodes without a Node object, at two looks ten minutes apart, by --kubeconfig.
    #[arg(long, conflicts_with = "node")]
    pub(crate) deleted: bool,
    /// Release them. Without it, they are shown, and the exit status is 1.
    #[arg(long)]
    pub(crate) yes: bool,
    /// Time between the two looks. A Node that was deleted by mistake is back by then.
    #[arg(long, hide = true, default_value = "10m", value_parser = humantime::parse_duration)]
    pub(crate) between_looks: Duration,
}
