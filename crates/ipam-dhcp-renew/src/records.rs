//! The attachments that have records.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use chain::record::{attachments, networks, state_dir};
use cni::{Attachment, Environment, NetworkConfig, NetworkName};
use conflist::Found;

/// Where the records are.
pub(crate) struct Places {
    /// Folders of records on the command line; empty for those of the configurations.
    pub(crate) state_dirs: Vec<PathBuf>,
    /// Folders of network configurations.
    pub(crate) conf_dirs: Vec<PathBuf>,
}

/// The name of an attachment's record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RecordName {
    pub(crate) state_dir: PathBuf,
    pub(crate) network: NetworkName,
    pub(crate) attachment: Attachment,
}

impl Places {
    /// The attachments that have records.
    ///
    /// # Errors
    ///
    /// A folder can't be read: it is unknown which are gone.
    pub(crate) fn attachments(&self) -> Result<BTreeSet<RecordName>> {
        let mut all = BTreeSet::new();
        let configured = match self.state_dirs.as_slice() {
            [] => configured_folders(&self.conf_dirs),
            _ => BTreeSet::new(),
        };
        for state_dir in self.state_dirs.iter().chain(&configured) {
            let failed = || format!("the records in {} can't be listed", state_dir.display());
            add_records(state_dir, &mut all).with_context(failed)?;
        }
        Ok(all)
    }
}

fn add_records(state_dir: &Path, all: &mut BTreeSet<RecordName>) -> std::io::Result<()> {
    for network in networks(state_dir)? {
        let attachments = attachments(state_dir, &network)?.into_iter();
        all.extend(attachments.map(|attachment| RecordName {
            state_dir: state_dir.to_owned(),
            network: network.clone(),
            attachment,
        }));
    }
    Ok(())
}

/// The folders of records that these folders' configurations name. A Multus network may have its
/// configuration elsewhere, so the default is always one of them.
fn configured_folders(conf_dirs: &[PathBuf]) -> BTreeSet<PathBuf> {
    let found = Found::in_folders(conf_dirs);
    for problem in &found.problems {
        tracing::debug!(%problem, "a network configuration is not used");
    }
    let environment: Environment = std::env::vars_os().collect();
    let plugins = found.conflists.into_iter().flat_map(|list| list.plugins);
    let ours = plugins.filter(|plugin| plugin.ipam_type() == Some("ipam-delegated"));
    let default = NetworkConfig::parse(br#"{"cniVersion":"1.0.0","name":"n","ipam":{}}"#.to_vec());
    let configs = ours.map(|plugin| plugin.request).chain(default.ok());
    let folders = configs.filter_map(|config| state_dir(&config, &environment).ok());
    folders.collect()
}
