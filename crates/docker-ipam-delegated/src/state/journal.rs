//! File of one object: a line for each step of its life, each appended in one write.
//!
//! A last line without a line feed was not written. The file goes when the object has ended.

use std::fs::File;
use std::io::{self, Read, Write};
use std::marker::PhantomData;
use std::sync::Arc;

use rustix::fs::OFlags;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use state_files::StateFolder;

/// A step in the life of an object.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Step<T> {
    /// It is about to be made.
    Begun { object: T },
    /// It is made.
    Made { object: T },
    /// Docker has the answer to the call that made it.
    Answered,
    /// It is about to be ended.
    Ending {},
}

/// The stage of its life that an object's file tells.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stage<T> {
    /// Nobody knows how far it was made.
    Begun(T),
    /// It is there, and Docker may not know.
    Made(T),
    /// It is there, and Docker knows.
    Answered(T),
    /// Nobody knows how far it was ended.
    Ending(T),
}

impl<T> Stage<T> {
    /// The object itself.
    pub(crate) fn into_object(self) -> T {
        let (Self::Begun(it) | Self::Made(it) | Self::Answered(it) | Self::Ending(it)) = self;
        it
    }
}

/// The open file of an object.
pub(crate) struct Journal<T> {
    folder: Arc<StateFolder>,
    name: String,
    file: File,
    object: PhantomData<fn(T)>,
}

impl<T: Serialize> Journal<T> {
    /// Makes the file of an object that is about to be made.
    ///
    /// # Errors
    ///
    /// The system's; there is no file then.
    pub(crate) fn begin(folder: &Arc<StateFolder>, name: &str, object: T) -> io::Result<Self> {
        Self::create(folder, name, &Step::Begun { object })
    }

    /// Makes the file of an object that is made by that alone.
    ///
    /// # Errors
    ///
    /// The system's; there is no file then.
    pub(crate) fn made_at_once(
        folder: &Arc<StateFolder>,
        name: &str,
        object: T,
    ) -> io::Result<Self> {
        Self::create(folder, name, &Step::Made { object })
    }

    fn create(folder: &Arc<StateFolder>, name: &str, step: &Step<T>) -> io::Result<Self> {
        let access = OFlags::WRONLY | OFlags::APPEND | OFlags::EXCL;
        let file = folder.create_file(name, access)?;
        let mut journal = Self::new(folder, name, file);
        match journal.append(step) {
            Ok(()) => Ok(journal),
            Err(error) => {
                journal.remove();
                Err(error)
            }
        }
    }

    /// Opens the file of an object. A last line that was cut off goes: it would spoil the
    /// next one.
    ///
    /// # Errors
    ///
    /// The system's.
    pub(crate) fn open(folder: &Arc<StateFolder>, name: &str) -> io::Result<Self> {
        let mut file = folder.open_file(name, OFlags::RDWR | OFlags::APPEND)?;
        let mut lines = Vec::new();
        file.read_to_end(&mut lines)?;
        let end = lines.iter().rposition(|byte| *byte == b'\n');
        let whole = end.map_or(0, |end| end + 1);
        if whole < lines.len() {
            file.set_len(whole as u64)?;
        }
        Ok(Self::new(folder, name, file))
    }

    fn new(folder: &Arc<StateFolder>, name: &str, file: File) -> Self {
        Self {
            folder: Arc::clone(folder),
            name: name.to_owned(),
            file,
            object: PhantomData,
        }
    }

    /// The name of the file.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The object is made.
    ///
    /// # Errors
    ///
    /// The system's.
    pub(crate) fn made(&mut self, object: T) -> io::Result<()> {
        self.append(&Step::Made { object })
    }

    /// Docker has the answer. If this can't be written, Docker is asked for the object after
    /// a restart.
    pub(crate) fn answered(&mut self) {
        self.note(&Step::Answered);
    }

    /// The object is about to be ended. If this can't be written, it is ended nevertheless:
    /// to give something back must need no space.
    pub(crate) fn ending(&mut self) {
        self.note(&Step::Ending {});
    }

    fn note(&mut self, step: &Step<T>) {
        if let Err(error) = self.append(step) {
            tracing::warn!(%error, file = %self.path(), "can't be written");
        }
    }

