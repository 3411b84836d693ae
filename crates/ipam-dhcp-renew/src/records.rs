//! The attachments that have records, and the leases of a record.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use chain::record::{AttachmentRecord, attachments, networks, state_dir};
use cni::{Args, Attachment, Environment, Error, IpamResult, NetworkName};
use conflist::Found;
use ipam_da_dhcp::{Lease, Settings};

/// Interval in which the configurations are read again.
const READ_AGAIN: Duration = Duration::from_secs(60);

/// Where the records are.
pub(crate) struct Places {
    /// Folders of records on the command line.
    state_dirs: Vec<PathBuf>,
    conf_dirs: Vec<PathBuf>,
    /// The folders of the configurations, and when they were read.
    configured: std::cell::RefCell<Option<(Instant, BTreeSet<PathBuf>)>>,
}

/// The name of an attachment's record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RecordName {
    pub(crate) state_dir: PathBuf,
    pub(crate) network: NetworkName,
    pub(crate) attachment: Attachment,
}

/// A lease of a record, with the settings that it was taken with.
pub(crate) struct RecordedLease {
    pub(crate) settings: Settings,
    pub(crate) lease: Lease,
}

impl Places {
    pub(crate) fn new(state_dirs: Vec<PathBuf>, conf_dirs: Vec<PathBuf>) -> Self {
        Self {
            state_dirs,
            conf_dirs,
            configured: None.into(),
        }
    }

    /// The configurations are read again at the next look.
    pub(crate) fn read_again(&mut self) {
        self.configured.take();
    }

    /// The attachments that have records. `None` if a folder can't be read, which is logged: then
    /// it is unknown which are gone.
    pub(crate) fn attachments(&self) -> Option<BTreeSet<RecordName>> {
        let mut all = BTreeSet::new();
        for state_dir in self.state_dirs() {
            let listed = networks(&state_dir).and_then(|networks| {
                for network in networks {
                    for attachment in attachments(&state_dir, &network)? {
                        all.insert(RecordName {
                            state_dir: state_dir.clone(),
                            network: network.clone(),
                            attachment,
                        });
                    }
                }
                Ok(())
            });
            if let Err(error) = listed {
                let path = state_dir.display();
                tracing::warn!(%path, %error, "the records can't be listed");
                return None;
            }
        }
        Some(all)
    }

    fn state_dirs(&self) -> BTreeSet<PathBuf> {
        if !self.state_dirs.is_empty() {
            return self.state_dirs.iter().cloned().collect();
        }
        let mut configured = self.configured.borrow_mut();
        if let Some((read, folders)) = &*configured
            && read.elapsed() < READ_AGAIN
        {
            return folders.clone();
        }
        let folders = configured_folders(&self.conf_dirs);
        *configured = Some((Instant::now(), folders.clone()));
        folders
    }
}

/// The folders of records that these folders' configurations name. A Multus network may have its
/// configuration elsewhere, so the default is always one of them.
fn configured_folders(conf_dirs: &[PathBuf]) -> BTreeSet<PathBuf> {
    let found = Found::in_folders(conf_dirs);
    for problem in &found.problems {
        tracing::warn!(%problem, "a network configuration is not used");
    }
    let environment: Environment = std::env::vars_os().collect();
    let plugins = found.conflists.iter().flat_map(|list| &list.plugins);
    let ours = plugins.filter(|plugin| plugin.ipam_type() == Some("ipam-delegated"));
    let folders = ours.filter_map(|plugin| state_dir(&plugin.request, &environment).ok());
    folders.chain([default_folder(&environment)]).collect()
}

fn default_folder(environment: &Environment) -> PathBuf {
    let config = br#"{"cniVersion":"1.0.0","name":"n","ipam":{}}"#;
    let config = cni::NetworkConfig::parse(config.to_vec());
    let folder = config.and_then(|config| state_dir(&config, environment));
    folder.unwrap_or_default()
}

/// The leases of a record, each with the settings of the delegate that has taken it.
///
/// # Errors
///
/// The record's configuration or a result is damaged.
pub(crate) fn recorded_leases(
    record: &AttachmentRecord,
    attachment: &Attachment,
) -> Result<Vec<RecordedLease>, Error> {
    let mut config = record.config()?;
    let args = Args::parse(&record.args)?;
    let mut found: Vec<RecordedLease> = Vec::new();
    for result in record
        .delegates
        .iter()
        .filter_map(|one| one.result.as_ref())
    {
        let leases = Lease::of_result("result", &IpamResult::read("result", result)?)?;
        // A delegate passes on the leases of those before it.
        for lease in leases.into_iter().skip(found.len()) {
            let settings = Settings::read(&config, &args, attachment)?;
            found.push(RecordedLease { settings, lease });
        }
        config = config.with_prev_result(result);
    }
    Ok(found)
}
