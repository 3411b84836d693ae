//! Opens the directories below host-local's `dataDir` on behalf of one network.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cni::{Boot, Cancellation, Error, FileId, NetworkName, StateFolder};

use crate::change_detection::Version;
use crate::directory::{Directory, State};
use crate::index::Index;
use crate::leftover_caches;
use crate::lock::Lock;
use crate::new_file::NewFile;
use crate::store::Store;
use crate::tools::{self, ListedAddress};

/// Number of attempts at locks whose files others replace meanwhile.
const MOST_ATTEMPTS: usize = 100;

/// Folders of the reservations and indexes, and the network that uses them.
#[derive(Clone)]
pub struct Settings<'a> {
    /// The folder with a directory for each network and each named pool.
    pub data_dir: PathBuf,
    /// The folder for indexes.
    pub cache_dir: PathBuf,
    /// The network.
    pub network: NetworkName,
    /// Releases the network's reservations from before this boot. `None` releases nothing.
    pub reclaim: Option<Boot>,
    /// The ID of the chain's call, which new reservations note. `None` outside of a chain.
    pub call: Option<String>,
    /// Ends a wait for a lock.
    pub cancellation: Option<&'a dyn Cancellation>,
}

/// The directories below `dataDir`.
pub struct DataDir<'a> {
    pub(crate) settings: Settings<'a>,
    /// The folder of indexes; `None` if it can't be used.
    cache: OnceCell<Option<StateFolder>>,
}

/// A directory that is locked, and the names that lead to it.
pub(crate) struct Locked {
    pub(crate) names: Vec<NetworkName>,
    pub(crate) directory: Directory,
    pub(crate) lock: Lock,
}

impl<'a> DataDir<'a> {
    /// The directories of these settings. Nothing is opened yet.
    pub fn new(settings: Settings<'a>) -> Self {
        Self {
            settings,
            cache: OnceCell::new(),
        }
    }