    /// Removes the file.
    pub(crate) fn remove(&self) {
        if let Err(error) = self.folder.remove(&self.name) {
            tracing::warn!(%error, file = %self.path(), "can't be removed");
        }
    }

    fn path(&self) -> String {
        self.folder.path_of(&self.name).display().to_string()
    }

    fn append(&mut self, step: &Step<T>) -> io::Result<()> {
        let mut line = serde_json::to_vec(step)?;
        line.push(b'\n');
        // A line that is cut off, by a full disk, would spoil the next one.
        let length = self.file.metadata()?.len();
        self.file.write_all(&line).inspect_err(|_| {
            let _ = self.file.set_len(length);
        })
    }
}

/// The stage that the lines of a file tell; `None` if not even the first was written.
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<Option<Stage<T>>, serde_json::Error> {
    let mut stage = None;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    for line in whole.lines() {
        stage = match (serde_json::from_str(line)?, stage) {
            (Step::Begun { object }, _) => Some(Stage::Begun(object)),
            (Step::Made { object }, _) => Some(Stage::Made(object)),
            (Step::Answered, Some(Stage::Made(object))) => Some(Stage::Answered(object)),
            (
                Step::Ending {},
                Some(Stage::Begun(object) | Stage::Made(object) | Stage::Answered(object)),
            ) => Some(Stage::Ending(object)),
            (_, stage) => stage,
        };
    }
    Ok(stage)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The file after each step of a whole life, and the stage that it tells.
    fn life() -> Vec<(String, Option<Stage<u8>>)> {
        let folder = tempfile::tempdir().unwrap();
        let folder = Arc::new(StateFolder::create(folder.path()).unwrap());
        let mut states = Vec::new();
        let mut look = || {
            let text = String::from_utf8(folder.read("x").unwrap()).unwrap();
            let stage = read(&text).unwrap();
            states.push((text, stage));
        };
        let mut journal = Journal::begin(&folder, "x", 1).unwrap();
        look();
        journal.made(2).unwrap();
        look();
        journal.answered();
        look();
        let mut journal = Journal::<u8>::open(&folder, "x").unwrap();
        journal.ending();
        look();
        journal.remove();
        assert!(folder.read("x").is_err());
        states
    }

    #[test]
    fn each_step_is_read_back() {
        let states: Vec<_> = life()
            .into_iter()
            .map(|(_, stage)| stage.unwrap())
            .collect();
        let expected = [
            Stage::Begun(1),
            Stage::Made(2),
            Stage::Answered(2),
            Stage::Ending(2),
        ];
        assert_eq!(states, expected);
    }

    #[test]
    fn a_line_that_is_cut_off_was_not_written() {
        let life = life();
        for pair in life.windows(2) {
            let [(before, state), (after, _)] = pair else {
                unreachable!()
            };
            for end in before.len()..after.len() {
                assert_eq!(read::<u8>(&after[..end]).unwrap(), *state);
            }
        }
        let first = &life[0].0;
        assert!((0..first.len()).all(|end| read::<u8>(&first[..end]).unwrap().is_none()));
    }

    #[test]
    fn a_line_behind_one_that_is_cut_off_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let folder = Arc::new(StateFolder::create(folder.path()).unwrap());
        Journal::begin(&folder, "x", 1).unwrap();
        let whole = std::fs::read_to_string(&path).unwrap();
        for torn in ["{", "{\"made\":{\"object\":2,\"answer\":\"\"}}"] {
            std::fs::write(&path, whole.clone() + torn).unwrap();
            let mut journal = Journal::<u8>::open(&folder, "x").unwrap();
            journal.ending();
            let text = std::fs::read_to_string(&path).unwrap();
            assert_eq!(read(&text).unwrap(), Some(Stage::Ending(1)), "{text}");
        }
    }

    #[test]
    fn a_second_object_of_one_name_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Arc::new(StateFolder::create(folder.path()).unwrap());
        Journal::begin(&folder, "x", 1).unwrap();
        assert!(Journal::begin(&folder, "x", 1).is_err());
    }
}
