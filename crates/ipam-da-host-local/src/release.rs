//! DEL and GC: release reservations of one attachment, or of all that aren't valid.

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;

use cni::{Attachment, Call, Error, NetworkName};
use reservations::{DataDir, Reservation, State, Store};

use crate::config;
use crate::storage;

/// Releases the attachment's addresses: in the directories of the pools and of the
/// network, and, unless all are found there, in those of all named pools.
/// So a DEL needs no selector.
pub(crate) fn del(attachment: &Attachment, call: &Call<'_>) -> Result<(), Error> {
    let config = &call.config;
    let data_dir = storage::data_dir_to_release(call, &config.ipam()?)?;
    let mut release = Release::new(&data_dir);
    // The addresses of the ADD, from the runtime or from the chain's record. All
    // reservations are found without them, except a file that another program has
    // overwritten in place.
    let hints: Vec<IpAddr> = match config.prev_result() {
        Ok(result) => result
            .into_iter()
            .flat_map(|it| it.ips)
            .map(|it| it.ip())
            .collect(),
        Err(_) => Vec::new(),
    };
    let undone = storage::undone_call(call);
    let held = |store: &mut Store<'_>| {
        let mut held = store.held_by(attachment, &hints)?;
        if let Some(undone) = &undone {
            return of_call(store, held, undone, &hints);
        }
        // As host-local does: a container's address only if the attachment has none.
        if held.iter().any(|(_, it)| it.is_attachment(attachment)) {
            held.retain(|(_, it)| it.is_attachment(attachment));
        }
        let states = held.into_iter().map(|(ip, it)| (ip, State::Reserved(it)));
        Ok(states.collect())
    };
    let named = config::directories(config);
    release.in_all(&named, held);
    // A selector that prints nothing on DEL leaves the named pools unknown, and one that
    // chooses others than on ADD names wrong ones.
    let is_released = |ip: &IpAddr| release.released.contains(&ip.to_canonical());
    let is_complete = !hints.is_empty() && hints.iter().all(is_released);
    if !is_complete || !config::has_pools(config) {
        let others = release.others(&named);
        release.in_all(&others, held);
    }
    release.finish()
}

/// The reservations of these that the ADD of this call has made.
fn of_call(
    store: &Store<'_>,
    held: Vec<(IpAddr, Reservation)>,
    call: &str,
    answered: &[IpAddr],
) -> Result<Reservations, Error> {
    let mut of_call = Vec::new();
    for (ip, reservation) in held {
        if store.is_of_call(ip, call, answered.contains(&ip))? {
            of_call.push((ip, State::Reserved(reservation)));
        }
    }
    Ok(of_call)
}

/// Releases the network's reservations for attachments that aren't valid any more, and
/// removes files that killed processes and removed directories have left.
pub(crate) fn gc(call: &Call<'_>) -> Result<(), Error> {
    let config = &call.config;
    let data_dir = storage::data_dir_to_release(call, &config.ipam()?)?;
    let valid = Valid::new(config.valid_attachments()?);
    let mut release = Release::new(&data_dir);
    let mut names = config::directories(config);
    names.extend(release.others(&names));
    release.in_all(&names, |store| {
        store.remove_leftovers()?;
        let mut stale = store.all()?;
        stale.retain(|(_, state)| !matches!(state, State::Reserved(it) if valid.covers(it)));
        Ok(stale)
    });
    data_dir.remove_leftover_caches();
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
                .map(|it| it.container_id.to_string())
                .collect(),
            attachments: attachments
                .into_iter()
                .map(|it| (it.container_id.to_string(), it.ifname.to_string()))
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
    released: HashSet<IpAddr>,
    errors: Vec<Error>,
}

impl<'a> Release<'a> {
    fn new(data_dir: &'a DataDir<'a>) -> Self {
        Self {
            data_dir,
            released: HashSet::new(),
            errors: Vec::new(),
        }
    }

    /// Releases the reservations that `choose` returns for each of these directories.
    fn in_all(
        &mut self,
        names: &BTreeSet<NetworkName>,
        choose: impl Fn(&mut Store<'_>) -> Result<Reservations, Error>,
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
        choose: impl Fn(&mut Store<'_>) -> Result<Reservations, Error>,
    ) -> Result<(), Error> {
        let Some(mut store) = self.data_dir.open(name)? else {
            return Ok(());
        };
        for (ip, state) in choose(&mut store)? {
            match store.release(ip, state) {
                Ok(()) => {
                    self.released.insert(ip.to_canonical());
                    tracing::debug!(%ip, directory = %name, "released");
                }
                Err(error) => self.errors.push(error),
            }
        }
        Ok(())
    }

    /// The directories of named pools that nobody names in this call.
    fn others(&mut self, known: &BTreeSet<NetworkName>) -> BTreeSet<NetworkName> {
        match self.data_dir.others(known) {
            Ok(names) => names.into_iter().collect(),
            Err(error) => {
                self.errors.push(error);
                BTreeSet::new()
            }
        }
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
