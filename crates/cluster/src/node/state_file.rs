//! A file of this node in a state folder. Its errors name the file.

use std::fmt::Display;
use std::io;
use std::path::Path;
use std::time::Duration;

use cni::Error;
use state_files::StateFolder;

/// A file that may be missing.
#[derive(Debug)]
pub(crate) struct StateFile {
    folder: StateFolder,
    name: String,
}

impl StateFile {
    /// The file with this name. Its folder is created if it is missing.
    ///
    /// # Errors
    ///
    /// Code 5, naming the folder.
    pub(crate) fn open(folder: &Path, name: String) -> Result<Self, Error> {
        let opened = StateFolder::create(folder);
        let folder = opened.map_err(|error| Error::io(folder.display(), error))?;
        Ok(Self { folder, name })
    }

    /// The path, for messages.
    pub(crate) fn path(&self) -> String {
        self.folder.path_of(&self.name).display().to_string()
    }

    /// Code 5 with this reason, naming the file.
    pub(crate) fn failed(&self, why: impl Display) -> Error {
        Error::io(self.path(), why)
    }

    /// The content; `None` if the file is missing.
    pub(crate) fn read(&self) -> Result<Option<Vec<u8>>, Error> {
        match self.folder.read(&self.name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            other => other.map(Some).map_err(|error| self.failed(error)),
        }
    }

    /// Replaces the content atomically.
    pub(crate) fn replace(&self, content: &[u8]) -> Result<(), Error> {
        let replaced = self.folder.replace(&self.name, content);
        replaced.map_err(|error| self.failed(error))
    }

    /// Replaces the content, and returns after it is on the disk.
    pub(crate) fn replace_durably(&self, content: &[u8]) -> Result<(), Error> {
        let replaced = self.folder.replace_durably(&self.name, content);
        replaced.map_err(|error| self.failed(error))
    }

    /// Removes the file. A missing one is no error.
    pub(crate) fn remove(&self) -> Result<(), Error> {
        let removed = self.folder.remove(&self.name);
        removed.map_err(|error| self.failed(error))
    }

    /// Runs `f` with the folder's lock; `None` if another process holds it for longer than
    /// `at_most`.
    pub(crate) fn locked<T>(
        &self,
        at_most: Duration,
        f: impl FnOnce() -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        match self.folder.with_lock(at_most, || Ok(f())) {
            Ok(done) => done.map(Some),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(self.failed(error)),
        }
    }
}
