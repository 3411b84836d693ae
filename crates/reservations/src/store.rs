//! One locked directory of reservations, used on behalf of a network.

mod given_last;

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;

use cni::{Attachment, Error, NetworkName, code};
use ipam::Interval;
use state_files::Boot;

use crate::data_dir::{DataDir, Locked};
use crate::directory::{Directory, State};
use crate::last_reserved::LastReserved;
use crate::lock::Lock;
use crate::new_file::{self, Content, NewFile};
use crate::origin::{self, Fact};
use crate::reclaim;
use crate::reservation::Reservation;
use crate::reservation_cache::{Noted, ReservationCache};
use crate::sticky_keys::StickyKeys;

/// A directory of reservations that this process alone uses, until it is dropped.
///
/// A network sees its own reservations alone: in the directory that is named after it,
/// those without a third line; in any other, those whose third line names it.
pub struct Store<'a> {
    data_dir: &'a DataDir<'a>,
    names: Vec<NetworkName>,
    /// True if the directory is named after the network.
    own: bool,
    directory: Directory,
    cache: ReservationCache<'a>,
    /// The pool whose rotation was asked for last, and its file, if it can be written.
    last_reserved: Option<(usize, Option<LastReserved>)>,
    /// The sticky keys, if one was asked for; `None` inside if they can't be read.
    sticky_keys: Option<Option<StickyKeys>>,
    _lock: Lock,
}

impl<'a> Store<'a> {
    pub(crate) fn open(data_dir: &'a DataDir<'a>, locked: Locked) -> Result<Self, Error> {
        let Locked {
            names,
            directory,
            lock,
        } = locked;
        let failed = |e| Error::io(directory.path().display(), e);
        let cache = ReservationCache::open(&directory, data_dir.cache(), &data_dir.leftovers)
            .map_err(failed)?;
        let mut it = Self {
            data_dir,
            own: names.contains(&data_dir.settings.network),
            names,
            directory,
            cache,
            last_reserved: None,
            sticky_keys: None,
            _lock: lock,
        };
        if let Some(boot) = &data_dir.settings.reclaim
            && let Err(error) = it.reclaim(boot)
        {
            let path = it.directory.path().display();
            tracing::warn!(%path, %error, "what is from before the last boot stays: it isn't known");
        }
        Ok(it)
    }

    /// Reserves an address to the attachment, if it is free. `Err` in the inner result
    /// is the state of one that isn't.
    ///
    /// # Errors
    ///
    /// Code 5, naming the path.
    pub fn reserve(
        &mut self,
        ip: IpAddr,
        attachment: &Attachment,
    ) -> Result<Result<(), State>, Error> {
        let network = (!self.own).then(|| self.data_dir.settings.network.to_string());
        let boot = self.data_dir.settings.reclaim.as_ref();
        let boot = boot.map(|boot| (Fact::Boot, boot.id()));
        let call = self.data_dir.settings.call.as_deref();
        let call = call.map(|call| (Fact::Call, call));
        let origin: Vec<(Fact, &str)> = boot.into_iter().chain(call).collect();
        let directory = &self.directory;
        let reserved = self.cache.change(directory, || {
            let content = Content {
                bytes: &Reservation::content(attachment, network.as_deref()),
                origin: &origin,
            };
            let reserved = make(directory, ip, content)?;
            let state = match &reserved {
                Ok(()) => State::Reserved(Reservation {
                    container_id: attachment.container_id.to_string(),
                    ifname: Some(attachment.ifname.to_string()),
                    network,
                }),
                Err(state) => state.clone(),
            };
            Ok((reserved, Noted::Taken(ip, state)))
        });
        reserved.map_err(|e| self.failed(ip, e))
    }

    /// Reserves the first free address of these intervals; returns it with the index of its
    /// interval. `None` if the files say that all are taken: they are then read, whatever
    /// the index says.
    ///
    /// # Errors
    ///
    /// Code 5, naming the path.
    pub fn reserve_first(
        &mut self,
        intervals: &[Interval],
        attachment: &Attachment,
    ) -> Result<Option<(usize, IpAddr)>, Error> {
        while let Some((at, ip)) = self.first_free(intervals)? {
            if self.reserve(ip, attachment)?.is_ok() {
                return Ok(Some((at, ip)));
            }
        }
        Ok(None)
    }

