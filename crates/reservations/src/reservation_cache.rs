//! Answers questions about a locked directory: by its index if that is up to date, and
//! by its files otherwise.

use std::cell::OnceCell;
use std::io;
use std::net::IpAddr;

use ipam::Interval;
use rustix::fs::OFlags;
use state_files::{FileId, StateFolder};

use crate::change_detection::{self, Version};
use crate::directory::{Directory, State, TORN_AGE};
use crate::index::{self, Entry, HolderKey, Index, Unusable};
use crate::leftover_caches;
use crate::reservation_list::ReservationList;

/// Knowledge of a locked directory's reservations.
pub(crate) struct ReservationCache<'a> {
    folder: Option<&'a StateFolder>,
    /// Set when the indexes of directories that are gone have been looked for.
    leftovers: &'a OnceCell<()>,
    id: FileId,
    known: Known,
    /// Version of the directory after our last change. `None` if another program has
    /// changed the directory since, or if no version can be set: then no index is left.
    version: Option<Version>,
    /// True if an index has to be written, because the files have been read.
    fresh: bool,
}

enum Known {
    Index(Index),
    Files(ReservationList),
    /// A change failed halfway: the files must be read before the next question.
    Nothing,
}

/// A change of the directory, as far as it is about a reservation.
pub(crate) enum Noted {
    /// The address is now in this state.
    Taken(IpAddr, State),
    /// The address, which was in this state, has no file any more.
    Released(IpAddr, State),
    /// No reservation has changed.
    Nothing,
}

impl<'a> ReservationCache<'a> {
    /// Opens the directory's index, if it is up to date.
    pub(crate) fn open(
        directory: &Directory,
        folder: Option<&'a StateFolder>,
        leftovers: &'a OnceCell<()>,
    ) -> io::Result<Self> {
        let metadata = directory.metadata()?;
        let (id, version) = (FileId::from(&metadata), Version::of(&metadata));
        let index = folder.and_then(|folder| Index::open(folder, id, version));
        Ok(Self {
            folder,
            leftovers,
            id,
            known: index.map_or(Known::Nothing, Known::Index),
            version: Some(version),
            fresh: false,
        })
    }

    /// True if all files have been read in this call, or shortly before it: for less time
    /// than after which a torn file is free. A clock that was set back counts as later.
    pub(crate) fn has_just_read(&self) -> bool {
        match &self.known {
            Known::Index(index) => {
                let age = change_detection::now() - index.files_read();
                (0..TORN_AGE.as_secs().cast_signed()).contains(&age)
            }
            Known::Files(_) => true,
            Known::Nothing => false,
        }
    }

    /// The addresses that may be reserved to the container; their files say whether they
    /// are.
    pub(crate) fn candidates(
        &mut self,
        directory: &Directory,
        container_id: &str,
    ) -> io::Result<Vec<IpAddr>> {
        self.ask(
            directory,
            |index| index.candidates(HolderKey::of(container_id)),
            |files| files.of_container(container_id),
        )
    }

    /// The lowest free address of the interval.
    pub(crate) fn first_free(
        &mut self,
        directory: &Directory,
        interval: Interval,
    ) -> io::Result<Option<IpAddr>> {
        self.ask(
            directory,
            |index| index.first_free(interval),
            |files| files.first_free(interval),
        )
    }

    /// All reservations, as the files say.
    pub(crate) fn files(&mut self, directory: &Directory) -> io::Result<&ReservationList> {
        if !matches!(self.known, Known::Files(_)) {
            self.read_files(directory)?;
        }
        match &self.known {
            Known::Files(list) => Ok(list),
            _ => unreachable!("the files have been read"),
        }
    }

