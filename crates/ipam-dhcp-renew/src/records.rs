//! The attachments that have records.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, Result};
use chain::record::{self, networks, state_dir};
use cni::{Attachment, Environment, NetworkName, Object};
use conflist::Listing;

use crate::Arguments;

/// The name of an attachment's record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RecordName {
    pub(crate) state_dir: PathBuf,
    pub(crate) network: NetworkName,
    pub(crate) attachment: Attachment,
}

/// The attachments that have records.
///
/// # Errors
///
/// A folder can't be read: it is unknown which are gone.
pub(crate) fn attachments(arguments: &Arguments) -> Result<BTreeSet<RecordName>> {
    let configured = match arguments.state_dir.as_slice() {
        [] => configured_folders(&arguments.conf_dir),
        _ => BTreeSet::new(),
    };
    let mut all = BTreeSet::new();
    for state_dir in arguments.state_dir.iter().chain(&configured) {
        let failed = || format!("the records in {} can't be listed", state_dir.display());
        for network in networks(state_dir).with_context(failed)? {
            let attachments = record::attachments(state_dir, &network).with_context(failed)?;
            all.extend(attachments.into_iter().map(|attachment| RecordName {
                state_dir: state_dir.clone(),
                network: network.clone(),
                attachment,
            }));
        }
    }
    Ok(all)
}

/// The folders of records that these folders' configurations name. A Multus network may have its
/// configuration elsewhere, so the default is always one of them.
fn configured_folders(conf_dirs: &[PathBuf]) -> BTreeSet<PathBuf> {
    let found = Listing::in_folders(conf_dirs);
    for problem in &found.problems {
        tracing::debug!(%problem, "a network configuration is not used");
    }
    let environment: Environment = std::env::vars_os().collect();
    let plugins = found.conflists.into_iter().flat_map(|list| list.plugins);
    let ours = plugins.filter(|plugin| plugin.ipam_type() == Some("ipam-delegated"));
    let sections = ours.filter_map(|plugin| plugin.request.ipam().ok());
    let with_default = sections.chain([Object::default()]);
    let folders = with_default.filter_map(|ipam| state_dir(&ipam, &environment).ok());
    folders.collect()
}