    /// The first free address of these intervals, with the index of its interval.
    ///
    /// # Errors
    ///
    /// Code 5, naming the path.
    pub fn first_free(&mut self, intervals: &[Interval]) -> Result<Option<(usize, IpAddr)>, Error> {
        let search = |cache: &mut ReservationCache<'_>| {
            for (at, interval) in intervals.iter().enumerate() {
                if let Some(ip) = cache.first_free(&self.directory, *interval)? {
                    return Ok(Some((at, ip)));
                }
            }
            Ok::<_, io::Error>(None)
        };
        let mut found = search(&mut self.cache);
        // A file that was emptied in place is not noticed by the index.
        if matches!(found, Ok(None)) && !self.cache.has_just_read() {
            found = self
                .cache
                .read_files(&self.directory)
                .and_then(|()| search(&mut self.cache));
        }
        found.map_err(|e| self.unreadable(e))
    }

    /// Releases an address of the network's.
    ///
    /// # Errors
    ///
    /// Code 5, naming the path.
    pub fn release(&mut self, ip: IpAddr, state: State) -> Result<(), Error> {
        let directory = &self.directory;
        let released = self.cache.change(directory, || {
            directory.remove(&ip.to_string())?;
            Ok(((), Noted::Released(ip, state)))
        });
        released.map_err(|e| self.failed(ip, e))
    }

    /// The addresses that the attachment holds, and those that an old host-local
    /// reserved to its container without an interface. The files of the `hints` are
    /// read even if the index doesn't know them.
    ///
    /// # Errors
    ///
    /// Code 5, naming the path.
    pub fn held_by(
        &mut self,
        attachment: &Attachment,
        hints: &[IpAddr],
    ) -> Result<Vec<(IpAddr, Reservation)>, Error> {
        let container_id = attachment.container_id.as_str();
        let candidates = self.cache.candidates(&self.directory, container_id);
        let mut ips: BTreeSet<IpAddr> = candidates
            .map_err(|e| self.unreadable(e))?
            .into_iter()
            .collect();
        ips.extend(hints);
        let mut held = Vec::new();
        for ip in ips {
            if let Some(State::Reserved(it)) = self.state(ip)?
                && self.is_ours(&it)
                && (it.is_attachment(attachment) || it.is_container(attachment))
            {
                held.push((ip, it));
            }
        }
        Ok(held)
    }

    /// The network's reservations, and, in its own directory, torn files; as the files
    /// say.
    ///
    /// # Errors
    ///
    /// Code 5, naming the path.
    pub fn all(&mut self) -> Result<Vec<(IpAddr, State)>, Error> {
        let list = match self.cache.files(&self.directory) {
            Ok(list) => list,
            Err(error) => return Err(Error::io(self.directory.path().display(), error)),
        };
        let (own, network) = (self.own, self.data_dir.settings.network.as_str());
        Ok(list
            .iter()
            .filter(|(_, state)| may_release(state, own, network))
            .map(|(ip, state)| (ip, state.clone()))
            .collect())
    }

    /// The state of an address, by its file as it is now; `None` if it has none.
    ///
    /// # Errors
    ///
    /// Code 5, naming the path.
    pub fn state(&self, ip: IpAddr) -> Result<Option<State>, Error> {
        self.directory.read(ip).map_err(|e| self.failed(ip, e))
    }

    /// True if the ADD of this call ID has made the reservation of an address: as its file
    /// says, or, on a file system that can't say it, if the ADD `has_answered` with the
    /// address.
    ///
    /// # Errors
    ///
    /// Code 5, naming the path; code 11 if it isn't known.
    pub fn is_of_call(&self, ip: IpAddr, call: &str, has_answered: bool) -> Result<bool, Error> {
        match origin::read(&self.directory, ip, Fact::Call) {
            Ok(origin::Noted::Id(id)) => Ok(id == call.as_bytes()),
            Ok(origin::Noted::Nothing) => Ok(false),
            Ok(origin::Noted::Impossible) if has_answered => Ok(true),
            Ok(origin::Noted::Impossible) => Err(Error::new(
                code::TRY_AGAIN_LATER,
                format!(
                    "{}: kept, since the file system has no attributes that say which ADD has made it",
                    self.directory.path_of(ip).display()
                ),
            )),
            Err(error) => Err(self.failed(ip, error)),
        }
    }

    /// True if a reservation in this directory is the network's.
    pub fn is_ours(&self, reservation: &Reservation) -> bool {
        reservation.is_of(self.own, self.data_dir.settings.network.as_str())
    }

    /// Removes the unfinished file that a killed process has left.
    ///
    /// # Errors
    ///
    /// Code 5, naming the path.
    pub fn remove_leftovers(&mut self) -> Result<(), Error> {
        let directory = &self.directory;
        let failed = |e| Error::io(directory.path().display(), e);
        let leftovers = new_file::leftovers(directory).map_err(failed)?;
        if leftovers.is_empty() {
            return Ok(());
        }
        let removed = self.cache.change(directory, || {
            leftovers
                .iter()
                .try_for_each(|name| directory.remove(name))?;
            Ok(((), Noted::Nothing))
        });
        removed.map_err(failed)
    }

    /// Verifies that a reservation could be made, and leaves nothing behind.
    ///
    /// # Errors
    ///
    /// Code 5, naming the path.
    pub fn verify_writable(&mut self) -> Result<(), Error> {
        let directory = &self.directory;
        let written = self.cache.change(directory, || {
            let name = new_file::temporary_name();
            let mut file = NewFile::write(directory, b"x")?;
            file.link(&name)?;
            directory.remove(&name)?;
            Ok(((), Noted::Nothing))
        });
        written.map_err(|e| Error::io(directory.path().display(), e))
    }

    pub(crate) fn is_named(&self, name: &NetworkName) -> bool {
        self.names.contains(name)
    }

    fn reclaim(&mut self, boot: &Boot) -> Result<(), Error> {
        let (own, network) = (self.own, self.data_dir.settings.network.clone());
        let network = network.as_str();
        let is_ours = |state: &State| may_release(state, own, network);
        let found = reclaim::look(&self.directory, network, boot, is_ours)
            .map_err(|e| self.unreadable(e))?;
        let Some(mut found) = found else {
            return Ok(());
        };
        let released = found.from_before.len();
        for (ip, state) in found.from_before.drain(..) {
            self.release(ip, state)?;
        }
        if released > 0 {
            let path = self.directory.path().display();
            tracing::warn!(%path, released, "released what was reserved before the last boot");
        }
        if found.undecided > 0 {
            // The clock may be wrong until later in this boot: the next call looks again.
            let path = self.directory.path().display();
            let kept = found.undecided;
            tracing::debug!(%path, kept, "kept what another boot has made, if not before this one");
            return Ok(());
        }
        let directory = &self.directory;
        let noted = self.cache.change(directory, || {
            reclaim::note(directory, network, boot, &found)?;
            Ok(((), Noted::Nothing))
        });
        noted.map_err(|e| self.unreadable(e))
    }

    fn failed(&self, ip: IpAddr, error: io::Error) -> Error {
        Error::io(self.directory.path_of(ip).display(), error)
    }

    fn unreadable(&self, error: io::Error) -> Error {
        Error::io(self.directory.path().display(), error)
    }
}

