//! One locked directory of reservations, used on behalf of a network.

mod given_last;
mod holders;
#[cfg(test)]
mod tests;
mod upkeep;

use std::cell::Cell;
use std::io;
use std::net::IpAddr;

use cni::{Attachment, Error, NetworkName};
use ipam::Interval;
use state_files::{FileId, StateFolder};

use crate::change_detection::Version;
use crate::directory::Directory;
use crate::index::{self, HolderKey, Index};
use crate::last_reserved::LastReserved;
use crate::leftover_indexes;
use crate::lock::Lock;
use crate::new_file::{self, Content};
use crate::reservation::Reservation;
use crate::settings::Settings;
use crate::state::State;
use crate::sticky_keys::StickyKeys;

/// A directory of reservations, locked until this is dropped.
///
/// A network sees only its own reservations: in the directory that is named after it,
/// those without a third line; in any other, those whose third line names it.
pub struct Store<'a> {
    settings: &'a Settings<'a>,
    /// The folder of indexes, and whether this call has looked for old ones. `None` if the folder
    /// can't be used.
    cache: Option<(&'a StateFolder, &'a Cell<bool>)>,
    /// The names that lead to the directory.
    names: Vec<NetworkName>,
    /// True if the directory is named after the network.
    own: bool,
    directory: Directory,
    id: FileId,
    /// `None` if the files must be read before the next question.
    index: Option<Index>,
    /// Version of the directory after our last change. `None` if another program has
    /// changed the directory since, or if no version can be set: then no index is saved.
    version: Option<Version>,
    /// The pool whose rotation was asked for last, and its file, if it can be written.
    last_reserved: Option<(usize, Option<LastReserved>)>,
    /// The sticky keys, if one was asked for; `None` inside if they can't be read.
    sticky_keys: Option<Option<StickyKeys>>,
    _lock: Lock,
}

impl<'a> Store<'a> {
    pub(crate) fn open(
        settings: &'a Settings<'a>,
        cache: Option<(&'a StateFolder, &'a Cell<bool>)>,
        names: Vec<NetworkName>,
        directory: Directory,
        lock: Lock,
    ) -> Result<Self, Error> {
        let metadata = directory
            .metadata()
            .map_err(|e| Error::io(directory.path().display(), e))?;
        let (id, version) = (FileId::from(&metadata), Version::of(&metadata));
        let mut store = Self {
            settings,
            cache,
            own: names.contains(&settings.network),
            names,
            directory,
            id,
            index: cache.and_then(|(folder, _)| Index::open(folder, id, version)),
            version: Some(version),
            last_reserved: None,
            sticky_keys: None,
            _lock: lock,
        };
        if let Some(boot) = &settings.reclaim
            && let Err(error) = store.reclaim(boot)
        {
            let path = store.directory.path().display();
            tracing::warn!(%path, %error, "what is from before the last boot stays: it isn't known");
        }
        Ok(store)
    }

    pub(crate) fn is_named(&self, name: &NetworkName) -> bool {
        self.names.contains(name)
    }

    /// Reserves an address to the attachment, if it is free. The inner `Err` is the state of
    /// an address that is not free.
    ///
    /// # Errors
    ///
    /// Code 5, naming the path.
    pub fn reserve(
        &mut self,
        ip: IpAddr,
        attachment: &Attachment,
    ) -> Result<Result<(), State>, Error> {
        let network = (!self.own).then_some(&self.settings.network);
        let reservation = Reservation::new(attachment, network);
        let content = Content {
            bytes: &reservation.to_bytes(),
            origin: &self.settings.origin(),
        };
        let reserved = self
            .change(|directory| create_or_replace_torn(directory, ip, content))
            .map_err(|e| self.failed(ip, e))?;
        if let Some(index) = &mut self.index {
            let state = reserved.as_ref().err();
            let holder = state.map_or_else(|| holder(&State::Reserved(reservation)), holder);
            index.note(ip, Some(holder));
        }
        Ok(reserved)
    }

    /// Reserves the first free address of these intervals; returns it with the index of its
    /// interval. `None` if all are taken, as [`Self::first_free`] finds out.
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

    /// The first free address of these intervals, with the index of its interval. If the index
    /// has none, the files are read, unless that was just done. `None` if all are taken.
    ///
    /// # Errors
    ///
    /// Code 5, naming the path.
    pub fn first_free(&mut self, intervals: &[Interval]) -> Result<Option<(usize, IpAddr)>, Error> {
        let search = |index: &mut Index| {
            for (at, interval) in intervals.iter().enumerate() {
                if let Some(ip) = index.first_free(*interval)? {
                    return Ok(Some((at, ip)));
                }
            }
            Ok(None)
        };
        let found = self.ask(search)?;
        // The index doesn't notice a file that was emptied in place.
        if found.is_some() || self.index.as_ref().is_some_and(Index::has_just_read) {
            return Ok(found);
        }
        self.index = None;
        self.ask(search)
    }

