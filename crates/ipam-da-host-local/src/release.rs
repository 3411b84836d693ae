//! DEL and GC: what is reserved, but shall not be any more.

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;
use std::path::Path;

use cni::{Attachment, Error, NetworkConfig, NetworkName};
use ipam::Holder;

use crate::config;
use crate::directory::{self, Directory};

/// Releases what the attachment holds: in the directories of the pools and of
/// the network, and, where it holds nothing there, wherever the network has
/// claims. So a DEL succeeds whether or not a selector says the pools.
pub(crate) fn del(attachment: &Attachment, config: &NetworkConfig) -> Result<(), Error> {
    let data_dir = config::data_dir(&config.ipam()?)?;
    let mut release = Release::new(&data_dir, config.name());
    let held = |directory: &Directory| directory.held_by(attachment);
    let named = config::directories(config);
    release.in_all(&named, held);
    if release.released == 0 {
        let claimed = directory::claimed_by(&data_dir, config.name())
            .into_iter()
            .collect();
        release.in_all(&(&claimed - &named), held);
    }
    release.finish()
}

/// Releases what the network holds for attachments that aren't valid any more,
/// and what killed processes have left.
pub(crate) fn gc(config: &NetworkConfig) -> Result<(), Error> {
    let data_dir = config::data_dir(&config.ipam()?)?;
    let valid = Valid::new(config.valid_attachments()?);
    let mut release = Release::new(&data_dir, config.name());
    let stale = |directory: &Directory| {
        directory.clear_remains()?;
        let occupancy = directory.occupancy()?;
        let stale = occupancy
            .iter()
            .filter(|(ip, holder)| !valid.covers(*holder) && directory.is_ours(*ip, false));
        Ok(stale.map(|(ip, _)| ip).collect())
    };
    let mut all = config::directories(config);
    all.extend(directory::claimed_by(&data_dir, config.name()));
    release.in_all(&all, stale);
    release.finish()
}

/// The attachments that GC keeps.
struct Valid {
    attachments: HashSet<(String, String)>,
    containers: HashSet<String>,
}

impl Valid {
    fn new(attachments: Vec<Attachment>) -> Self {
        Self {
            containers: attachments
                .iter()
                .map(|it| it.container_id.to_string())
                .collect(),
            attachments: attachments
                .into_iter()
                .map(|it| (it.container_id.to_string(), it.ifname.to_string()))
                .collect(),
        }
    }

    /// Whether a reservation of this holder stays.
    fn covers(&self, holder: Option<&Holder>) -> bool {
        match holder {
            Some(Holder::Attachment {
                container_id,
                ifname,
            }) => self
                .attachments
                .contains(&(container_id.clone(), ifname.clone())),
            Some(Holder::Container(container_id)) => self.containers.contains(container_id),
            Some(Holder::Torn) => false,
            // Nobody knows whose it is: it may be a valid one's.
            None => true,
        }
    }
}

/// Releasing in several directories, going on past what fails.
struct Release<'a> {
    data_dir: &'a Path,
    network: &'a NetworkName,
    released: usize,
    errors: Vec<Error>,
}

impl<'a> Release<'a> {
    fn new(data_dir: &'a Path, network: &'a NetworkName) -> Self {
        Self {
            data_dir,
            network,
            released: 0,
            errors: Vec::new(),
        }
    }

    /// Releases the addresses that `choose` picks in each of these.
    fn in_all(
        &mut self,
        names: &BTreeSet<NetworkName>,
        choose: impl Fn(&Directory) -> Result<Vec<IpAddr>, Error>,
    ) {
        for name in names {
            if let Err(error) = self.in_one(name, &choose) {
                self.errors.push(error);
            }
        }
    }

    fn in_one(
        &mut self,
        name: &NetworkName,
        choose: impl Fn(&Directory) -> Result<Vec<IpAddr>, Error>,
    ) -> Result<(), Error> {
        let Some(directory) = Directory::existing(self.data_dir, name, self.network)? else {
            return Ok(());
        };
        for ip in choose(&directory)? {
            match directory.release(ip) {
                Ok(()) => {
                    self.released += 1;
                    tracing::debug!(%ip, directory = %name, "released");
                }
                Err(error) => self.errors.push(error),
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<(), Error> {
        tracing::debug!(addresses = self.released, "released in all");
        let mut errors = self.errors.into_iter();
        let Some(mut all) = errors.next() else {
            return Ok(());
        };
        for error in errors {
            all.msg = format!("{}; {}", all.msg, error.msg);
        }
        Err(all)
    }
}
