//! The folders and the cluster that a command reads, and their options in a command that is printed.

use std::path::{Path, PathBuf, absolute};
use std::slice::from_ref;

use chain::record::STATE_DIR;
use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser};
use reservations::DATA_DIR;

use crate::output::quoted;

/// Defaults of the folders.
const CONF_DIR: &str = "/etc/cni/net.d";
const DOCKER_STATE_DIR: &str = "/var/lib/cni/docker-ipam-delegated";

/// Folders, or a cluster.
#[derive(Clone, Debug, Args)]
pub(crate) struct Sources {
    /// Folder with conflists; may be repeated.
    #[arg(long, global = true, value_name = "DIR", default_value = CONF_DIR, value_parser = folder())]
    pub(crate) conf_dir: Vec<PathBuf>,
    /// Folders with plugins, separated by colons; by default the runtimes' folders.
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) cni_path: Option<String>,
    /// Folder with reservations, in addition to those in conflists.
    #[arg(long, global = true, value_name = "DIR", default_value = DATA_DIR, value_parser = folder())]
    pub(crate) data_dir: PathBuf,
    /// Folder with records, in addition to those in conflists.
    #[arg(long, global = true, value_name = "DIR", default_value = STATE_DIR, value_parser = folder())]
    pub(crate) state_dir: PathBuf,
    /// State folder of docker-ipam-delegated.
    #[arg(long, global = true, value_name = "DIR", default_value = DOCKER_STATE_DIR, value_parser = folder())]
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

/// Reads an absolute path: a printed command may be run elsewhere, and conflists name the same
/// folders.
fn folder() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(absolute)
}

impl Sources {
    /// The beginning of a printed command, with quotes for a shell: `ipamctl`, and the options of
    /// the command line where they aren't the defaults.
    pub(crate) fn command(&self) -> String {
        let mut words = vec!["ipamctl".into()];
        let mut add = |option: &'static str, paths: &[PathBuf], default: &str| {
            let changed = paths.iter().filter(|_| *paths != [Path::new(default)]);
            let pairs = changed.map(|path| [option.into(), path.display().to_string().into()]);
            words.extend(pairs.flatten());
        };
        add("--conf-dir", &self.conf_dir, CONF_DIR);
        add("--data-dir", from_ref(&self.data_dir), DATA_DIR);
        add("--state-dir", from_ref(&self.state_dir), STATE_DIR);
        let docker = from_ref(&self.docker_state_dir);
        add("--docker-state-dir", docker, DOCKER_STATE_DIR);
        add("--kubeconfig", self.kubeconfig.as_slice(), "");
        let paths = self.cni_path.iter();
        words.extend(paths.flat_map(|path| ["--cni-path".into(), path.into()]));
        quoted(&words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        sources: Sources,
    }

    #[test]
    fn a_folder_has_one_path() {
        let here = std::env::current_dir().unwrap();
        let read = CommandLine::parse_from(["ipamctl", "--data-dir", "networks"]);
        let path = here.join("networks");
        assert_eq!(read.sources.data_dir, path);
        let command = format!("ipamctl --data-dir {}", path.display());
        assert_eq!(read.sources.command(), command);
    }
}
