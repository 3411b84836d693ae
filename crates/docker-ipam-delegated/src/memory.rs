//! Folders of everything that is remembered: a file for each object.
//!
//! The format's number stands in the folder's name. One daemon at a time has the folder.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use cni::StateFolder;
use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::journal::{self, Journal, Stage};

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

/// True if a container ID is one that the daemon makes for an attachment.
pub(crate) fn is_attachment(container_id: &str) -> bool {
    let Some(rest) = container_id.strip_prefix(ATTACHMENT) else {
        return false;
    };
    let is_hex = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
    match rest.split_once('-') {
        // Of an address.
        Some((start, number)) => start.len() == 16 && is_hex(start) && is_hex(number),
        // Of an endpoint.
        None => rest.len() == 64 && is_hex(rest),
    }
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
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            bail!("{}: another daemon has it", path.display());
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
        })
    }

    /// A name that no file has had. Later ones are greater, unless the clock was set back.
    pub(crate) fn new_name(&self) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        format!("{:016x}-{number:08x}", self.start)
    }

    /// The folder itself.
    pub(crate) fn folder(&self) -> &Arc<StateFolder> {
        &self.folder
    }

    /// All objects by the names of their files, in the order in which they were made.
    /// A file that was begun and not written is removed; one that can't be read stays,
    /// with a warning.
    ///
    /// # Errors
    ///
    /// The system's.
    pub(crate) fn load<T: DeserializeOwned>(&self) -> io::Result<Loaded<T>> {
        let mut objects = BTreeMap::new();
        let mut is_whole = true;
        for (name, stage) in read(&self.path)? {
            match stage {
                Ok(Some(stage)) => {
                    objects.insert(name, stage);
                }
                Ok(None) => self.folder.remove(&name)?,
                Err(error) => {
                    is_whole = false;
                    let file = self.path.join(name);
                    tracing::warn!(error, file = %file.display(), "can't be read");
                }
            }
        }
        Ok(Loaded { objects, is_whole })
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
        if let Err(error) = self.folder.remove(name) {
            let file = self.path.join(name);
            tracing::warn!(%error, file = %file.display(), "can't be removed");
        }
    }
}

/// The objects of a folder.
pub(crate) struct Loaded<T> {
    /// The objects, by the names of their files.
    pub(crate) objects: BTreeMap<String, Stage<T>>,
    /// False if a file can't be read.
    pub(crate) is_whole: bool,
}

/// A file's name, and the stage that its lines tell; `None` if not even the first was
/// written.
type Listed<T> = (String, Result<Option<Stage<T>>, String>);

/// Reads the files of one kind of object. One that is removed meanwhile is left out.
///
/// # Errors
///
/// The system's, for the folder.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Vec<Listed<T>>> {
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
        let stage = match folder.read(&name) {
            Ok(content) => {
                let text = String::from_utf8_lossy(&content);
                journal::read(&text).map_err(|error| error.to_string())
            }
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => Err(error.to_string()),
        };
        all.push((name, stage));
    }
    Ok(all)
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
        assert!(memory.pools.load::<u8>().unwrap().objects.is_empty());
        assert!(!file.exists());
    }
}
