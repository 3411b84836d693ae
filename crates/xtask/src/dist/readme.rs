//! `README.md` of an archive: its content, and how to install it.

use std::fs;

use anyhow::{Context, Result};
use shipped::repository;

use super::Release;
use crate::build::Flavour;

/// The document with the commands that install an archive; the tests run them.
const MANUAL: &str = "docs/operations.md";
const SECTION: &str = "### From a release archive\n";

/// The archive's `README.md`.
pub(super) fn text(release: &Release, flavour: Flavour) -> Result<String> {
    let manual = fs::read_to_string(repository().join(MANUAL)).context(MANUAL)?;
    let installing = manual
        .split_once(SECTION)
        .and_then(|(_, rest)| rest.split_once("\n#"))
        .with_context(|| format!("{MANUAL}: there is no {SECTION}"))?
        .0
        .trim_end();
    // The manual's commands are for an example.
    let example = format!("ipam-delegated-{}-x86_64-linux", release.version);
    let installing = installing.replace(&example, &release.name(flavour));
    let commit = match &release.commit {
        Some(commit) => format!(", commit {commit}"),
        None => String::new(),
    };
    let logs = match flavour {
        Flavour::Normal => "warnings and errors go to stderr",
        Flavour::Verbose => "everything is logged to `/var/log/cni`",
    };
    Ok(format!(
        "# {name}\n\n\
         CNI plugins that compose a container's address, version {version}{commit}: static \
         executables for any Linux on {architecture}; {logs}.\n\n\
         - `bin`: the plugins, hard links to one file, but for those with a network client (`ipam-da-etcd`, `ipam-da-kubernetes`, `ipam-da-dhcp`), which are files of their own\n\
         - `sbin/ipamctl`: the administrator's command; its man pages and completions are in `share`\n\
         - `lib/systemd/system`: a timer that runs `ipamctl gc`, which repeats failed DELs; the units of \
           the daemons\n\
         - `sbin/docker-ipam-delegated`: the daemon for Docker\n\
         - `sbin/ipam-dhcp-renew`: the daemon that renews DHCP leases\n\
         - `LICENSE`: theirs\n\
         - `LICENSES`: those of all that is linked in\n\n\
         ## Installing\n{installing}\n",
        name = release.name(flavour),
        version = release.version,
        architecture = release.target.architecture(),
    ))
}