    /// Makes a change of the directory, and takes note of it. If it fails, it may have
    /// been made halfway: the index is then removed.
    pub(crate) fn change<T>(
        &mut self,
        directory: &Directory,
        change: impl FnOnce() -> io::Result<(T, Noted)>,
    ) -> io::Result<T> {
        let before = directory.metadata().map(|it| Version::of(&it)).ok();
        if self.version.is_some() && self.version != before {
            tracing::debug!(path = %directory.path().display(), "somebody else has changed it");
            self.version = None;
        }
        match change() {
            Ok((done, noted)) => {
                if self.version.is_some() {
                    self.version = Version::renew(directory).ok();
                }
                self.note(noted);
                Ok(done)
            }
            Err(error) => {
                self.known = Known::Nothing;
                self.version = None;
                self.remove_index();
                Err(error)
            }
        }
    }

    fn note(&mut self, noted: Noted) {
        match &mut self.known {
            Known::Files(list) => match noted {
                Noted::Taken(ip, state) => list.insert(ip, state),
                Noted::Released(ip, _) => list.remove(ip),
                Noted::Nothing => {}
            },
            Known::Index(index) => {
                // Without a version, the index is used to the end of the call only.
                let version = self.version.unwrap_or(Version([0; 4]));
                match noted {
                    Noted::Taken(ip, state) => index.insert(entry(ip, &state), version),
                    Noted::Released(ip, state) => index.remove(entry(ip, &state), version),
                    Noted::Nothing => index.renew(version),
                }
            }
            Known::Nothing => {}
        }
    }

    /// Leaves an index for the next call.
    pub(crate) fn save(&mut self, directory: &Directory) {
        let (Some(folder), Some(version)) = (self.folder, self.version) else {
            return;
        };
        let saved = match std::mem::replace(&mut self.known, Known::Nothing) {
            Known::Index(index) => index.save(folder, directory.path()),
            Known::Files(list) if self.fresh => {
                let entries = list
                    .iter()
                    .filter(|(_, state)| **state != State::Torn)
                    .map(|(ip, state)| entry(ip, state))
                    .collect();
                // The first index of a directory: others may have gone. One look is enough,
                // however many directories are new.
                if folder
                    .open_file(&index::file_name(self.id), OFlags::RDONLY)
                    .is_err()
                {
                    let remove = || leftover_caches::remove(folder);
                    self.leftovers.get_or_init(remove);
                }
                let now = change_detection::now();
                Index::build(folder, self.id, directory.path(), version, now, entries)
            }
            _ => Ok(()),
        };
        if let Err(error) = saved {
            let path = folder.path_of(&index::file_name(self.id));
            tracing::debug!(path = %path.display(), %error, "no index is left");
        }
    }

    fn remove_index(&self) {
        if let Some(folder) = self.folder {
            let _ = folder.remove(&index::file_name(self.id));
        }
    }

    fn ask<T>(
        &mut self,
        directory: &Directory,
        by_index: impl FnOnce(&mut Index) -> Result<T, Unusable>,
        by_files: impl FnOnce(&ReservationList) -> T,
    ) -> io::Result<T> {
        if let Known::Index(index) = &mut self.known
            && let Ok(answer) = by_index(index)
        {
            return Ok(answer);
        }
        Ok(by_files(self.files(directory)?))
    }

    /// Reads the files, whatever the index says.
    pub(crate) fn read_files(&mut self, directory: &Directory) -> io::Result<()> {
        // First the version, so that a change by another program meanwhile is noticed.
        self.version = Version::renew(directory).ok();
        self.fresh = true;
        let mut list = ReservationList::default();
        directory.list(|ip, file| list.insert(ip, file.state))?;
        self.known = Known::Files(list);
        Ok(())
    }
}

fn entry(ip: IpAddr, state: &State) -> Entry {
    match state {
        State::Reserved(reservation) => Entry {
            ip,
            holder: HolderKey::of(&reservation.container_id),
            shared: reservation.network.is_some(),
        },
        _ => Entry {
            ip,
            holder: HolderKey::UNKNOWN,
            shared: false,
        },
    }
}
