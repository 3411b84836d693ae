//! DEL and GC: what is reserved, but shall not be any more.

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;

use cni::{Attachment, Call, Error, NetworkName};
use ipam::Holder;

use crate::config;
use crate::directory::{self, Directory};
use crate::storage::Storage;

/// Releases what the attachment holds: in the directories of the pools and of
/// the network, and, where it holds nothing there, wherever the network has
/// claims. So a DEL succeeds whether or not a selector says the pools.
pub(crate) fn del(attachment: &Attachment, call: &Call<'_>) -> Result<(), Error> {
    let config = &call.config;
    let storage = Storage::read(call, &config.ipam()?)?;
    let mut release = Release::new(&storage);
    // What the runtime says that the attachment has. Without it, too, what it
    // holds is found; with it, even what somebody has written without the lock.
    let hints = match config.prev_result() {
        Ok(result) => result
            .into_iter()
            .flat_map(|it| it.ips)
            .map(|it| it.ip())
            .collect(),
        Err(_) => Vec::new(),
    };
    let held = |directory: &mut Directory| directory.held_by(attachment, &hints);
    let named = config::directories(config);
    release.in_all(&named, held);
    if release.released == 0 {
        let claimed = directory::claimed_by(&storage).into_iter().collect();
        release.in_all(&(&claimed - &named), held);
    }
    release.finish()
}

/// Releases what the network holds for attachments that aren't valid any more,
/// and what killed processes have left.
pub(crate) fn gc(call: &Call<'_>) -> Result<(), Error> {
    let config = &call.config;
    let storage = Storage::read(call, &config.ipam()?)?;
    let valid = Valid::new(config.valid_attachments()?);
    let mut release = Release::new(&storage);
    release.clears_remains = true;
    let mut all = config::directories(config);
    all.extend(directory::claimed_by(&storage));
    release.in_all(&all, |directory| {
        let mut stale: Reservations = directory
            .all()?
            .iter()
            .filter_map(|(ip, holder)| Some((ip, holder?.clone())))
            .filter(|(_, holder)| !valid.covers(holder))
            .collect();
        stale.retain(|(ip, _)| directory.is_ours(*ip, false));
        Ok(stale)
    });
    release.finish()
}

/// Addresses, and who holds them.
type Reservations = Vec<(IpAddr, Holder)>;

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
    fn covers(&self, holder: &Holder) -> bool {
        match holder {
            Holder::Attachment {
                container_id,
                ifname,
            } => self
                .attachments
                .contains(&(container_id.clone(), ifname.clone())),
            Holder::Container(container_id) => self.containers.contains(container_id),
            Holder::Torn => false,
        }
    }
}

/// Releasing in several directories, going on past what fails.
struct Release<'a> {
    storage: &'a Storage<'a>,
    /// Whether what killed processes have left goes, too.
    clears_remains: bool,
    released: usize,
    errors: Vec<Error>,
}

impl<'a> Release<'a> {
    fn new(storage: &'a Storage<'a>) -> Self {
        Self {
            storage,
            clears_remains: false,
            released: 0,
            errors: Vec::new(),
        }
    }

    /// Releases what `choose` picks in each of these directories.
    fn in_all(
        &mut self,
        names: &BTreeSet<NetworkName>,
        choose: impl Fn(&mut Directory) -> Result<Reservations, Error>,
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
        choose: impl Fn(&mut Directory) -> Result<Reservations, Error>,
    ) -> Result<(), Error> {
        let Some(mut directory) = Directory::existing(self.storage, name)? else {
            return Ok(());
        };
        for (ip, holder) in choose(&mut directory)? {
            match directory.release(ip, &holder) {
                Ok(()) => {
                    self.released += 1;
                    tracing::debug!(%ip, directory = %name, "released");
                }
                Err(error) => self.errors.push(error),
            }
        }
        if self.clears_remains {
            directory.clear_remains()?;
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
