//! The command line.

mod cluster;
pub(crate) mod target;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgGroup, Args, Parser, Subcommand};

use crate::arguments::target::Target;

pub(crate) use cluster::{
    AnyClusterArguments, BlocksArguments, CollectNodesArguments, ImportArguments,
    NodeForgetArguments, NodeRegisterArguments, OwnClusterArguments, ReconcileArguments,
};

/// Defaults of the folders and sockets.
const CONF_DIR: &str = "/etc/cni/net.d";
const DATA_DIR: &str = "/var/lib/cni/networks";
const STATE_DIR: &str = "/var/lib/cni/ipam-delegated";
const DOCKER_STATE_DIR: &str = "/var/lib/cni/docker-ipam-delegated";
const DOCKER_SOCKET: &str = "/run/docker.sock";
const DOCKER_PLUGIN: &str = "/run/docker/plugins/ipam-delegated.sock";

/// Shows who holds which address on this node, finds leaks and releases them, and checks
/// conflists.
///
/// It reads the conflists, the reservations and the records of attachments, those of
/// host-local as well. Only gc, release and the commands of a cluster change anything.
#[derive(Debug, Parser)]
#[command(
    name = "ipamctl",
    version = plugin::version_with_commit(),
    after_help = "Exit status: 0 for success without a finding; 1 for a finding (a leak, a wrong conflist); 2 for wrong usage, a failure, or an unreadable file."
)]
pub struct Arguments {
    #[command(flatten)]
    pub(crate) places: Places,
    /// Print JSON. The manual documents the keys.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Folders and sockets.
#[derive(Clone, Debug, Args)]
pub(crate) struct Places {
    /// Folder with conflists; may be repeated.
    #[arg(long, global = true, value_name = "DIR", default_value = CONF_DIR)]
    pub(crate) conf_dir: Vec<PathBuf>,
    /// Folders with plugins, separated by colons; by default the runtimes' folders.
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) cni_path: Option<String>,
    /// Folder with reservations, in addition to those in conflists.
    #[arg(long, global = true, value_name = "DIR", default_value = DATA_DIR)]
    pub(crate) data_dir: PathBuf,
    /// Folder with records, in addition to those in conflists.
    #[arg(long, global = true, value_name = "DIR", default_value = STATE_DIR)]
    pub(crate) state_dir: PathBuf,
    /// State folder of docker-ipam-delegated.
    #[arg(long, global = true, value_name = "DIR", default_value = DOCKER_STATE_DIR)]
    pub(crate) docker_state_dir: PathBuf,
    /// Socket of Docker's API.
    #[arg(long, global = true, value_name = "PATH", default_value = DOCKER_SOCKET)]
    pub(crate) docker_socket: PathBuf,
    /// Socket of docker-ipam-delegated.
    #[arg(long, global = true, value_name = "PATH", default_value = DOCKER_PLUGIN)]
    pub(crate) docker_plugin: PathBuf,
}

impl Places {
    /// The options of the command line, where they aren't the defaults. Folders are absolute:
    /// a printed command may be run elsewhere.
    pub(crate) fn words(&self) -> Vec<String> {
        let is_default = self.conf_dir == [Path::new(CONF_DIR)];
        let conf_dirs = self.conf_dir.iter().filter(|_| !is_default);
        let others = [
            ("--data-dir", &self.data_dir, DATA_DIR),
            ("--state-dir", &self.state_dir, STATE_DIR),
            (
                "--docker-state-dir",
                &self.docker_state_dir,
                DOCKER_STATE_DIR,
            ),
            ("--docker-socket", &self.docker_socket, DOCKER_SOCKET),
            ("--docker-plugin", &self.docker_plugin, DOCKER_PLUGIN),
        ];
        let others = others.into_iter();
        let others = others.filter(|(_, path, default)| *path != Path::new(default));
        let paths = conf_dirs.map(|folder| ("--conf-dir", folder));
        let paths = paths.chain(others.map(|(option, path, _)| (option, path)));
        let mut words = Vec::new();
        for (option, path) in paths {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            words.extend([option.to_owned(), path.display().to_string()]);
        }
        if let Some(path) = &self.cni_path {
            words.extend(["--cni-path".to_owned(), path.clone()]);
        }
        words
    }
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
    Show {
        /// Container ID (whole, or a unique beginning), or address; or network and address.
        #[arg(required = true, num_args = 1..=2, value_names = ["ID|ADDRESS", "ADDRESS"])]
        target: Vec<String>,
    },
    /// Draw the addresses of a network or a named pool.
    Map {
        /// Network, or named pool.
        network: String,
        /// Write the picture to this file as SVG; - is stdout.
        #[arg(long, value_name = "FILE")]
        svg: Option<PathBuf>,
    },
    /// Show leaked attachments, each with the evidence.
    ///
    /// The exit status is 1 if there is a leak.
    Leaks {
        #[command(flatten)]
        list: ListArguments,
    },
    /// Release the attachments of containers that are gone.
    ///
    /// An attachment is released through its chain if its container isn't in the list, it is
    /// old enough, and no call of it is running. No list has Docker's attachments: with --docker,
    /// Docker is asked.
    Gc(GcArguments),
    /// Release one attachment.
    Release(ReleaseArguments),
    /// Check conflists before a container uses them.
    ///
    /// The exit status is 1 if there is a finding.
    Check(CheckArguments),
    /// Show the pools and the addresses that an ADD would get now. Nothing is reserved.
    Explain(ExplainArguments),
    /// Show the blocks of a cluster's pools, by node.
    Blocks(BlocksArguments),
    /// Define pools of a cluster, by a catalogue; or take over addresses of whereabouts.
    ///
    /// Nothing is written if a pool of the file is invalid or overlaps with another, or if a held
    /// address or block would lose its range, gateway or block size.
    Import(ImportArguments),
    /// Release the addresses and blocks of a lost node of a cluster.
    ///
    /// It lists them, and asks for a confirmation.
    NodeForget(NodeForgetArguments),
    /// Release the addresses and blocks of nodes whose Kubernetes Nodes were deleted.
    ///
    /// The first run that finds a Node missing writes a note; a later run releases. The exit
    /// status is 1 if a person has to decide about a node.
    CollectNodes(CollectNodesArguments),
    /// Give this machine its node's name, which another machine has in the cluster.
    ///
    /// It shows that machine, and asks for a confirmation. Run it on the machine that keeps the
    /// name, after the other one is off or has another name.
    NodeRegister(NodeRegisterArguments),
    /// Claim this node's addresses and blocks again after a cluster was restored from a snapshot.
    ///
    /// The exit status is 1 if another container or node has one of them now.
    Reconcile(ReconcileArguments),
    /// Print metrics in Prometheus' text format, for node_exporter's textfile collector.
    Metrics,
}

