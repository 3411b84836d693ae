//! Files of the daemon's memory: a folder for each kind of object, a file for each object, and a
//! line for each step of its life.
//!
//! An attachment, of an address or of an endpoint, has a record instead.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use state_files::{Journal, StateFolder, names_in, whole_lines};

use crate::state::attachment_id::Names;
use crate::state::endpoint::Network;
use crate::state::pool::{Gateway, Pool};
use crate::state::unread::Unread;
use crate::state::version::{VERSION, refuse_others};

/// The context of the error of a file or record that can't be written.
pub(crate) const UNWRITTEN: &str = "the daemon's state can't be written";

/// The folder of references to pools.
pub(crate) const POOLS: &str = "pools";

/// The folder of these files in a daemon's state folder.
pub(crate) fn path(state_dir: &Path) -> PathBuf {
    state_dir.join("memory").join(VERSION)
}

/// The first line of an object's file.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum First<T> {
    /// The object is made by this line.
    Made(T),
}

/// Stage of an object, and each further line of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Stage {
    /// It is made, and Docker may not have had the answer.
    Made,
    /// Docker has the answer. Of one pool, Docker may have fewer references than were made.
    Answered,
    /// Docker has given it back. Its release may be incomplete.
    Ending,
}

/// An object, as its file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored<T> {
    /// The name of the file.
    pub(crate) file: String,
    /// The object.
    pub(crate) object: T,
    /// Its stage.
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
    /// The folder.
    pub(crate) path: PathBuf,
    folder: StateFolder,
    names: Names,
    object: PhantomData<fn(T) -> T>,
}

impl<T: Serialize + DeserializeOwned> Objects<T> {
    fn open(path: PathBuf) -> Result<Self> {
        let folder = StateFolder::create(&path).with_context(|| format!("{}", path.display()))?;
        Ok(Self {
            path,
            folder,
            names: Names::of_files(),
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
        match journal.append(&to_line(&First::Made(object))) {
            Ok(()) => Ok(name),
            Err(error) => {
                self.remove(&name);
                Err(error)
            }
        }
    }

    /// Notes that Docker knows of an object, or has given it back. If this can't be written, the
    /// call continues: a release must not need space on the disk, and after the next start, Docker
    /// is asked whether it has the object.
    pub(crate) fn note(&self, name: &str, stage: Stage) {
        let file = self.folder.open_file(name, Journal::ACCESS);
        let appended = file.and_then(|file| Journal::new(file).append(&to_line(&stage)));
        if let Err(error) = appended {
            let file = self.path_of(name);
            tracing::warn!(%error, file = %file.display(), "can't be written");
        }
    }

    /// Removes the file of an object. A missing one is no error.
    ///
    /// # Errors
    ///
    /// An I/O error: the next daemon finds the object again.
    pub(crate) fn try_remove(&self, name: &str) -> io::Result<()> {
        self.folder.remove(name)
    }

    /// As [`Self::try_remove`]; a failure is logged. The next daemon asks Docker whether it has the
    /// object.
    pub(crate) fn remove(&self, name: &str) {
        if let Err(error) = self.try_remove(name) {
            let file = self.path_of(name);
            tracing::warn!(%error, file = %file.display(), "can't be removed");
        }
    }

    /// The objects that earlier processes have made. A file whose first line was not written is
    /// removed. One that can't be read is kept, and added to `unread`.
    ///
    /// # Errors
    ///
    /// An I/O error of the folder.
    pub(crate) fn of_earlier(&self, unread: &mut Vec<Unread>) -> io::Result<Vec<Stored<T>>> {
        let mut objects = Vec::new();
        for (name, content) in read(&self.path)? {
            match content {
                _ if self.names.has_made(&name) => {}
                Ok(Some(stored)) => objects.push(stored),
                Ok(None) => self.remove(&name),
                Err(reason) => unread.push((self.path_of(&name), reason)),
            }
        }
        Ok(objects)
    }

    /// The path of a file.
    pub(crate) fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

/// The object in a file; `None` if its first line was not written, `Err` with the reason if it
/// can't be read.
pub(crate) type Content<T> = Result<Option<Stored<T>>, String>;

/// Reads the files of one kind of object, in the order in which they were made. One that is
/// removed meanwhile is left out. A missing folder is empty: a daemon is making it.
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
    for name in names_in(path)? {
        let content = match folder.read(&name) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            content => content.and_then(|content| Ok(parse(&content)?)),
        };
        let stored = |(object, stage)| Stored {
            file: name.clone(),
            object,
            stage,
        };
        let content = content.map(|content| content.map(stored));
        all.push((name, content.map_err(|error| error.to_string())));
    }
    Ok(all)
}

fn parse<T: DeserializeOwned>(content: &[u8]) -> serde_json::Result<Option<(T, Stage)>> {
    let mut lines = whole_lines(content).split_inclusive(|byte| *byte == b'\n');
    let Some(first) = lines.next() else {
        return Ok(None);
    };
    let First::Made(object) = serde_json::from_slice(first)?;
    let mut stage = Stage::Made;
    for line in lines {
        stage = serde_json::from_slice(line)?;
    }
    Ok(Some((object, stage)))
}

fn to_line<T: Serialize>(line: &T) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(line).expect("a line is JSON");
    bytes.push(b'\n');
    bytes
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn objects(folder: &tempfile::TempDir) -> Objects<u8> {
        Objects::open(folder.path().join("objects")).unwrap()
    }

    fn stages(objects: &Objects<u8>) -> Vec<(u8, Stage)> {
        let stored = read::<u8>(&objects.path).unwrap().into_iter();
        let stored = stored.filter_map(|(_, content)| content.unwrap());
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
            if stage != Stage::Made {
                objects.note(&name, stage);
            }
            assert_eq!(stages(&objects), [(7, stage)]);
            let text = fs::read_to_string(&path).unwrap();
            for end in before.0.len()..text.len() {
                let cut = parse::<u8>(&text.as_bytes()[..end]).unwrap();
                assert_eq!(cut.map(|(_, stage)| stage), before.1, "{end}");
            }
            before = (text, Some(stage));
        }
        // The next line follows whole ones only.
        fs::write(&path, "{\"made\":7}\n\"answ").unwrap();
        objects.note(&name, Stage::Ending);
        assert_eq!(stages(&objects), [(7, Stage::Ending)]);
        objects.remove(&name);
        assert!(!path.exists());
    }

    #[test]
    fn of_earlier_processes_whole_files_are_read_and_unwritten_ones_removed() {
        let folder = tempfile::tempdir().unwrap();
        let objects = objects(&folder);
        objects.make(&6).unwrap();
        let read = || {
            let mut unread = Vec::new();
            let stored = objects.of_earlier(&mut unread).unwrap().into_iter();
            let numbers: Vec<u8> = stored.map(|stored| stored.object).collect();
            let unread: Vec<PathBuf> = unread.into_iter().map(|(path, _)| path).collect();
            (numbers, unread)
        };
        let path = objects.path_of("1-0");
        for damaged in ["damaged\n", "\"answered\"\n"] {
            fs::write(&path, damaged).unwrap();
            assert_eq!(read(), (vec![], vec![path.clone()]));
        }
        fs::write(&path, "{\"made\":7}\n").unwrap();
        assert_eq!(read(), (vec![7], vec![]));
        fs::write(&path, "{\"ma").unwrap();
        assert_eq!(read(), (vec![], vec![]));
        assert!(!path.exists());
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