    /// Opens the directory of this name and locks it, if it exists.
    ///
    /// # Errors
    ///
    /// Code 5, naming the path.
    pub fn open(&self, name: &NetworkName) -> Result<Option<Store<'_>>, Error> {
        let mut locked = self.lock_all(&[name], Directory::open)?;
        locked.pop().map(|it| Store::open(self, it)).transpose()
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
        let locked = self.lock_all(names, |path| Directory::create(path).map(Some))?;
        let stores = locked.into_iter().map(|it| Store::open(self, it));
        stores.collect::<Result<_, _>>().map(Stores)
    }

    /// The names of further directories that may hold reservations of the network:
    /// those of named pools that are not in `known`.
    ///
    /// An index that is up to date answers at once. Without one, the files are read,
    /// without a lock; no file is made.
    ///
    /// # Errors
    ///
    /// Code 5, naming the path.
    pub fn others(&self, known: &BTreeSet<NetworkName>) -> Result<Vec<NetworkName>, Error> {
        let data_dir = &self.settings.data_dir;
        let failed = |error: io::Error| Error::io(data_dir.display(), error);
        let entries = match fs::read_dir(data_dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(failed)?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let name = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok());
            let Some(name) = name else { continue };
            if !known.contains(&name) && self.may_hold(&entry.path()) {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Lists the addresses of the directory of this name, without its lock
    /// ([`tools::list`]).
    ///
    /// # Errors
    ///
    /// The system's; `NotFound` if there is no such directory.
    pub fn list(&self, name: &NetworkName) -> io::Result<Vec<ListedAddress>> {
        tools::list_in_this_thread(&self.path_of(name))
    }

    /// Removes indexes whose directories are gone.
    pub fn remove_leftover_caches(&self) {
        if let Some(folder) = self.cache() {
            leftover_caches::remove(folder);
        }
    }

    /// Verifies that a reservation could be written to the directory of this name, and
    /// leaves nothing behind. For a missing directory, its nearest parent is tried.
    ///
    /// # Errors
    ///
    /// Code 5, naming the path.
    pub fn verify_writable(&self, name: &NetworkName) -> Result<(), Error> {
        let path = self.path_of(name);
        let failed = |path: &Path, e: io::Error| Error::io(path.display(), e);
        if let Some(mut store) = self.open(name)? {
            return store.verify_writable();
        }
        let mut parents = path
            .ancestors()
            .skip(1)
            .filter(|it| !it.as_os_str().is_empty());
        let found = parents.find_map(|path| match Directory::open(path) {
            Ok(None) => None,
            Ok(Some(directory)) => {
                Some(NewFile::try_unnamed(&directory).map_err(|e| failed(path, e)))
            }
            Err(error) => Some(Err(failed(path, error))),
        });
        found.unwrap_or(Ok(()))
    }

    /// The folder of indexes, if they can be kept.
    pub(crate) fn cache(&self) -> Option<&StateFolder> {
        let open = || {
            let path = &self.settings.cache_dir;
            let opened = StateFolder::create(path);
            opened
                .inspect_err(|error| {
                    let path = path.display();
                    // An insecure folder, which we refuse: an administrator must know.
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

    fn path_of(&self, name: &NetworkName) -> PathBuf {
        self.settings.data_dir.join(name.as_str())
    }

    /// Opens and locks directories, each once, in one order for all processes: so no two
    /// wait for each other.
    fn lock_all(
        &self,
        names: &[&NetworkName],
        open: impl Fn(&Path) -> io::Result<Option<Directory>>,
    ) -> Result<Vec<Locked>, Error> {
        for _ in 0..MOST_ATTEMPTS {
            let mut directories = BTreeMap::new();
            for name in names {
                let path = self.path_of(name);
                let failed = |e| Error::io(path.display(), e);
                let Some(directory) = open(&path).map_err(failed)? else {
                    continue;
                };
                // A single one needs no order.
                let id = (names.len() > 1).then(|| directory.id());
                let id = id.transpose().map_err(failed)?;
                let (names, _) = directories
                    .entry(id)
                    .or_insert_with(|| (Vec::new(), directory));
                names.push((*name).clone());
            }
            if let Some(locked) = self.lock_each(directories.into_values())? {
                return Ok(locked);
            }
        }
        Err(Error::io(
            format_args!("lock in {}", self.settings.data_dir.display()),
            "it is replaced again and again",
        ))
    }

    /// Locks each directory; `None` if one was replaced while another process held its
    /// lock.
    fn lock_each(
        &self,
        directories: impl Iterator<Item = (Vec<NetworkName>, Directory)>,
    ) -> Result<Option<Vec<Locked>>, Error> {
        let mut all = Vec::new();
        for (names, directory) in directories {
            let lock = Lock::acquire(&directory, self.settings.cancellation).map_err(|e| {
                Error::io(format_args!("lock of {}", directory.path().display()), e)
            })?;
            let Some(lock) = lock else { return Ok(None) };
            all.push(Locked {
                names,
                directory,
                lock,
            });
        }
        Ok(Some(all))
    }

    /// True if the directory at this path may hold reservations that name the network.
    fn may_hold(&self, path: &Path) -> bool {
        let looked = Directory::open(path).and_then(|directory| {
            let Some(directory) = directory else {
                return Ok(false);
            };
            if let Some(folder) = self.cache() {
                let metadata = directory.metadata()?;
                let version = Version::of(&metadata);
                if let Some(index) = Index::open(folder, FileId::from(&metadata), version) {
                    return Ok(index.has_shared());
                }
            }
            let network = self.settings.network.as_str();
            let mut found = false;
            directory.list(|_, file| {
                found |= matches!(&file.state, State::Reserved(it)
                    if it.network.as_deref() == Some(network));
            })?;
            Ok(found)
        });
        // Whoever opens it gets the error. A file is no directory of reservations.
        looked.unwrap_or_else(|error| error.kind() != io::ErrorKind::NotADirectory)
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