    /// Releases an address of the network.
    ///
    /// # Errors
    ///
    /// Code 5, naming the path.
    pub fn release(&mut self, ip: IpAddr) -> Result<(), Error> {
        self.change(|directory| directory.remove(&ip.to_string()))
            .map_err(|e| self.failed(ip, e))?;
        if let Some(index) = &mut self.index {
            index.note(ip, None);
        }
        Ok(())
    }

    /// Changes the directory. A change that fails may have been made in part, so the index is
    /// removed.
    fn change<T>(&mut self, change: impl FnOnce(&Directory) -> io::Result<T>) -> io::Result<T> {
        let before = self
            .directory
            .metadata()
            .map(|data| Version::of(&data))
            .ok();
        if self.version.is_some() && self.version != before {
            tracing::debug!(path = %self.directory.path().display(), "somebody else has changed it");
            self.version = None;
        }
        let done = change(&self.directory);
        if done.is_ok() {
            if self.version.is_some() {
                self.version = Version::renew(&self.directory).ok();
            }
        } else {
            self.index = None;
            self.version = None;
            if let Some((folder, _)) = self.cache {
                let _ = folder.remove(&index::file_name(self.id));
            }
        }
        done
    }

    /// Asks the index. If there is none, or if it is damaged, the files are read.
    fn ask<T>(&mut self, question: impl Fn(&mut Index) -> io::Result<T>) -> Result<T, Error> {
        if let Some(index) = &mut self.index
            && let Ok(answer) = question(index)
        {
            return Ok(answer);
        }
        let read = self.read_files().map(|(index, _)| index);
        read.and_then(question)
            .map_err(|error| Error::io(self.directory.path().display(), error))
    }

    /// Reads the files, and makes an index of them.
    fn read_files(&mut self) -> io::Result<(&mut Index, Vec<(IpAddr, State)>)> {
        // First the version, so that a change by another program meanwhile is noticed.
        self.version = Version::renew(&self.directory).ok();
        let files = self.directory.read_all()?;
        let states: Vec<(IpAddr, State)> = files.map(|(ip, file)| (ip, file.state)).collect();
        let taken = states.iter().filter(|(_, state)| *state != State::Torn);
        let index = Index::of_files(taken.map(|(ip, state)| (*ip, holder(state))));
        Ok((self.index.insert(index), states))
    }

    fn save_index(&mut self) -> io::Result<()> {
        let (Some((folder, has_removed_leftovers)), Some(index), Some(version)) =
            (self.cache, self.index.take(), self.version)
        else {
            return Ok(());
        };
        // The first index of a directory: others may be of directories that are gone.
        if index.is_new()
            && folder.id_of(&index::file_name(self.id)).is_err()
            && !has_removed_leftovers.replace(true)
        {
            leftover_indexes::remove(folder);
        }
        index.save(folder, self.id, version)
    }

    fn failed(&self, ip: IpAddr, error: io::Error) -> Error {
        Error::io(self.directory.path_of(ip).display(), error)
    }
}

impl Drop for Store<'_> {
    fn drop(&mut self) {
        // The lock is still held: fields are dropped after this.
        if let Err(error) = self.save_index() {
            let path = self.directory.path().display();
            tracing::debug!(%path, %error, "can't save the index");
        }
    }
}

/// Makes the file of a reservation, unless the address is taken. A torn file is replaced.
fn create_or_replace_torn(
    directory: &Directory,
    ip: IpAddr,
    content: Content<'_>,
) -> io::Result<Result<(), State>> {
    let name = ip.to_string();
    if new_file::create(directory, &name, content)? {
        return Ok(Ok(()));
    }
    // A file that can't be read is taken by somebody.
    let state = || directory.state_of(&name).unwrap_or(Some(State::Unreadable));
    let mut found = state();
    if found == Some(State::Torn) {
        tracing::warn!(
            path = %directory.path_of(ip).display(),
            "the reservation is empty or cut off: a crash has left it; giving the address out again"
        );
        let is_torn = |name: &str| matches!(directory.state_of(name), Ok(Some(State::Torn)));
        if new_file::replace_if(directory, &name, content, is_torn)? {
            return Ok(Ok(()));
        }
        found = state();
    }
    Ok(Err(found.unwrap_or(State::Unreadable)))
}

/// The holder of an address in this state, for the index.
fn holder(state: &State) -> HolderKey {
    match state {
        State::Reserved(reservation) => HolderKey::of(&reservation.container_id),
        _ => HolderKey::UNKNOWN,
    }
}
