//! DEL and GC: release reservations of one attachment, or of all that aren't valid.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;

use cni::{Attachment, Call, Error, NetworkName, code};
use reservations::{DataDir, Reservation, Sought, State, Store};

use crate::config;
use crate::storage;

/// Releases the attachment's addresses, in the directories of the pools and of the
/// network, and in those of all other named pools: a selector may print nothing on DEL, or
/// choose other pools than on ADD.
pub(crate) fn del(attachment: &Attachment, call: &Call<'_>) -> Result<(), Error> {
    let config = &call.config;
    let data_dir = storage::data_dir_to_release(call, &config.ipam()?)?;
    // The addresses of the ADD, from the runtime or from the chain's record. All
    // reservations are found without them, except a file that another program has
    // overwritten in place.
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
    let unknown = RefCell::new(Vec::new());
    let held = |store: &mut Store<'_>| {
        let mut held = store.held_by(attachment, &hints)?;
        if let Some(undone) = &undone {
            let is_of_call = |ip| store.is_of_call(ip, undone, hints.contains(&ip));
            return Ok(of_call(held, is_of_call, &mut unknown.borrow_mut()));
        }
        // As host-local does: a container's address only if the attachment has none.
        if held
            .iter()
            .any(|(_, reservation)| reservation.is_attachment(attachment))
        {
            held.retain(|(_, reservation)| reservation.is_attachment(attachment));
        }
        let states = held
            .into_iter()
            .map(|(ip, reservation)| (ip, State::Reserved(reservation)));
        Ok(states.collect())
    };
    let mut release = Release::new(&data_dir, Sought::Attachment(attachment, &hints));
    release.everywhere(&config::directories(config), held);
    release.errors.extend(unknown.take());
    let is_released = |ip: &IpAddr| release.released.contains(&ip.to_canonical());
    if !hints.iter().all(is_released) {
        // It may be where nobody could look.
        let later = |error: Error| Error::new(code::TRY_AGAIN_LATER, error.msg);
        let unknown = release.unknown.drain(..).map(later);
        release.errors.extend(unknown);
    }
    release.finish()
}

/// The reservations of these that the ADD of this call has made. Adds the errors of those of
/// which it isn't known: they stay, and the call isn't undone.
fn of_call(
    held: Vec<(IpAddr, Reservation)>,
    is_of_call: impl Fn(IpAddr) -> Result<bool, Error>,
    unknown: &mut Vec<Error>,
) -> Reservations {
    let mut of_call = Vec::new();
    for (ip, reservation) in held {
        match is_of_call(ip) {
            Ok(true) => of_call.push((ip, State::Reserved(reservation))),
            Ok(false) => {}
            Err(error) => unknown.push(error),
        }
    }
    of_call
}

/// Releases the network's reservations for attachments that aren't valid any more, and
/// removes files that killed processes and removed directories have left.
pub(crate) fn gc(call: &Call<'_>) -> Result<(), Error> {
    let config = &call.config;
    let data_dir = storage::data_dir_to_release(call, &config.ipam()?)?;
    let valid = Valid::new(config.valid_attachments()?);
    let mut release = Release::new(&data_dir, Sought::Network);
    release.everywhere(&config::directories(config), |store| {
        store.remove_leftovers()?;
        let mut stale = store.all()?;
        stale.retain(|(_, state)| !matches!(state, State::Reserved(reservation) if valid.covers(reservation)));
        Ok(stale)
    });
    data_dir.remove_leftover_indexes();
    release.finish()
}

/// Addresses, and the state of each.
type Reservations = Vec<(IpAddr, State)>;

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
                .map(|attachment| attachment.container_id.to_string())
                .collect(),
            attachments: attachments
                .into_iter()
                .map(|attachment| {
                    (
                        attachment.container_id.to_string(),
                        attachment.ifname.to_string(),
                    )
                })
                .collect(),
        }
    }

    /// True if this reservation stays.
    fn covers(&self, reservation: &Reservation) -> bool {
        let container_id = &reservation.container_id;
        match &reservation.ifname {
            Some(ifname) => self
                .attachments
                .contains(&(container_id.clone(), ifname.clone())),
            None => self.containers.contains(container_id),
        }
    }
}

/// Releases in several directories, going on past failures.
struct Release<'a> {
    data_dir: &'a DataDir<'a>,
    sought: Sought<'a>,
    released: HashSet<IpAddr>,
    errors: Vec<Error>,
    /// Errors of directories that nobody has named, and that may hold nothing.
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

    /// Releases the reservations that `choose` returns, in each of these directories, and in
    /// each other one that holds what is sought.
    fn everywhere(
        &mut self,
        named: &BTreeSet<NetworkName>,
        choose: impl Fn(&mut Store<'_>) -> Result<Reservations, Error>,
    ) {
        for name in named {
            if let Err(error) = self.in_one(name, &choose) {
                self.errors.push(error);
            }
        }
        let names = match self.data_dir.names() {
            Ok(names) => names,
            Err(error) => return self.errors.push(error),
        };
        for name in names.iter().filter(|name| !named.contains(*name)) {
            match self.data_dir.may_hold(name, self.sought) {
                Ok(false) => {}
                Ok(true) => {
                    if let Err(error) = self.in_one(name, &choose) {
                        self.errors.push(error);
                    }
                }
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
        choose: impl Fn(&mut Store<'_>) -> Result<Reservations, Error>,
    ) -> Result<(), Error> {
        let mut store = match self.data_dir.open(name) {
            Ok(Some(store)) => store,
            Ok(None) => return Ok(()),
            // Nobody need write where nothing is to be released.
            Err(_) if matches!(self.data_dir.may_hold(name, self.sought), Ok(false)) => {
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        for (ip, state) in choose(&mut store)? {
            match store.release(ip, &state) {
                Ok(()) => {
                    self.released.insert(ip.to_canonical());
                    tracing::debug!(%ip, directory = %name, "released");
                }
                Err(error) => self.errors.push(error),
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<(), Error> {
        tracing::debug!(addresses = self.released.len(), "released in all");
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
