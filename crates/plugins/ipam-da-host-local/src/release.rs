//! DEL and GC: release the reservations of an attachment, or of all attachments that aren't valid.

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;

use cni::{Attachment, Call, Error, NetworkConfig, NetworkName, code};
use reservations::{DataDir, Sought, State, Store};

use crate::storage;

/// Releases the attachment's addresses in the directories of the pools, of the network, and of all
/// other named pools: on DEL, a selector may print no pools, or other pools than on ADD.
pub(crate) fn del(attachment: &Attachment, call: &Call<'_>) -> Result<(), Error> {
    let config = &call.config;
    let data_dir = storage::data_dir_to_release(call, &config.ipam()?)?;
    // The addresses of the ADD, from the runtime or from the chain's record. They only matter for
    // a file that another program has overwritten in place; all other reservations are found
    // without them.
    let hints: Vec<IpAddr> = match config.prev_result() {
        Ok(result) => result
            .into_iter()
            .flat_map(|result| result.ips)
            .map(|config| config.ip())
            .collect(),
        Err(error) => {
            tracing::warn!(%error, "going on without the addresses in prevResult");
            Vec::new()
        }
    };
    let undone = storage::undone_call(call);
    let held = |store: &mut Store<'_>, unknown: &mut Vec<Error>| {
        let mut held = store.held_by(attachment, &hints)?;
        if let Some(undone) = &undone {
            // A reservation that may not be of the undone call is kept, and DEL fails.
            held.retain(|(ip, _)| {
                let is_of_call = store.is_of_call(*ip, undone, hints.contains(ip));
                is_of_call.unwrap_or_else(|error| {
                    unknown.push(error);
                    false
                })
            });
        } else if held
            .iter()
            .any(|(_, holder)| holder.is_attachment(attachment))
        {
            // As host-local: an address of the whole container is released only if the attachment
            // has none.
            held.retain(|(_, holder)| holder.is_attachment(attachment));
        }
        Ok(held.into_iter().map(|(ip, _)| ip).collect())
    };
    let mut release = Release::new(&data_dir, Sought::Attachment(attachment, &hints));
    release.everywhere(&directories(config), held);
    let is_released = |ip: &IpAddr| release.released.contains(&ip.to_canonical());
    if !hints.iter().all(is_released) {
        // A directory that could not be read may have the address.
        let later = |error: Error| Error::new(code::TRY_AGAIN_LATER, error.msg);
        let unknown = release.unknown.drain(..).map(later);
        release.errors.extend(unknown);
    }
    release.finish()
}

/// Releases the network's reservations whose attachments aren't valid, and removes files that
/// killed processes and deleted directories have left.
pub(crate) fn gc(call: &Call<'_>) -> Result<(), Error> {
    let config = &call.config;
    let data_dir = storage::data_dir_to_release(call, &config.ipam()?)?;
    // A reservation without an interface belongs to the container, and is valid with any
    // interface.
    let valid: HashSet<(String, Option<String>)> = config
        .valid_attachments()?
        .iter()
        .flat_map(|attachment| {
            [Some(attachment.ifname.to_string()), None]
                .map(|ifname| (attachment.container_id.to_string(), ifname))
        })
        .collect();
    let is_valid = |state: &State| match state {
        State::Reserved(holder) => {
            valid.contains(&(holder.container_id.clone(), holder.ifname.clone()))
        }
        _ => false,
    };
    let mut release = Release::new(&data_dir, Sought::Network);
    release.everywhere(&directories(config), |store, _| {
        store.remove_leftovers()?;
        let mut stale = store.all()?;
        stale.retain(|(_, state)| !is_valid(state));
        Ok(stale.into_iter().map(|(ip, _)| ip).collect())
    });
    data_dir.remove_leftover_indexes();
    release.finish()
}

/// The directories that may have an attachment's reservations: the network's own, and those of
/// `prevResult.pools`, even of invalid pools.
fn directories(config: &NetworkConfig) -> BTreeSet<NetworkName> {
    ipam::pool_names(config)
        .iter()
        .map(|name| name.directory().clone())
        .chain([config.name().clone()])
        .collect()
}

/// Releases reservations in several directories. A failure in one doesn't stop the others.
struct Release<'a> {
    data_dir: &'a DataDir<'a>,
    sought: Sought<'a>,
    released: HashSet<IpAddr>,
    errors: Vec<Error>,
    /// Errors of directories that the configuration doesn't name. They may have no reservation of
    /// the attachment.
    unknown: Vec<Error>,
}

impl<'a> Release<'a> {
    fn new(data_dir: &'a DataDir<'a>, sought: Sought<'a>) -> Self {
        Self {
            data_dir,
            sought,
            released: HashSet::new(),
            errors: Vec::new(),
            unknown: Vec::new(),
        }
    }

    /// Releases the reservations that `choose` returns, in each of these directories, and in each
    /// other one that has reservations of the attachment or network that is sought.
    fn everywhere(
        &mut self,
        named: &BTreeSet<NetworkName>,
        choose: impl Fn(&mut Store<'_>, &mut Vec<Error>) -> Result<Vec<IpAddr>, Error>,
    ) {
        for name in named {
            self.in_one(name, &choose);
        }
        let names = match self.data_dir.names() {
            Ok(names) => names,
            Err(error) => return self.errors.push(error),
        };
        for name in names.iter().filter(|name| !named.contains(*name)) {
            match self.data_dir.may_hold(name, self.sought) {
                Ok(false) => {}
                Ok(true) => self.in_one(name, &choose),
                Err(error) => {
                    tracing::warn!(directory = %name, %error, "can't tell what it holds");
                    self.unknown.push(error);
                }
            }
        }
    }

    fn in_one(
        &mut self,
        name: &NetworkName,
        choose: impl Fn(&mut Store<'_>, &mut Vec<Error>) -> Result<Vec<IpAddr>, Error>,
    ) {
        let mut store = match self.data_dir.open(name) {
            Ok(Some(store)) => store,
            Ok(None) => return,
            // Without reservations of the attachment, a directory need not be writable.
            Err(_) if matches!(self.data_dir.may_hold(name, self.sought), Ok(false)) => return,
            Err(error) => return self.errors.push(error),
        };
        let chosen = match choose(&mut store, &mut self.errors) {
            Ok(chosen) => chosen,
            Err(error) => return self.errors.push(error),
        };
        for ip in chosen {
            match store.release(ip) {
                Ok(()) => {
                    self.released.insert(ip.to_canonical());
                    tracing::debug!(%ip, directory = %name, "released");
                }
                Err(error) => self.errors.push(error),
            }
        }
    }

    fn finish(self) -> Result<(), Error> {
        tracing::debug!(addresses = self.released.len(), "released in all");
        Error::all_as_one(self.errors)
    }
}
