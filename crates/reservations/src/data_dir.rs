//! Opens the directories below host-local's `dataDir` on behalf of one network.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use cni::{Cancellation, Error, NetworkName};
use state_files::{FileId, MOST_RACES};

use crate::directory::Directory;
use crate::lock;
use crate::store::Store;
use crate::view::directories;

/// host-local's default of `ipam.dataDir`.
pub const DATA_DIR: &str = "/var/lib/cni/networks";

/// The directories below `dataDir`, and the network that uses them. Each is opened when it is needed.
pub struct DataDir<'a> {
    /// The folder with the directories: an absolute path.
    pub data_dir: PathBuf,
    /// Name of the network.
    pub network: NetworkName,
    /// Ends a wait for a lock.
    pub cancellation: Option<&'a dyn Cancellation>,
}

impl DataDir<'_> {
    /// Opens the directory of this name and locks it, if it exists.
    ///
    /// # Errors
    ///
    /// Code 5, naming the path.
    pub fn open(&self, name: &NetworkName) -> Result<Option<Store<'_>>, Error> {
        Ok(self.open_all(&[name], Directory::find)?.pop())
    }

    /// Opens the directories of these names and locks them, all at once. Missing ones
    /// are made.
    ///
    /// Two names may lead to one directory, by a symbolic link: they share a store.
    ///
    /// # Errors
    ///
    /// Code 5, naming the path.
    pub fn create(&self, names: &[&NetworkName]) -> Result<Stores<'_>, Error> {
        self.open_all(names, |path| Directory::create(path).map(Some))
            .map(Stores)
    }

    /// Removes the directory of this name, if it has only the files of allocators' own: lock and
    /// rotations.
    ///
    /// # Errors
    ///
    /// Code 5, naming the path.
    pub fn remove_unused(&self, name: &NetworkName) -> Result<(), Error> {
        let store = self.open(name)?;
        store.map_or(Ok(()), |store| store.remove_unused())
    }

    /// The names of the directories in `dataDir` that may have reservations.
    ///
    /// # Errors
    ///
    /// Code 5, naming the path.
    pub fn names(&self) -> Result<Vec<NetworkName>, Error> {
        let names = directories(&self.data_dir);
        names.map_err(|error| Error::io(self.data_dir.display(), error))
    }

    /// The directory of this name, if there is one.
    pub(crate) fn find(&self, name: &NetworkName) -> Result<Option<Directory>, Error> {
        let path = self.path_of(name);
        Directory::find(&path).map_err(|error| Error::io(path.display(), error))
    }

    pub(crate) fn path_of(&self, name: &NetworkName) -> PathBuf {
        self.data_dir.join(name.as_str())
    }

    /// Opens and locks directories, each once, in one order for all processes: so no two
    /// wait for each other.
    fn open_all(
        &self,
        names: &[&NetworkName],
        open: impl Fn(&Path) -> io::Result<Option<Directory>>,
    ) -> Result<Vec<Store<'_>>, Error> {
        for _ in 0..MOST_RACES {
            let mut directories = BTreeMap::new();
            for name in names {
                let path = self.path_of(name);
                let failed = |e| Error::io(path.display(), e);
                let Some(directory) = open(&path).map_err(failed)? else {
                    continue;
                };
                // A single one needs no order.
                let id = (names.len() > 1).then(|| directory.metadata());
                let id = id.transpose().map_err(failed)?;
                let (names, _) = directories
                    .entry(id.as_ref().map(FileId::from))
                    .or_insert_with(|| (Vec::new(), directory));
                names.push((*name).clone());
            }
            let locked = directories.into_values().map(|(names, directory)| {
                let lock = lock::acquire(&directory, self.cancellation);
                let path = directory.path.display();
                let lock = lock.map_err(|e| Error::io(format_args!("lock of {path}"), e))?;
                Ok(lock.map(|lock| Store {
                    network: &self.network,
                    names,
                    directory,
                    _lock: lock,
                }))
            });
            // None if a lock was replaced while another process held it.
            let locked: Option<Vec<_>> = locked.collect::<Result<_, Error>>()?;
            if let Some(stores) = locked {
                return Ok(stores);
            }
        }
        Err(Error::io(
            format_args!("lock in {}", self.data_dir.display()),
            "it is replaced again and again",
        ))
    }
}

/// Directories that are locked together.
pub struct Stores<'a>(Vec<Store<'a>>);

impl<'a> Stores<'a> {
    /// Verifies that a reservation could be made in each of them, and leaves nothing behind.
    ///
    /// # Errors
    ///
    /// Code 5, naming the path of each that can't be used.
    pub fn verify_writable(&self) -> Result<(), Error> {
        let stores = self.0.iter();
        Error::all_as_one(stores.filter_map(|store| store.verify_writable().err()))
    }

    /// The store that this name leads to.
    pub fn get(&self, name: &NetworkName) -> Option<&Store<'a>> {
        self.0.iter().find(|store| store.is_named(name))
    }
}
