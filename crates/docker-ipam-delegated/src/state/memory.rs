//! Folders of everything that is remembered: a file for each object.
//!
//! The format's number stands in the folder's name. One daemon at a time has the folder.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;
use state_files::StateFolder;

use crate::lock::lock;
use crate::state::journal::{self, Journal, Stage};

/// The version of the format.
const VERSION: &str = "v1";

/// The folders of references to pools, of addresses, and of endpoints.
pub(crate) const POOLS: &str = "pools";
pub(crate) const ADDRESSES: &str = "addresses";
pub(crate) const ENDPOINTS: &str = "endpoints";

/// What the container IDs of the daemon's own attachments begin with.
pub(crate) const ATTACHMENT: &str = "docker-";

/// The folder of the memory in a state folder.
pub(crate) fn path(state_dir: &Path) -> PathBuf {
    state_dir.join("memory").join(VERSION)
}

/// The name of the file of an address, by the container ID of the attachment that holds the
/// address; `None` for any other container ID.
pub(crate) fn file_of(container_id: &str) -> Option<&str> {
    let file = container_id.strip_prefix(ATTACHMENT)?;
    let (start, number) = file.split_once('-')?;
    (start.len() == 16 && is_hex(start) && is_hex(number)).then_some(file)
}

/// True if a container ID is one that the daemon makes for an attachment: of an address, or
/// of an endpoint.
pub(crate) fn is_attachment(container_id: &str) -> bool {
    let endpoint = container_id.strip_prefix(ATTACHMENT);
    file_of(container_id).is_some() || endpoint.is_some_and(|it| it.len() == 64 && is_hex(it))
}

fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// All folders.
pub(crate) struct Memory {
    /// References to pools.
    pub(crate) pools: Folder,
    /// Addresses.
    pub(crate) addresses: Folder,
    /// Networks of the network driver.
    pub(crate) networks: Folder,
    /// Their endpoints.
    pub(crate) endpoints: Folder,
    /// The lock of the whole memory.
    _lock: File,
}

impl Memory {
    /// Opens the memory, for this process alone.
    ///
    /// # Errors
    ///
    /// Another process has it; it is of a later format; the system's.
    pub(crate) fn open(state_dir: &Path) -> Result<Self> {
        StateFolder::create(state_dir).with_context(|| format!("{}", state_dir.display()))?;
        let root = state_dir.join("memory");
        let path = path(state_dir);
        let folder = StateFolder::create(&path).with_context(|| format!("{}", path.display()))?;
        for entry in fs::read_dir(&root)? {
            let name = entry?.file_name();
            if name != VERSION {
                bail!(
                    "{}: this version reads {VERSION} only; use the version that made it until no network needs it, or move it away",
                    root.join(name).display()
                );
            }
        }
        let lock = folder.create_file("lock", rustix::fs::OFlags::RDWR)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => bail!("{}: another daemon has it", path.display()),
            Err(error) => bail!("{}/lock: {error}", path.display()),
        }
        Ok(Self {
            pools: Folder::open(path.join(POOLS))?,
            addresses: Folder::open(path.join(ADDRESSES))?,
            networks: Folder::open(path.join("networks"))?,
            endpoints: Folder::open(path.join(ENDPOINTS))?,
            _lock: lock,
        })
    }
}

/// The files of one kind of object.
pub(crate) struct Folder {
    path: PathBuf,
    folder: Arc<StateFolder>,
    /// What the names of new files begin with: the time of the start.
    start: u128,
    next: AtomicU64,
    /// The files that can't be read, each with the reason.
    unread: Mutex<BTreeMap<String, String>>,
}

impl Folder {
    fn open(path: PathBuf) -> Result<Self> {
        let folder = StateFolder::create(&path).with_context(|| format!("{}", path.display()))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Ok(Self {
            path,
            folder: Arc::new(folder),
            start: now.map_or(0, |it| it.as_nanos()),
            next: AtomicU64::new(0),
            unread: Mutex::default(),
        })
    }

