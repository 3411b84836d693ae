use std::path::PathBuf;

use anyhow::{Result, ensure};
use chain::record::STATE_DIR;
use clap::Parser;
use reservations::DATA_DIR;

/// Installs the plugins of ipam-delegated on a node, and keeps them there.
///
/// The entry point of the image. Folders of the node are mounted at their own paths. It runs
/// as root, and needs no capability if the folders belong to root; a folder of another user
/// needs DAC_OVERRIDE.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "ipam-installer",
    version = plugin::version_with_commit(),
    after_help = "Exit status: 0; 1 if something could not be done, with a message that names it; 2 for wrong usage."
)]
pub(crate) struct Arguments {
    /// Folder for the plugins.
    #[arg(long, default_value = "/opt/cni/bin")]
    pub(crate) plugins: PathBuf,
    /// Folder for ipamctl; without it, ipamctl is not installed.
    #[arg(long)]
    pub(crate) sbin: Option<PathBuf>,
    /// Folder with a catalogue of pools, such as a mounted ConfigMap. May be repeated, each
    /// with a --pools.
    #[arg(long)]
    pub(crate) pools_from: Vec<PathBuf>,
    /// Where the catalogue goes: poolsDir of conflists.
    #[arg(long, default_value = "/etc/cni/ipam.d")]
    pub(crate) pools: Vec<PathBuf>,
    /// Folder with conflists, such as a mounted ConfigMap.
    #[arg(long)]
    pub(crate) conflists_from: Option<PathBuf>,
    /// Where conflists go, and where the runtime reads them.
    #[arg(long, default_value = "/etc/cni/net.d")]
    pub(crate) conflists: PathBuf,
    /// Name of this node: of NAME.json and NAME.on.NODE.json, it takes its own, and
    /// ${podCIDR} in them is this node's.
    #[arg(long)]
    pub(crate) node: Option<String>,
    /// Install, and end.
    #[arg(long, conflicts_with_all = ["uninstall", "probe"])]
    pub(crate) once: bool,
    /// Remove all that was installed, unless reservations or records remain. The other options are
    /// those of the installation.
    #[arg(long, conflicts_with = "probe")]
    pub(crate) uninstall: bool,
    /// With --uninstall: even if reservations or records remain.
    #[arg(long, requires = "uninstall")]
    pub(crate) even_in_use: bool,
    /// With --uninstall: try until nothing remains, and then wait for SIGTERM, as a container of a
    /// DaemonSet must.
    #[arg(long, requires = "uninstall")]
    pub(crate) wait: bool,
    /// Ask the installer that runs in this container whether it is ready; 0 if it is.
    #[arg(long)]
    pub(crate) probe: bool,
    /// Folder with reservations, besides those that conflists name; for --uninstall.
    #[arg(long, default_value = DATA_DIR)]
    pub(crate) data_dir: PathBuf,
    /// Folder with records, besides those that conflists name.
    #[arg(long, default_value = STATE_DIR)]
    pub(crate) state_dir: PathBuf,
    /// Folder with `plugins` and `sbin` of a release.
    #[arg(long, default_value = "/")]
    pub(crate) from: PathBuf,
    /// File for the plugins' kubeconfig: with the API server's URL, by the variables
    /// KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT, and the token and ca.crt of the pod's
    /// service account. Without it, none is written.
    #[arg(long)]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Folder with token and ca.crt of the pod's service account.
    #[arg(long, default_value = "/var/run/secrets/kubernetes.io/serviceaccount")]
    pub(crate) service_account: PathBuf,
    /// Socket for the probe.
    #[arg(long, default_value = "/run/ipam-installer/status")]
    pub(crate) status_file: PathBuf,
}

impl Arguments {
    /// The catalogues: the source and the target of each.
    ///
    /// # Errors
    ///
    /// One of the two options is missing.
    pub(crate) fn catalogues(&self) -> Result<impl Iterator<Item = (&PathBuf, &PathBuf)>> {
        let (from, to) = (&self.pools_from, &self.pools);
        let is_paired = from.is_empty() || from.len() == to.len();
        let unpaired = "each --pools-from needs a --pools, and each --pools a --pools-from";
        ensure!(is_paired, unpaired);
        Ok(from.iter().zip(to))
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
    fn each_catalogue_has_a_source_and_a_target() {
        let read = |words: &[&str]| {
            let arguments = Arguments::parse_from([&["ipam-installer"], words].concat());
            let pairs = arguments.catalogues().map_err(|error| error.to_string())?;
            let text =
                |(from, to): (&PathBuf, &PathBuf)| format!("{} {}", from.display(), to.display());
            Ok::<_, String>(pairs.map(text).collect::<Vec<_>>())
        };
        assert!(read(&[]).unwrap().is_empty());
        assert_eq!(read(&["--pools-from=/a"]).unwrap(), ["/a /etc/cni/ipam.d"]);
        let two = [
            "--pools-from=/a",
            "--pools=/b",
            "--pools-from=/c",
            "--pools=/d",
        ];
        assert_eq!(read(&two).unwrap(), ["/a /b", "/c /d"]);
        assert!(read(&two[..3]).unwrap_err().contains("--pools"));
    }
}
