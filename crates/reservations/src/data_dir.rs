//! Opens the directories below host-local's `dataDir` on behalf of one network.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use cni::{Attachment, Cancellation, Error, NetworkName};
use state_files::{Boot, FileId, StateFolder};

use crate::change_detection::Version;
use crate::directory::{Directory, State, is_no_directory};
use crate::index::{HolderKey, Index};
use crate::leftover_caches;
use crate::lock::Lock;
use crate::new_file::NewFile;
use crate::store::Store;

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
    /// Set when the indexes of directories that are gone have been looked for.
    pub(crate) leftovers: OnceCell<()>,
}

/// What a directory may hold.
#[derive(Clone, Copy, Debug)]
pub enum Sought<'a> {
    /// Reservations of the network.
    Network,
    /// Reservations of this attachment on the network; perhaps these addresses.
    Attachment(&'a Attachment, &'a [IpAddr]),
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
            leftovers: OnceCell::new(),
        }
    }

    /// Opens the directory of this name and locks it, if it exists.
    ///
    /// # Errors
    ///
    /// Code 5, naming the path.
    pub fn open(&self, name: &NetworkName) -> Result<Option<Store<'_>>, Error> {
        let mut locked = self.lock_all(&[name], Directory::find)?;
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

    /// The names of the directories below `dataDir`, and of what else is there.
    ///
    /// # Errors
    ///
    /// Code 5, naming the path.
    pub fn names(&self) -> Result<Vec<NetworkName>, Error> {
        let data_dir = &self.settings.data_dir;
        let failed = |error: io::Error| Error::io(data_dir.display(), error);
        let entries = match fs::read_dir(data_dir) {
            Err(error) if is_no_directory(&error) => return Ok(Vec::new()),
            other => other.map_err(failed)?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(failed)?.file_name();
            // Any other name is no network's and no pool's.
            names.extend(name.to_str().and_then(|name| name.parse().ok()));
        }
        Ok(names)
    }

    /// True if the directory of this name may hold what is sought.
    ///
    /// An index that is up to date answers at once. Without one, the files are read. No lock
    /// is taken, and no file is made.
    ///
    /// # Errors
    ///
    /// Code 5, naming the path: it isn't known what the directory holds.
    pub fn may_hold(&self, name: &NetworkName, sought: Sought<'_>) -> Result<bool, Error> {
        let path = self.path_of(name);
        self.looked_through(&path, name == &self.settings.network, sought)
            .map_err(|error| Error::io(path.display(), error))
    }

    /// Removes indexes whose directories are gone.
    pub fn remove_leftover_caches(&self) {
        if let Some(folder) = self.cache() {
            leftover_caches::remove(folder);
        }
    }

    /// Opens the directory of this name and locks it, as ADD does. `None` if it is missing
    /// and ADD could make it: its nearest parent is tried.
    ///
    /// # Errors
    ///
    /// Code 5, naming the path.
    pub fn open_as_add_would(&self, name: &NetworkName) -> Result<Option<Store<'_>>, Error> {
        let mut locked = self.lock_all(&[name], Directory::open)?;
        if let Some(locked) = locked.pop() {
            return Store::open(self, locked).map(Some);
        }
        let path = self.path_of(name);
        let parents = path.ancestors().skip(1);
        for path in parents.filter(|path| !path.as_os_str().is_empty()) {
            let failed = |error: io::Error| Error::io(path.display(), error);
            if let Some(directory) = Directory::open(path).map_err(failed)? {
                NewFile::try_unnamed(&directory).map_err(failed)?;
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

    fn looked_through(&self, path: &Path, own: bool, sought: Sought<'_>) -> io::Result<bool> {
        let Some(directory) = Directory::find(path)? else {
            return Ok(false);
        };
        let network = self.settings.network.as_str();
        let is_sought = |state: &State| match (state, sought) {
            (State::Reserved(it), _) if !it.is_of(own, network) => false,
            (State::Reserved(it), Sought::Attachment(attachment, _)) => {
                it.container_id == attachment.container_id.as_str()
            }
            (State::Reserved(_), Sought::Network) => true,
            (State::Torn, Sought::Network) => own,
            _ => false,
        };
        if let Sought::Attachment(_, hints) = sought {
            for ip in hints {
                if directory.read(*ip)?.is_some_and(|state| is_sought(&state)) {
                    return Ok(true);
                }
            }
        }
        let metadata = directory.metadata()?;
        let id = FileId::from(&metadata);
        let index = self.cache();
        let index = index.and_then(|folder| Index::open(folder, id, Version::of(&metadata)));
        if let Some(mut index) = index {
            match sought {
                Sought::Network if !own => return Ok(index.has_shared()),
                Sought::Attachment(..) if !own && !index.has_shared() => return Ok(false),
                Sought::Attachment(attachment, _) => {
                    let key = HolderKey::of(attachment.container_id.as_str());
                    if let Ok(ips) = index.candidates(key) {
                        return Ok(!ips.is_empty());
                    }
                }
                Sought::Network => {}
            }
        }
        let mut found = false;
        directory.list(|_, file| found |= is_sought(&file.state))?;
        Ok(found)
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
