//! Opens the directories below host-local's `dataDir` on behalf of one network.

use std::cell::{Cell, OnceCell};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use cni::{Error, NetworkName};
use state_files::{FileId, StateFolder, names_in};

use crate::directory::{Directory, is_no_directory};
use crate::leftover_indexes;
use crate::lock::Lock;
use crate::new_file;
use crate::settings::Settings;
use crate::store::Store;

/// Number of attempts to take the locks, if others replace the lock files meanwhile.
const MOST_ATTEMPTS: usize = 100;

/// The directories below `dataDir`.
pub struct DataDir<'a> {
    settings: Settings<'a>,
    /// The folder of indexes; `None` if it can't be used.
    cache: OnceCell<Option<StateFolder>>,
    /// True if this call has looked for old indexes.
    has_removed_leftovers: Cell<bool>,
}

impl<'a> DataDir<'a> {
    /// The directories of these settings. Nothing is opened yet.
    pub fn new(settings: Settings<'a>) -> Self {
        Self {
            settings,
            cache: OnceCell::new(),
            has_removed_leftovers: Cell::new(false),
        }
    }

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

    /// The names of all files in `dataDir` that are valid for a network or a named pool.
    ///
    /// # Errors
    ///
    /// Code 5, naming the path.
    pub fn names(&self) -> Result<Vec<NetworkName>, Error> {
        let data_dir = &self.settings.data_dir;
        match names_in(data_dir) {
            Err(error) if is_no_directory(&error) => Ok(Vec::new()),
            Err(error) => Err(Error::io(data_dir.display(), error)),
            // A file with any other name holds no reservations.
            Ok(names) => Ok(names.iter().filter_map(|name| name.parse().ok()).collect()),
        }
    }

    /// Removes indexes that were not used for a day, such as those of directories that are gone.
    pub fn remove_leftover_indexes(&self) {
        if let Some(folder) = self.cache() {
            leftover_indexes::remove(folder);
        }
    }

    /// Opens the directory of this name and locks it, as ADD does. `None` if it is missing
    /// and ADD could make it: its nearest parent is tried.
    ///
    /// # Errors
    ///
    /// Code 5, naming the path.
    pub fn open_as_add_would(&self, name: &NetworkName) -> Result<Option<Store<'_>>, Error> {
        let store = self.open_all(&[name], Directory::open)?.pop();
        if store.is_some() {
            return Ok(store);
        }
        let path = self.path_of(name);
        for path in path.ancestors().skip(1) {
            let failed = |error: io::Error| Error::io(path.display(), error);
            if let Some(directory) = Directory::open(path).map_err(failed)? {
                new_file::try_unnamed(&directory).map_err(failed)?;
                break;
            }
        }
        Ok(None)
    }

    /// The folder of indexes, if they can be kept.
    pub(crate) fn cache(&self) -> Option<&StateFolder> {
        let open = || {
            let path = &self.settings.cache_dir;
            let opened = StateFolder::create(path);
            opened
                .inspect_err(|error| {
                    let path = path.display();
                    // Not a kernel's error: the folder is insecure. An administrator must know.
                    if error.raw_os_error().is_none() {
                        tracing::warn!(%path, %error, "no index is kept in ipam.cacheDir");
                    } else {
                        tracing::debug!(%path, %error, "no index is kept");
                    }
                })
                .ok()
        };
        self.cache.get_or_init(open).as_ref()
    }

    /// The network that uses the directories.
    pub(crate) fn network(&self) -> &NetworkName {
        &self.settings.network
    }

    pub(crate) fn path_of(&self, name: &NetworkName) -> PathBuf {
        self.settings.data_dir.join(name.as_str())
    }

    /// Opens and locks directories, each once, in one order for all processes: so no two
    /// wait for each other.
    fn open_all(
        &self,
        names: &[&NetworkName],
        open: impl Fn(&Path) -> io::Result<Option<Directory>>,
    ) -> Result<Vec<Store<'_>>, Error> {
        for _ in 0..MOST_ATTEMPTS {
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
                let lock = Lock::acquire(&directory, self.settings.cancellation);
                let path = directory.path().display();
                let lock = lock.map_err(|e| Error::io(format_args!("lock of {path}"), e))?;
                Ok(lock.map(|lock| (names, directory, lock)))
            });
            // None if a lock was replaced while another process held it.
            let locked: Option<Vec<_>> = locked.collect::<Result<_, Error>>()?;
            if let Some(locked) = locked {
                let cache = self
                    .cache()
                    .map(|folder| (folder, &self.has_removed_leftovers));
                let stores = locked.into_iter().map(|(names, directory, lock)| {
                    Store::open(&self.settings, cache, names, directory, lock)
                });
                return stores.collect();
            }
        }
        Err(Error::io(
            format_args!("lock in {}", self.settings.data_dir.display()),
            "it is replaced again and again",
        ))
    }
}

/// Directories that are locked together.
pub struct Stores<'a>(Vec<Store<'a>>);

impl<'a> Stores<'a> {
    /// The store that this name leads to.
    pub fn get(&mut self, name: &NetworkName) -> Option<&mut Store<'a>> {
        self.0.iter_mut().find(|store| store.is_named(name))
    }
}
