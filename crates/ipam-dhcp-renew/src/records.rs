//! The attachments that have records.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

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

/// The attachments that have records, as far as they are known.
#[derive(Default)]
pub(crate) struct Look {
    pub(crate) names: BTreeSet<RecordName>,
    /// The folders of records that were read whole: what isn't in `names` is gone from them.
    pub(crate) whole: BTreeSet<PathBuf>,
    /// Why something is unknown.
    pub(crate) problems: Vec<String>,
}

impl Look {
    /// Lists the attachments. What can't be read hides nothing else.
    pub(crate) fn at(arguments: &Arguments) -> Self {
        let mut look = Self::default();
        let mut folders: BTreeSet<PathBuf> = arguments.state_dir.iter().cloned().collect();
        if folders.is_empty() {
            folders = look.configured_folders(&arguments.conf_dir);
        }
        for state_dir in folders {
            let Some(networks) = look.known(&state_dir, networks(&state_dir)) else {
                continue;
            };
            let mut is_whole = true;
            for network in networks {
                is_whole &= look.list(&state_dir, &network);
            }
            if is_whole {
                look.whole.insert(state_dir);
            }
        }
        look
    }

    /// Lists the attachments of a network. False if they are unknown.
    fn list(&mut self, state_dir: &Path, network: &NetworkName) -> bool {
        let listed = record::attachments(state_dir, network);
        let Some(attachments) = self.known(&state_dir.join(network.as_str()), listed) else {
            return false;
        };
        let name = |attachment| RecordName {
            state_dir: state_dir.to_owned(),
            network: network.clone(),
            attachment,
        };
        self.names.extend(attachments.into_iter().map(name));
        true
    }

    fn known<T>(&mut self, folder: &Path, listed: io::Result<T>) -> Option<T> {
        let problem = |error| format!("records in {}: {error}", folder.display());
        self.problems.extend(listed.as_ref().err().map(problem));
        listed.ok()
    }

    /// The folders of records that these folders' configurations name. A Multus network may have its
    /// configuration elsewhere, so the default is always one of them.
    fn configured_folders(&mut self, conf_dirs: &[PathBuf]) -> BTreeSet<PathBuf> {
        let found = Listing::in_folders(conf_dirs);
        let problems = found.problems.iter().map(ToString::to_string);
        self.problems.extend(problems);
        let environment: Environment = std::env::vars_os().collect();
        let plugins = found.conflists.into_iter().flat_map(|list| list.plugins);
        let ours = plugins.filter(|plugin| plugin.ipam_type.as_deref() == Some("ipam-delegated"));
        let sections = ours.filter_map(|plugin| plugin.request.ipam().ok());
        let with_default = sections.chain([Object::default()]);
        let folders = with_default.filter_map(|ipam| state_dir(&ipam, &environment).ok());
        folders.collect()
    }
}
