//! What a directory of reservations holds: by its index where that is of use, by
//! its files where it isn't.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use cni::Error;
use ipam::{Holder, Interval, address_of_file};

use crate::directory::index::{Entry, HolderKey, Index, Unusable};
use crate::directory::occupancy::Occupancy;
use crate::directory::stamp::{Identity, Stamp};

/// A locked directory's reservations.
pub(crate) struct View {
    directory: PathBuf,
    identity: Identity,
    index_file: PathBuf,
    source: Source,
    /// The stamp that the directory bears unless somebody else has changed it.
    /// `None` once somebody has, or where it can't be given one: then the index
    /// is of no use to the next call.
    stamp: Option<Stamp>,
    /// The stamp that the index has been saved with.
    saved: Option<Stamp>,
}

enum Source {
    Index(Index),
    Files(Occupancy),
}

impl View {
    /// The view of a directory whose index is kept in `cache_dir`.
    pub(crate) fn open(directory: &Path, cache_dir: &Path) -> Result<Self, Error> {
        let (identity, stamp) =
            Stamp::read(directory).map_err(|e| Error::io(directory.display(), e))?;
        let index_file = identity.file_in(cache_dir, "index");
        let mut it = Self {
            directory: directory.to_owned(),
            identity,
            source: Source::Files(Occupancy::default()),
            stamp: Some(stamp),
            saved: Some(stamp),
            index_file,
        };
        match Index::open(&it.index_file, identity, stamp) {
            Some(index) => it.source = Source::Index(index),
            None => it.read_files()?,
        }
        Ok(it)
    }

    /// All reservations, as the files say.
    pub(crate) fn files(&mut self) -> Result<&Occupancy, Error> {
        if let Source::Index(_) = self.source {
            self.read_files()?;
        }
        match &self.source {
            Source::Files(occupancy) => Ok(occupancy),
            Source::Index(_) => unreachable!("the files have been read"),
        }
    }

    /// The addresses that may be reserved to the holder; their files say whether
    /// they are.
    pub(crate) fn candidates(&mut self, holder: &Holder) -> Result<Vec<IpAddr>, Error> {
        self.ask(
            |index| HolderKey::of(holder).map_or(Ok(Vec::new()), |key| index.candidates(key)),
            |files| files.held_by(holder),
        )
    }

    /// The lowest address of the interval that nobody holds.
    pub(crate) fn first_free(&mut self, interval: Interval) -> Result<Option<IpAddr>, Error> {
        self.ask(
            |index| index.first_free(interval),
            |files| files.first_free(interval),
        )
    }

    /// Takes note of a reservation that is there now. Without a holder: it can't
    /// be read.
    pub(crate) fn reserved(&mut self, ip: IpAddr, holder: Option<Holder>) -> Result<(), Error> {
        match &mut self.source {
            Source::Files(files) => {
                files.insert(ip, holder);
                Ok(())
            }
            Source::Index(index) => {
                let entry = entry(ip, holder.as_ref());
                let done = index.insert(entry);
                self.or_read_files(done)
            }
        }
    }

    /// Takes note of a release.
    pub(crate) fn released(&mut self, ip: IpAddr, holder: &Holder) -> Result<(), Error> {
        match &mut self.source {
            Source::Files(files) => {
                files.remove(ip);
                Ok(())
            }
            Source::Index(index) => {
                let done = index.remove(entry(ip, Some(holder)));
                self.or_read_files(done)
            }
        }
    }

    /// Must be called before something in the directory is changed: notices what
    /// somebody else has changed since the last time.
    pub(crate) fn before_change(&mut self) {
        if let Some(expected) = self.stamp
            && Stamp::read(&self.directory).ok() != Some((self.identity, expected))
        {
            tracing::debug!(path = %self.directory.display(), "somebody else has changed it");
            self.stamp = None;
        }
    }

    /// Must be called after something in the directory has been changed.
    pub(crate) fn after_change(&mut self) {
        if self.stamp.is_some() {
            self.stamp = Stamp::renew(&self.directory).ok();
        }
    }

    /// Leaves an index for the next call.
    pub(crate) fn save(&mut self) {
        let Some(stamp) = self.stamp else { return };
        if self.saved == self.stamp {
            return;
        }
        let saved = match &mut self.source {
            Source::Index(index) => index.save(stamp),
            Source::Files(files) => {
                let entries: Vec<Entry> = files
                    .iter()
                    .filter(|(_, holder)| *holder != Some(&Holder::Torn))
                    .map(|(ip, holder)| entry(ip, holder))
                    .collect();
                make_folder_of(&self.index_file)
                    .and_then(|()| Index::build(&self.index_file, self.identity, stamp, &entries))
            }
        };
        match saved {
            Ok(()) => self.saved = Some(stamp),
            Err(error) => {
                tracing::debug!(path = %self.index_file.display(), %error, "no index is left");
            }
        }
    }

    fn ask<T>(
        &mut self,
        by_index: impl Fn(&mut Index) -> Result<T, Unusable>,
        by_files: impl Fn(&Occupancy) -> T,
    ) -> Result<T, Error> {
        if let Source::Index(index) = &mut self.source
            && let Ok(answer) = by_index(index)
        {
            return Ok(answer);
        }
        Ok(by_files(self.files()?))
    }

    fn or_read_files(&mut self, done: Result<(), Unusable>) -> Result<(), Error> {
        done.or_else(|Unusable| self.read_files())
    }

    fn read_files(&mut self) -> Result<(), Error> {
        // First the stamp, so that what somebody changes meanwhile is noticed.
        self.stamp = Stamp::renew(&self.directory).ok();
        self.saved = None;
        let occupancy =
            read(&self.directory).map_err(|e| Error::io(self.directory.display(), e))?;
        self.source = Source::Files(occupancy);
        Ok(())
    }
}

fn entry(ip: IpAddr, holder: Option<&Holder>) -> Entry {
    (holder.and_then(HolderKey::of), ip)
}

/// Reads every reservation of a directory.
fn read(directory: &Path) -> io::Result<Occupancy> {
    let mut occupancy = Occupancy::default();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(ip) = name.to_str().and_then(address_of_file) else {
            continue;
        };
        let path = directory.join(name);
        if !entry.file_type()?.is_file() && !path.is_file() {
            // Reading a pipe would wait for its writer.
            tracing::warn!(path = %path.display(), "no file, but named like a reservation");
            occupancy.insert(ip, None);
            continue;
        }
        match fs::read(&path) {
            Ok(content) => occupancy.insert(ip, Some(Holder::parse(&content))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "unreadable reservation");
                occupancy.insert(ip, None);
            }
        }
    }
    Ok(occupancy)
}

fn make_folder_of(file: &Path) -> io::Result<()> {
    file.parent().map_or(Ok(()), fs::create_dir_all)
}
