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
    NodeForgetArguments, NodeRegisterArguments, ReconcileArguments,
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
    after_help = "Exit status: 0; 1 if something was found (leaks, a wrong conflist); 2 for wrong usage, and if something could not be done."
)]
pub struct Arguments {
    #[command(flatten)]
    pub(crate) places: Places,
    /// Print JSON, with the keys that the manual documents.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Folders to look in.
#[derive(Clone, Debug, Args)]
pub(crate) struct Places {
    /// Folder with conflists; may be repeated.
    #[arg(long, global = true, value_name = "DIR", default_value = CONF_DIR)]
    pub(crate) conf_dir: Vec<PathBuf>,
    /// Folders with plugins, separated by colons; by default those of the runtimes.
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) cni_path: Option<String>,
    /// Folder with reservations, besides those that the conflists name.
    #[arg(long, global = true, value_name = "DIR", default_value = DATA_DIR)]
    pub(crate) data_dir: PathBuf,
    /// Folder with records, besides those that the conflists name.
    #[arg(long, global = true, value_name = "DIR", default_value = STATE_DIR)]
    pub(crate) state_dir: PathBuf,
    #[command(flatten)]
    pub(crate) docker: DockerPlaces,
}

impl Places {
    /// The options of the command line, where they aren't the defaults. Folders are absolute:
    /// a command that is printed may be run elsewhere.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        let mut add = |option: &str, path: &Path| {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            words.extend([option.to_owned(), path.display().to_string()]);
        };
        if self.conf_dir != [Path::new(CONF_DIR)] {
            self.conf_dir
                .iter()
                .for_each(|folder| add("--conf-dir", folder));
        }
        let docker = &self.docker;
        for (option, path, default) in [
            ("--data-dir", &self.data_dir, DATA_DIR),
            ("--state-dir", &self.state_dir, STATE_DIR),
            (
                "--docker-state-dir",
                &docker.docker_state_dir,
                DOCKER_STATE_DIR,
            ),
            ("--docker-socket", &docker.docker_socket, DOCKER_SOCKET),
            ("--docker-plugin", &docker.docker_plugin, DOCKER_PLUGIN),
        ] {
            if path != Path::new(default) {
                add(option, path);
            }
        }
        if let Some(path) = &self.cni_path {
            words.extend(["--cni-path".to_owned(), path.clone()]);
        }
        words
    }
}

/// Folder and sockets of Docker and of `docker-ipam-delegated`.
#[derive(Clone, Debug, Args)]
pub(crate) struct DockerPlaces {
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
    /// Show attachments that nobody will release, each with the evidence.
    ///
    /// The exit status is 1 if there are any.
    Leaks {
        #[command(flatten)]
        list: ListArguments,
    },
    /// Release the attachments of containers that are gone.
    ///
    /// An attachment is released through its chain if its container isn't in the list,
    /// it is old enough, and no call works on it. Attachments of Docker's are in no list:
    /// with --docker, Docker itself is asked.
    Gc(GcArguments),
    /// Release one attachment.
    Release(ReleaseArguments),
    /// Check conflists before a container uses them.
    ///
    /// The exit status is 1 if there is a finding.
    Check(CheckArguments),
    /// Say which pools and which address an ADD would get now. Nothing is reserved.
    Explain(ExplainArguments),
    /// Show the blocks of a cluster's pools, by node.
    Blocks(BlocksArguments),
    /// Define pools of a cluster, by a catalogue; or take over addresses of whereabouts.
    ///
    /// Either all pools of the file are valid, overlap with no other, and take nothing away
    /// from addresses and blocks that are held, or nothing is written.
    Import(ImportArguments),
    /// Release what a lost node of a cluster holds.
    ///
    /// It shows what it will release, and asks.
    NodeForget(NodeForgetArguments),
    /// Release what nodes of a Kubernetes cluster hold whose Nodes were deleted.
    ///
    /// The first run that finds a Node missing writes a note; a later run releases. The exit
    /// status is 1 if a person has to decide about a node.
    CollectNodes(CollectNodesArguments),
    /// Give this machine its node's name, which another machine has in the cluster.
    ///
    /// It shows that machine, and asks. Run it on the machine that keeps the name, when the
    /// other one is off or has another name.
    NodeRegister(NodeRegisterArguments),
    /// Tell a cluster that was restored from a snapshot what lives on this node.
    ///
    /// It claims again what the cluster has lost. The exit status is 1 if another container or node
    /// has some of it by now.
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
    /// File with the IDs of all containers, one a line, but Docker's; - is stdin.
    #[arg(long, value_name = "FILE")]
    pub(crate) valid: Option<PathBuf>,
    /// Accept an empty list: no container is valid.
    #[arg(long, requires = "valid")]
    pub(crate) none_valid: bool,
    /// Age from which an attachment may be released, and a pending ADD or DEL is a leak.
    #[arg(long, value_name = "AGE", default_value = "10m", value_parser = humantime::parse_duration)]
    pub(crate) older_than: Duration,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").args(["valid", "docker"]).required(true).multiple(true))]
pub(crate) struct GcArguments {
    #[command(flatten)]
    pub(crate) list: ListArguments,
    /// Release what docker-ipam-delegated has given and Docker doesn't have.
    #[arg(long)]
    pub(crate) docker: bool,
    /// Only this network; may be repeated.
    #[arg(long, value_name = "NAME")]
    pub(crate) network: Vec<String>,
    /// Release also what has a network namespace, and steps of builds.
    #[arg(long)]
    pub(crate) even_in_use: bool,
    /// Say what would be released, and release nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReleaseArguments {
    /// Container ID (whole, or a unique beginning), or address; or network and address.
    #[arg(required_unless_present_any = ["container", "address"], num_args = 1..=2, value_names = ["ID|ADDRESS", "ADDRESS"])]
    pub(crate) target: Vec<String>,
    /// The container with this ID, which has to be whole.
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
    /// Only remove the reservation's file, under the directory's lock; no plugin runs.
    #[arg(long)]
    pub(crate) file_only: bool,
    /// The longest that the release takes: locks and plugins together.
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = humantime::parse_duration)]
    pub(crate) timeout: Duration,
}

impl ReleaseArguments {
    /// What is to be released.
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
    /// Conflist to check, beside those of the folders; without it, all of these.
    pub(crate) file: Option<PathBuf>,
    /// Run no plugin, not even to ask for its version.
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
    /// Run no selector that isn't one of ours.
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
