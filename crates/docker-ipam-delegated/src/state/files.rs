//! Files of what the daemon remembers besides attachments: a folder for each kind of object, a
//! file for each object, and a line for each step of its life.
//!
//! An attachment, of an address or of an endpoint, has a record instead.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use state_files::{Journal, StateFolder, whole_lines};

use crate::lock::lock;
use crate::state::attachment_id::Names;
use crate::state::network::Network;
use crate::state::pool::{Gateway, Pool};
use crate::state::version::{VERSION, refuse_others};

/// The folder of references to pools.
pub(crate) const POOLS: &str = "pools";

/// The folder of these files in a daemon's state folder.
pub(crate) fn path(state_dir: &Path) -> PathBuf {
    state_dir.join("memory").join(VERSION)
}

/// A line of an object's file.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line<T> {
    /// The object is made by this line.
    Made(T),
    /// Docker has the answer to the call that made the object.
    Answered,
    /// Docker has given the object back.
    Ending,
}

/// Progress of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Docker may not know of it: it may not have had the answer.
    Made,
    /// Docker knows of it.
    Answered,
    /// Docker has given it back.
    Ending,
}

/// An object, as its file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored<T> {
    /// The name of the file.
    pub(crate) file: String,
    /// The object.
    pub(crate) object: T,
    /// Its progress.
    pub(crate) stage: Stage,
}

/// The files of all objects. One process at a time has them.
pub(crate) struct Files {
    /// References to pools.
    pub(crate) pools: Objects<Pool>,
    /// Gateways of pools.
    pub(crate) gateways: Objects<Gateway>,
    /// Networks of the network driver.
    pub(crate) networks: Objects<Network>,
    /// Held as long as the process has the files.
    _lock: File,
}

impl Files {
    /// Opens the files in a daemon's state folder. No other process may have them.
    ///
    /// # Errors
    ///
    /// Another process has them; they have another version; an I/O error.
    pub(crate) fn open(state_dir: &Path) -> Result<Self> {
        StateFolder::create(state_dir).with_context(|| format!("{}", state_dir.display()))?;
        let path = path(state_dir);
        refuse_others(&state_dir.join("memory"))?;
        let folder = StateFolder::create(&path).with_context(|| format!("{}", path.display()))?;
        let lock = folder.create_file("lock", OFlags::RDWR)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => bail!("{}: another daemon has it", path.display()),
            Err(error) => bail!("{}/lock: {error}", path.display()),
        }
        Ok(Self {
            pools: Objects::open(path.join(POOLS))?,
            gateways: Objects::open(path.join("gateways"))?,
            networks: Objects::open(path.join("networks"))?,
            _lock: lock,
        })
    }
}

/// The files of one kind of object.
pub(crate) struct Objects<T> {
    path: PathBuf,
    folder: StateFolder,
    names: Names,
    /// The files that can't be read, each with the reason.
    unread: Mutex<BTreeMap<String, String>>,
    object: PhantomData<fn(T) -> T>,
}

impl<T: Serialize + DeserializeOwned> Objects<T> {
    fn open(path: PathBuf) -> Result<Self> {
        let folder = StateFolder::create(&path).with_context(|| format!("{}", path.display()))?;
        Ok(Self {
            path,
            folder,
            names: Names::default(),
            unread: Mutex::default(),
            object: PhantomData,
        })
    }

    /// Makes the file of an object; returns its name.
    ///
    /// # Errors
    ///
    /// An I/O error; there is no file then.
    pub(crate) fn make(&self, object: &T) -> io::Result<String> {
        let name = self.names.next();
        let file = self
            .folder
            .create_file(&name, Journal::ACCESS | OFlags::EXCL)?;
        let journal = Journal::new(file);
        match journal.append(&to_line(&Line::Made(object))) {
            Ok(()) => Ok(name),
            Err(error) => {
                self.remove(&name);
                Err(error)
            }
        }
    }

    /// Notes that Docker knows of an object. If this can't be written, Docker is asked for the
    /// object after the next start.
    pub(crate) fn note_answered(&self, name: &str) {
        self.append(name, &Line::<T>::Answered);
    }