    /// A name that no file has had. Later ones are greater, unless the clock was set back.
    pub(crate) fn new_name(&self) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        format!("{:016x}-{number:08x}", self.start)
    }

    /// Makes the file of an object that is made by that alone.
    ///
    /// # Errors
    ///
    /// An I/O error; there is no file then.
    pub(crate) fn make<T: Serialize>(&self, object: T) -> io::Result<Journal<T>> {
        Journal::made_at_once(&self.folder, &self.new_name(), object)
    }

    /// The folder itself.
    pub(crate) fn folder(&self) -> &Arc<StateFolder> {
        &self.folder
    }

    /// All objects by the names of their files, in the order in which they were made.
    /// A file that was begun and not written is removed. One that can't be read stays: it is
    /// among [`Self::unread`], with a warning.
    ///
    /// # Errors
    ///
    /// The system's, for the folder.
    pub(crate) fn load<T: DeserializeOwned>(&self) -> io::Result<Vec<(String, Stage<T>)>> {
        let mut objects = Vec::new();
        for (name, stage) in read(&self.path)? {
            match stage {
                Ok(Some(stage)) => objects.push((name, stage)),
                Ok(None) => self.folder.remove(&name)?,
                Err(reason) => {
                    let file = self.path.join(&name);
                    tracing::warn!(reason, file = %file.display(), "can't be read");
                    lock(&self.unread).insert(name, reason);
                }
            }
        }
        objects.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        Ok(objects)
    }

    /// Tries to read the files that could not be read: those that can be read now.
    pub(crate) fn load_unread<T: DeserializeOwned>(&self) -> Vec<(String, Stage<T>)> {
        let mut objects = Vec::new();
        lock(&self.unread).retain(|name, reason| {
            match read_one(&self.folder, name) {
                // Somebody has removed it, or what was written of it.
                None | Some(Ok(None)) => return false,
                Some(Ok(Some(stage))) => objects.push((name.clone(), stage)),
                Some(Err(now)) => {
                    *reason = now;
                    return true;
                }
            }
            tracing::info!(file = %self.path.join(name).display(), "can be read again");
            false
        });
        objects
    }

    /// Reads the file of an object; `None` if there is none.
    pub(crate) fn read<T: DeserializeOwned>(&self, name: &str) -> Option<Content<T>> {
        read_one(&self.folder, name)
    }

    /// The files that can't be read, each with the reason.
    pub(crate) fn unread(&self) -> BTreeMap<String, String> {
        lock(&self.unread).clone()
    }

    /// True if there is a file of this name.
    ///
    /// # Errors
    ///
    /// The system's: it may be there.
    pub(crate) fn has(&self, name: &str) -> io::Result<bool> {
        match self.path.join(name).symlink_metadata() {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The path of a file.
    pub(crate) fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Notes that an object is about to be ended.
    pub(crate) fn note_ending<T: Serialize>(&self, name: &str) {
        match Journal::<T>::open(&self.folder, name) {
            Ok(mut journal) => journal.ending(),
            Err(error) => {
                let file = self.path.join(name);
                tracing::warn!(%error, file = %file.display(), "can't be opened");
            }
        }
    }

    /// Removes the file of an object. A missing one is no error.
    pub(crate) fn remove(&self, name: &str) {
        lock(&self.unread).remove(name);
        if let Err(error) = self.folder.remove(name) {
            let file = self.path.join(name);
            tracing::warn!(%error, file = %file.display(), "can't be removed");
        }
    }
}

/// The stage that a file's lines tell; `None` if not even the first was written.
pub(crate) type Content<T> = Result<Option<Stage<T>>, String>;

/// Reads the files of one kind of object. One that is removed meanwhile is left out.
///
/// # Errors
///
/// The system's, for the folder.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Vec<(String, Content<T>)>> {
    let folder = match StateFolder::open(path) {
        Ok(folder) => folder,
        // A daemon is making its memory.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut all = Vec::new();
    for entry in fs::read_dir(path)? {
        let Ok(name) = entry?.file_name().into_string() else {
            continue;
        };
        if let Some(stage) = read_one(&folder, &name) {
            all.push((name, stage));
        }
    }
    Ok(all)
}

/// Reads the file of an object; `None` if there is none.
fn read_one<T: DeserializeOwned>(folder: &StateFolder, name: &str) -> Option<Content<T>> {
    match folder.read(name) {
        Ok(content) => {
            let text = String::from_utf8_lossy(&content);
            Some(journal::read(&text).map_err(|error| error.to_string()))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => Some(Err(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_is_one_process_s_at_a_time_and_of_one_version() {
        let state = tempfile::tempdir().unwrap();
        let error = |it: Result<Memory>| it.err().map(|it| it.to_string()).unwrap_or_default();
        let memory = Memory::open(state.path()).unwrap();
        assert!(error(Memory::open(state.path())).ends_with("another daemon has it"));
        drop(memory);
        fs::create_dir(state.path().join("memory/v2")).unwrap();
        assert!(
            error(Memory::open(state.path())).contains("memory/v2: this version reads v1 only")
        );
    }

    #[test]
    fn a_file_that_cant_be_read_is_read_once_it_can() {
        let state = tempfile::tempdir().unwrap();
        let memory = Memory::open(state.path()).unwrap();
        let file = state.path().join("memory/v1/pools/1-0");
        fs::write(&file, "damaged\n").unwrap();
        assert!(memory.pools.load::<u8>().unwrap().is_empty());
        assert!(memory.pools.load_unread::<u8>().is_empty());
        assert_eq!(memory.pools.unread().len(), 1);
        assert!(memory.pools.has("1-0").unwrap() && !memory.pools.has("2-0").unwrap());
        fs::write(&file, "{\"made\":{\"object\":7}}\n").unwrap();
        let read = memory.pools.load_unread::<u8>();
        assert_eq!(read, [("1-0".to_owned(), Stage::Made(7))]);
        assert!(memory.pools.unread().is_empty());
    }

    #[test]
    fn an_attachments_id_is_told_from_a_name() {
        let endpoint = format!("docker-{}", "8f".repeat(32));
        for id in ["docker-18f0a1b2c3d4e5f6-2a", &endpoint] {
            assert!(is_attachment(id), "{id}");
        }
        for id in [
            "docker-web",
            "docker-web-1",
            "docker-registry-01",
            "web",
            "docker-",
        ] {
            assert!(!is_attachment(id), "{id}");
        }
    }

    #[test]
    fn names_are_never_used_again() {
        let state = tempfile::tempdir().unwrap();
        let names = || {
            let memory = Memory::open(state.path()).unwrap();
            [memory.pools.new_name(), memory.pools.new_name()]
        };
        let mut all = [names(), names()].concat();
        all.dedup();
        assert_eq!(all.len(), 4);
    }

    #[test]
    fn a_file_that_was_not_written_is_removed() {
        let state = tempfile::tempdir().unwrap();
        let memory = Memory::open(state.path()).unwrap();
        let file = state.path().join("memory/v1/pools/1-0");
        fs::write(&file, "{\"begun\":{\"ca").unwrap();
        assert!(memory.pools.load::<u8>().unwrap().is_empty());
        assert!(!file.exists());
    }
}