#[derive(Debug, Args)]
pub(crate) struct LsArguments {
    /// Only this network, or this named pool.
    #[arg(long, value_name = "NAME")]
    pub(crate) network: Option<String>,
    /// Show the addresses of all nodes in a cluster's pools, and no others.
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
    /// Accept an empty list, or one of names: no container of these networks is running.
    #[arg(long, requires = "valid")]
    pub(crate) none_valid: bool,
    /// Minimum age of an attachment to be released, and of a pending ADD or DEL to be a leak.
    #[arg(long, value_name = "AGE", default_value = "10m", value_parser = humantime::parse_duration)]
    pub(crate) older_than: Duration,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").args(["valid", "docker"]).required(true).multiple(true))]
pub(crate) struct GcArguments {
    #[command(flatten)]
    pub(crate) list: ListArguments,
    /// Release attachments of docker-ipam-delegated that Docker doesn't have.
    #[arg(long)]
    pub(crate) docker: bool,
    /// Only this network; may be repeated.
    #[arg(long, value_name = "NAME")]
    pub(crate) network: Vec<String>,
    /// Also release attachments whose network namespace exists or is unknown, and build steps.
    #[arg(long)]
    pub(crate) even_in_use: bool,
    /// Show what would be released, and release nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReleaseArguments {
    /// Container ID (whole, or a unique beginning), or address; or network and address.
    #[arg(required_unless_present_any = ["container", "address"], num_args = 1..=2, value_names = ["ID|ADDRESS", "ADDRESS"])]
    pub(crate) target: Vec<String>,
    /// Container ID; it has to be whole.
    #[arg(long, value_name = "ID", conflicts_with = "target")]
    pub(crate) container: Option<String>,
    /// The holder of this address.
    #[arg(long, value_name = "ADDRESS", conflicts_with = "target")]
    pub(crate) address: Option<IpAddr>,
    /// With --container or --address: only on this network.
    #[arg(long, value_name = "NAME", conflicts_with = "target")]
    pub(crate) network: Option<String>,
    /// With --container or --address: only this interface.
    #[arg(long, value_name = "NAME", conflicts_with = "target")]
    pub(crate) ifname: Option<String>,
    /// Only remove the reservation's file, under the directory's lock, without any plugin.
    #[arg(long)]
    pub(crate) file_only: bool,
    /// Time limit of the release, including waits for locks.
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = humantime::parse_duration)]
    pub(crate) timeout: Duration,
}

impl ReleaseArguments {
    /// The attachment to release.
    ///
    /// # Errors
    ///
    /// As [`Target::read`].
    pub(crate) fn target(&self) -> Result<Target, String> {
        if !self.target.is_empty() {
            return Target::read(&self.target);
        }
        Ok(Target {
            container: self.container.clone(),
            ip: self.address,
            network: self.network.clone(),
            ifname: self.ifname.clone(),
            ..Target::default()
        })
    }
}

#[derive(Debug, Args)]
pub(crate) struct CheckArguments {
    /// Conflist to check, together with those of --conf-dir; by default, all of these.
    pub(crate) file: Option<PathBuf>,
    /// Run no plugin, not even for its version.
    #[arg(long)]
    pub(crate) no_exec: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArguments {
    /// Conflist.
    pub(crate) file: PathBuf,
    /// Facts of the container: a key of `CNI_ARGS`, label:KEY, annotation:KEY, containerID
    /// or ifname.
    #[arg(value_name = "KEY=VALUE", value_parser = fact)]
    pub(crate) facts: Vec<(String, String)>,
    /// Run no selector of other projects.
    #[arg(long)]
    pub(crate) no_exec: bool,
}

fn fact(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("it is not KEY=VALUE".to_owned()),
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
}