    /// Notes that Docker has given an object back. If this can't be written, the object ends
    /// nevertheless: to give something back must need no space.
    pub(crate) fn note_ending(&self, name: &str) {
        self.append(name, &Line::<T>::Ending);
    }

    fn append(&self, name: &str, line: &Line<T>) {
        let file = self.folder.open_file(name, Journal::ACCESS);
        let appended = file.and_then(|file| Journal::new(file).append(&to_line(line)));
        if let Err(error) = appended {
            let file = self.path_of(name);
            tracing::warn!(%error, file = %file.display(), "can't be written");
        }
    }

    /// Removes the file of an object. A missing one is no error.
    pub(crate) fn remove(&self, name: &str) {
        lock(&self.unread).remove(name);
        if let Err(error) = self.folder.remove(name) {
            let file = self.path_of(name);
            tracing::warn!(%error, file = %file.display(), "can't be removed");
        }
    }

    /// All objects, in the order in which they were made. A file whose first line was not
    /// written is removed. One that can't be read is kept, with a warning:
    /// [`Self::load_unread`] tries it again.
    ///
    /// # Errors
    ///
    /// An I/O error of the folder.
    pub(crate) fn load(&self) -> io::Result<Vec<Stored<T>>> {
        let mut objects = Vec::new();
        for (name, content) in read(&self.path)? {
            match content {
                Ok(Some(stored)) => objects.push(stored),
                Ok(None) => self.folder.remove(&name)?,
                Err(reason) => {
                    let file = self.path_of(&name);
                    tracing::warn!(reason, file = %file.display(), "can't be read");
                    lock(&self.unread).insert(name, reason);
                }
            }
        }
        objects.sort_unstable_by(|a, b| a.file.cmp(&b.file));
        Ok(objects)
    }

    /// Tries to read the files that could not be read; returns the objects of those that now
    /// can be.
    pub(crate) fn load_unread(&self) -> Vec<Stored<T>> {
        let mut objects = Vec::new();
        lock(&self.unread).retain(|name, reason| {
            match read_one(&self.folder, name) {
                // Somebody has removed the file, or its first line.
                None | Some(Ok(None)) => return false,
                Some(Ok(Some(stored))) => objects.push(stored),
                Some(Err(now)) => {
                    *reason = now;
                    return true;
                }
            }
            tracing::info!(file = %self.path_of(name).display(), "can be read again");
            false
        });
        objects
    }

    /// Keeps objects that [`Self::load_unread`] has returned unread for this reason.
    pub(crate) fn put_back_unread(&self, objects: Vec<Stored<T>>, reason: &str) {
        let names = objects.into_iter().map(|stored| stored.file);
        lock(&self.unread).extend(names.map(|name| (name, reason.to_owned())));
    }

    /// The first file that can't be read, with the reason.
    pub(crate) fn first_unread(&self) -> Option<(PathBuf, String)> {
        let unread = lock(&self.unread);
        let (name, reason) = unread.first_key_value()?;
        Some((self.path_of(name), reason.clone()))
    }

    fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

/// The object in a file; `None` if its first line was not written, `Err` with the reason if it
/// can't be read.
pub(crate) type Content<T> = Result<Option<Stored<T>>, String>;

/// Reads the files of one kind of object, by their names. One that is removed meanwhile is left
/// out. A missing folder is empty: a daemon is making it.
///
/// # Errors
///
/// An I/O error of the folder.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Vec<(String, Content<T>)>> {
    let folder = match StateFolder::open(path) {
        Ok(folder) => folder,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut all = Vec::new();
    for entry in fs::read_dir(path)? {
        let Ok(name) = entry?.file_name().into_string() else {
            continue;
        };
        if let Some(content) = read_one(&folder, &name) {
            all.push((name, content));
        }
    }
    Ok(all)
}

/// Reads the file of an object; `None` if there is none.
fn read_one<T: DeserializeOwned>(folder: &StateFolder, name: &str) -> Option<Content<T>> {
    match folder.read(name) {
        Ok(content) => Some(parse(name, &content).map_err(|error| error.to_string())),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => Some(Err(error.to_string())),
    }
}

fn parse<T: DeserializeOwned>(name: &str, content: &[u8]) -> serde_json::Result<Option<Stored<T>>> {
    let mut stored = None;
    for line in whole_lines(content).split_inclusive(|byte| *byte == b'\n') {
        let (object, stage) = match (serde_json::from_slice(line)?, stored) {
            (Line::Made(object), _) => (object, Stage::Made),
            (Line::Answered, Some(Stored { object, .. })) => (object, Stage::Answered),
            (Line::Ending, Some(Stored { object, .. })) => (object, Stage::Ending),
            (_, None) => return Err(serde::de::Error::custom("its first line makes no object")),
        };
        let file = name.to_owned();
        stored = Some(Stored {
            file,
            object,
            stage,
        });
    }
    Ok(stored)
}

fn to_line<T: Serialize>(line: &T) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(line).expect("a line is JSON");
    bytes.push(b'\n');
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objects(folder: &tempfile::TempDir) -> Objects<u8> {
        Objects::open(folder.path().join("objects")).unwrap()
    }

    fn stages(objects: &Objects<u8>) -> Vec<(u8, Stage)> {
        let stored = objects.load().unwrap().into_iter();
        stored.map(|stored| (stored.object, stored.stage)).collect()
    }

    #[test]
    fn each_step_is_read_back_and_a_line_that_is_cut_off_was_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let objects = objects(&folder);
        let name = objects.make(&7).unwrap();
        let path = objects.path_of(&name);
        let mut before = (String::new(), None);
        for stage in [Stage::Made, Stage::Answered, Stage::Ending] {
            match stage {
                Stage::Made => {}
                Stage::Answered => objects.note_answered(&name),
                Stage::Ending => objects.note_ending(&name),
            }
            assert_eq!(stages(&objects), [(7, stage)]);
            let text = fs::read_to_string(&path).unwrap();
            for end in before.0.len()..text.len() {
                let cut = parse::<u8>(&name, &text.as_bytes()[..end]).unwrap();
                assert_eq!(cut.map(|stored| stored.stage), before.1, "{end}");
            }
            before = (text, Some(stage));
        }
        // The next line follows whole ones only.
        fs::write(&path, "{\"made\":7}\n\"answ").unwrap();
        objects.note_ending(&name);
        assert_eq!(stages(&objects), [(7, Stage::Ending)]);
        objects.remove(&name);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_without_a_whole_line_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let objects = objects(&folder);
        let path = objects.path_of("1-0");
        fs::write(&path, "{\"ma").unwrap();
        assert!(stages(&objects).is_empty() && !path.exists());
    }

    #[test]
    fn a_file_that_cant_be_read_is_read_once_it_can_be() {
        let folder = tempfile::tempdir().unwrap();
        let objects = objects(&folder);
        let path = objects.path_of("1-0");
        for damaged in ["damaged\n", "\"answered\"\n"] {
            fs::write(&path, damaged).unwrap();
            assert!(stages(&objects).is_empty() && objects.load_unread().is_empty());
            assert_eq!(objects.first_unread().unwrap().0, path);
        }
        fs::write(&path, "{\"made\":7}\n").unwrap();
        let read = objects.load_unread();
        assert_eq!(read[0].object, 7);
        assert!(objects.first_unread().is_none());
        objects.put_back_unread(read, "not yet");
        assert_eq!(
            objects.first_unread().unwrap(),
            (path, "not yet".to_owned())
        );
        assert_eq!(objects.load_unread()[0].object, 7);
    }

    #[test]
    fn the_files_are_one_processs_at_a_time() {
        let state = tempfile::tempdir().unwrap();
        let files = Files::open(state.path()).unwrap();
        let error = Files::open(state.path()).err().unwrap();
        assert!(error.to_string().ends_with("another daemon has it"));
        drop(files);
        Files::open(state.path()).unwrap();
    }
}