impl Drop for Store<'_> {
    fn drop(&mut self) {
        // While the lock is held.
        self.cache.save(&self.directory);
    }
}

/// Makes the file of a reservation, unless the address is taken. A torn file is replaced.
fn make(directory: &Directory, ip: IpAddr, content: Content<'_>) -> io::Result<Result<(), State>> {
    let name = ip.to_string();
    let mut file = NewFile::write_with_origin(directory, content)?;
    if file.link(&name)? {
        return Ok(Ok(()));
    }
    // A file that can't be read is taken by somebody.
    let state = || directory.read(ip).unwrap_or(Some(State::Unreadable));
    let mut found = state();
    if found == Some(State::Torn) {
        tracing::warn!(
            path = %directory.path_of(ip).display(),
            "the reservation is empty or cut off: a crash has left it; giving the address out again"
        );
        let is_torn = |name: &str| directory.state_of(name) == Some(State::Torn);
        if file.replace_if(&name, is_torn)? {
            return Ok(Ok(()));
        }
        found = state();
    }
    Ok(Err(found.unwrap_or(State::Unreadable)))
}

/// True if GC of the network may release an address in this state.
fn may_release(state: &State, own: bool, network: &str) -> bool {
    match state {
        State::Reserved(reservation) => reservation.is_of(own, network),
        State::Torn => own,
        State::BeingWritten | State::Unreadable => false,
    }
}
