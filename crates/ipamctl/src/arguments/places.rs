//! The folders and the cluster that a command reads.

use std::path::{Path, PathBuf, absolute};
use std::slice::from_ref;

use clap::Args;

/// Defaults of the folders.
const CONF_DIR: &str = "/etc/cni/net.d";
const DATA_DIR: &str = "/var/lib/cni/networks";
const STATE_DIR: &str = "/var/lib/cni/ipam-delegated";
const DOCKER_STATE_DIR: &str = "/var/lib/cni/docker-ipam-delegated";

/// Folders, or a cluster.
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
    /// The cluster's pools in the Kubernetes API of this kubeconfig, of all nodes, and nothing of
    /// this machine.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    // Scripts of others pass these two to every command. Nothing here asks Docker or its daemon.
    #[arg(long, global = true, hide = true)]
    docker_socket: Option<PathBuf>,
    #[arg(long, global = true, hide = true)]
    docker_plugin: Option<PathBuf>,
}

impl Places {
    /// The options of the command line, where they aren't the defaults. Folders are absolute:
    /// a printed command may be run elsewhere.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        let mut add = |option: &str, paths: &[PathBuf], default: &str| {
            let is_changed = *paths != [Path::new(default)];
            for path in paths.iter().filter(|_| is_changed) {
                let path = absolute(path).unwrap_or_else(|_| path.clone());
                words.extend([option.to_owned(), path.display().to_string()]);
            }
        };
        let (data, state, docker) = (&self.data_dir, &self.state_dir, &self.docker_state_dir);
        add("--conf-dir", &self.conf_dir, CONF_DIR);
        add("--data-dir", from_ref(data), DATA_DIR);
        add("--state-dir", from_ref(state), STATE_DIR);
        add("--docker-state-dir", from_ref(docker), DOCKER_STATE_DIR);
        add("--kubeconfig", self.kubeconfig.as_slice(), "");
        if let Some(path) = &self.cni_path {
            words.extend(["--cni-path".to_owned(), path.clone()]);
        }
        words
    }
}
