//! One locked directory of reservations, used on behalf of a network. [`crate::DataDir`] opens it with
//! its lock.
//!
//! A [`NewFile`] is complete before it gets an address as its name: that claims the address, and fails
//! if the name is there. [`Directory`] reads, lists and removes such files; [`RotationFile`] says where
//! the search for a free address goes on. The files are all there is, so nothing can contradict them.

use std::fs::{self, File};
use std::io;
use std::net::IpAddr;

use cni::{Attachment, Error, NetworkName};
use ipam::{Candidate, Range};
use state_files::names_in;

use crate::directory::Directory;
use crate::lock::LOCK_FILE;
use crate::new_file::NewFile;
use crate::reservation::Reservation;
use crate::rotation_file::{PREFIX, RotationFile};
use crate::state::State;

/// Number of names that are tried one after the other, before all names are listed. A name costs
/// about a microsecond, a listing of a full /16 some milliseconds.
const MOST_TRIED: usize = 512;

/// Name of a file that [`Store::verify_writable`] makes and removes.
const TRIAL: &str = "unfinished.trial.tmp";

/// A directory of reservations, locked until this is dropped.
pub struct Store<'a> {
    pub(crate) network: &'a NetworkName,
    /// The names that lead to the directory.
    pub(crate) names: Vec<NetworkName>,
    pub(crate) directory: Directory,
    pub(crate) _lock: File,
}

/// Outcome of the reservation of one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// It is reserved to the attachment by this call.
    Now,
    /// It was not free; its state.
    Already(State),
}

impl Store<'_> {
    pub(crate) fn is_named(&self, name: &NetworkName) -> bool {
        self.names.contains(name)
    }

    /// Reserves an address to the attachment, if it is free. A torn file is replaced.
    ///
    /// # Errors
    ///
    /// Code 5, naming the path.
    pub fn reserve(&self, ip: IpAddr, attachment: &Attachment) -> Result<Reserved, Error> {
        let reserve = || {
            let new = self.reservation_of(attachment)?;
            if new.link(&ip.to_string())? {
                return Ok(Reserved::Now);
            }
            match self.directory.state_of(ip) {
                Some(State::Torn) if self.replace(&new, ip)? => Ok(Reserved::Now),
                // A program that doesn't take the lock has removed the file.
                None => Ok(Reserved::Already(State::Unreadable)),
                Some(state) => Ok(Reserved::Already(state)),
            }
        };
        reserve().map_err(|error| self.failed(ip, error))
    }

    /// Reserves the first free address of these candidates. The next ones are tried by their
    /// names; if all of those are taken, the names are listed once. If no address is free, one
    /// with an empty file is given out: a crash has left it. `None` if there is none either.
    ///
    /// # Errors
    ///
    /// Code 5, naming the path.
    pub fn reserve_first<'r>(
        &self,
        candidates: &[Candidate<'r>],
        attachment: &Attachment,
    ) -> Result<Option<(IpAddr, &'r Range)>, Error> {
        let reserve = || {
            let new = self.reservation_of(attachment)?;
            let next = candidates.iter().flat_map(|candidate| {
                let Candidate { addresses, range } = *candidate;
                addresses.iter().map(move |ip| (ip, range))
            });
            for (ip, range) in next.take(MOST_TRIED) {
                if new.link(&ip.to_string())? {
                    return Ok(Some((ip, range)));
                }
            }
            let mut taken = self.directory.addresses()?;
            while let Some((ip, range)) = ipam::first_free(candidates, &mut taken) {
                if new.link(&ip.to_string())? {
                    return Ok(Some((ip, range)));
                }
                // A program that doesn't take the lock has made it.
                taken.push(ip);
            }
            let empty = self.first_empty(candidates, &taken);
            match empty {
                Some((ip, range)) if self.replace(&new, ip)? => Ok(Some((ip, range))),
                _ => Ok(None),
            }
        };
        reserve().map_err(|error| self.unusable(error))
    }

    /// The rotation of this name.
    pub fn rotation(&self, name: &str) -> RotationFile {
        RotationFile::open(&self.directory, name)
    }

    /// The state of an address; `None` if it has no file.
    pub fn state(&self, ip: IpAddr) -> Option<State> {
        self.directory.state_of(ip)
    }

    /// Releases an address, whoever has it.
    ///
    /// # Errors
    ///
    /// Code 5, naming the path.
    pub fn release(&self, ip: IpAddr) -> Result<(), Error> {
        let removed = self.directory.remove(&ip.to_string());
        removed.map_err(|error| self.failed(ip, error))
    }

    /// Removes the directory, if it has only allocators' own files. Who waits for its lock meanwhile
    /// makes it again.
    pub(crate) fn remove_unused(self) -> Result<(), Error> {
        let path = &self.directory.path;
        let remove = || {
            let names = names_in(path)?;
            let is_own = |name: &String| name == LOCK_FILE || name.starts_with(PREFIX);
            if !names.iter().all(is_own) {
                return Ok(());
            }
            for name in names {
                self.directory.remove(&name)?;
            }
            match fs::remove_dir(path) {
                // Somebody has made a file in it.
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
                removed => removed,
            }
        };
        remove().map_err(|error| self.unusable(error))
    }

    /// Verifies that a reservation could be made, and leaves nothing behind.
    ///
    /// # Errors
    ///
    /// Code 5, naming the path.
    pub fn verify_writable(&self) -> Result<(), Error> {
        let write = || {
            self.directory.remove(TRIAL)?;
            NewFile::write(&self.directory, b"x")?.link(TRIAL)?;
            self.directory.remove(TRIAL)
        };
        write().map_err(|error| self.unusable(error))
    }

    /// The file of a new reservation. In the directory that is named after the network, it is
    /// host-local's.
    fn reservation_of(&self, attachment: &Attachment) -> io::Result<NewFile<'_>> {
        let network = (!self.is_named(self.network)).then_some(self.network);
        let reservation = Reservation::new(attachment, network);
        NewFile::write(&self.directory, &reservation.to_bytes())
    }

    /// The first of the candidates whose file is empty.
    fn first_empty<'r>(
        &self,
        candidates: &[Candidate<'r>],
        taken: &[IpAddr],
    ) -> Option<(IpAddr, &'r Range)> {
        taken.iter().find_map(|ip| {
            let mut candidates = candidates.iter();
            let candidate = candidates.find(|candidate| candidate.addresses.contains(*ip))?;
            let is_empty = self.directory.is_empty_file(&ip.to_string());
            is_empty.then_some((*ip, candidate.range))
        })
    }

    /// Puts the new file in the place of a torn one.
    fn replace(&self, new: &NewFile<'_>, ip: IpAddr) -> io::Result<bool> {
        let path = self.directory.path_of(ip);
        tracing::warn!(
            path = %path.display(),
            "the reservation is empty or cut off: a crash has left it; giving the address out again"
        );
        let name = ip.to_string();
        self.directory.remove(&name)?;
        new.link(&name)
    }

    fn failed(&self, ip: IpAddr, error: io::Error) -> Error {
        Error::io(self.directory.path_of(ip).display(), error)
    }

    fn unusable(&self, error: io::Error) -> Error {
        Error::io(self.directory.path.display(), error)
    }
}
