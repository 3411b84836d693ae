//! The command line, as clap reads it: each command with its options. `sources` has the options of all
//! commands: the folders to read, or a cluster.

mod sources;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Parser, Subcommand};

pub(crate) use sources::Sources;

/// Shows who holds which address on this node or in a cluster, finds leaks and releases them, and
/// checks conflists.
///
/// It reads the conflists, the reservations and the records of attachments, those of
/// host-local as well. Only gc, release, import, node-forget and reconcile change anything.
#[derive(Debug, Parser)]
#[command(
    name = "ipamctl",
    version = plugin::version_with_commit(),
    after_help = "Exit status: 0 for success without a finding; 1 for a finding (a leak, a wrong conflist); 2 for wrong usage, a failure, or an unreadable file."
)]
pub struct Arguments {
    #[command(flatten)]
    pub(crate) sources: Sources,
    /// Print JSON. The manual documents the keys.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the size of each pool, and how full it is.
    Pools {
        /// Only this network, or this named pool.
        #[arg(long, value_name = "NAME")]
        network: Option<String>,
    },
    /// Show who holds which address.
    Ls(LsArguments),
    /// Show one attachment: its addresses, its chain, and the answer of each delegate.
    Show(Target),
    /// Draw the addresses of a network or a named pool.
    Map {
        /// Network, or named pool.
        network: String,
    },
    /// Show what nobody will release, each with the evidence and the command that releases it.
    ///
    /// The exit status is 1 if there is a leak.
    Leaks(ListArguments),
    /// Repeat failed DELs and undo ADDs that never ended; with a list, release what it doesn't name.
    Gc(GcArguments),
    /// Release the attachments of a container, or that of an address.
    Release(ReleaseArguments),
    /// Check conflists before a container uses them, or the pools of --kubeconfig.
    ///
    /// The exit status is 1 if there is a finding.
    Check(CheckArguments),
    /// Show the rule that decides for a container, and its pools. Nothing is reserved.
    Explain(ExplainArguments),
    /// Print metrics in Prometheus' text format, for node_exporter's textfile collector.
    Metrics,
    /// Define pools in etcd by a catalogue, or take over the addresses of whereabouts.
    Import(ImportArguments),
    /// Release the addresses of a cluster's node that is gone.
    NodeForget(NodeForgetArguments),
    /// Claim the addresses of this node's records again after a cluster's engine was restored.
    ///
    /// With a person's --kubeconfig if the node's own is refused. The exit status is 1 if another
    /// attachment has one of them now.
    Reconcile {
        /// This node's name in the cluster of --kubeconfig.
        #[arg(long, value_name = "NODE")]
        node: Option<String>,
    },
}

/// An attachment, as a person names it.
#[derive(Debug, Args)]
pub(crate) struct Target {
    /// Address, owner, or container ID: whole, or the unique beginning of one that a runtime has made.
    #[arg(value_name = "ID|ADDRESS|OWNER", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) word: String,
    /// Only on this network.
    #[arg(long, value_name = "NAME")]
    pub(crate) network: Option<String>,
    /// Only this interface.
    #[arg(long, value_name = "NAME")]
    pub(crate) ifname: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct LsArguments {
    /// Only this network, or this named pool.
    #[arg(long, value_name = "NAME")]
    pub(crate) network: Option<String>,
    /// Show the addresses of all nodes in a cluster's pools, too.
    #[arg(long)]
    pub(crate) all_nodes: bool,
    /// Print container IDs whole.
    #[arg(long)]
    pub(crate) no_trunc: bool,
}

/// The list of a runtime's containers.
#[derive(Debug, Args)]
pub(crate) struct ListArguments {
    /// File with the IDs of all containers except Docker's, one per line; - is stdin.
    #[arg(long, value_name = "FILE")]
    pub(crate) valid: Option<PathBuf>,
    /// Accept an empty list, or one that names nothing that is there.
    #[arg(long, requires = "valid")]
    pub(crate) yes: bool,
    /// Leave alone what is younger than this.
    #[arg(long, value_name = "AGE", default_value = "1m", value_parser = humantime::parse_duration)]
    pub(crate) older_than: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct GcArguments {
    #[command(flatten)]
    pub(crate) list: ListArguments,
    /// Only this network; may be repeated.
    #[arg(long, value_name = "NAME", requires = "valid")]
    pub(crate) network: Vec<String>,
    /// Show what would be released, and release nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReleaseArguments {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Time limit of the release, including waits for locks.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
    pub(crate) timeout: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArguments {
    /// Conflist to check, together with those of --conf-dir; by default, all of these.
    pub(crate) file: Option<PathBuf>,
    /// Run no plugin, not even for its version, and judge no folder that is on the file system of
    /// /: for a container that sees a part of the node.
    #[arg(long)]
    pub(crate) no_exec: bool,
    /// Leave warnings out.
    #[arg(long)]
    pub(crate) errors: bool,
    /// Read the catalogue NEW in the place of OLD.
    #[arg(long, hide = true, value_name = "OLD=NEW", value_parser = parse_pair::<PathBuf>)]
    pub(crate) pools_dir: Vec<(PathBuf, PathBuf)>,
    /// FILE must be what a runtime takes that uses the first file of its folder.
    #[arg(long, requires = "file")]
    pub(crate) default: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArguments {
    /// Conflist.
    pub(crate) file: PathBuf,
    /// Facts of the container: a key of `CNI_ARGS`, label:KEY, annotation:KEY, containerID
    /// or ifname.
    #[arg(value_name = "KEY=VALUE", value_parser = parse_pair::<String>)]
    pub(crate) facts: Vec<(String, String)>,
}

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

/// The text of a file; `-` is stdin.
pub(crate) fn read_text(file: &Path) -> Result<String> {
    if file == Path::new("-") {
        return io::read_to_string(io::stdin()).context("stdin");
    }
    fs::read_to_string(file).with_context(|| file.display().to_string())
}

fn parse_pair<T: for<'t> From<&'t str>>(text: &str) -> Result<(T, T), &'static str> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.into(), value.into())),
        _ => Err("it is not KEY=VALUE"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_clusters_options_may_be_before_and_behind_the_command() {
        let words = ["--kubeconfig", "file", "reconcile", "--node", "n1"];
        let mut swapped = words;
        swapped.rotate_left(2);
        for words in [words, swapped] {
            let line = ["ipamctl"].iter().chain(&words);
            let read = Arguments::try_parse_from(line).unwrap();
            assert!(read.sources.kubeconfig.is_some());
        }
    }

    #[test]
    fn the_collectors_looks_are_ten_minutes_apart() {
        let job = include_str!("../../../docs/kubernetes-cluster-pool/collector/cronjob.yaml");
        let words = job.lines().map(|line| line.trim().trim_start_matches("- "));
        let words = words.skip_while(|word| *word != "ipamctl");
        let words = words.take_while(|word| !word.ends_with(':'));
        let command = Arguments::parse_from(words).command;
        let Command::NodeForget(arguments) = command else {
            panic!("{command:?}");
        };
        assert!(arguments.deleted && arguments.yes);
        assert_eq!(arguments.between_looks, Duration::from_secs(600));
    }
}
