//! Atomic installation: one executable under several names in a folder, as hard links.
//!
//! Whoever starts a plugin meanwhile gets the old file or the new one, whole.

mod exchange;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use rustix::fs::{AtFlags, linkat, unlinkat};
use semver::Version;

use crate::contents::{EXECUTABLE, FileState, Found, look};
use crate::work_folder::WorkFolder;

/// The name of a new file in the work folder.
const NEW: &str = "new";

/// What happens to a file of the same name that isn't this project's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// Nothing is installed, and it is named.
    Refuse,
    /// It is replaced, unless it is a folder.
    Replace,
}

/// A folder that is installed into. It is locked against other installations.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    folder: File,
    work: WorkFolder,
}

/// What an installation has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// The names that were changed, in order.
    pub changed: Vec<String>,
    /// State of the file that all names lead to.
    pub state: FileState,
}

impl Folder {
    /// Opens a folder, which is made if it is missing, and locks it.
    ///
    /// # Errors
    ///
    /// It can't be made or written to, or another installation is at work in it.
    pub fn open(path: &Path) -> Result<Self> {
        fs::create_dir_all(path)
            .map_err(|error| match fs::read_link(path) {
                Ok(to) => anyhow!("it is a link to {}, which isn't there", to.display()),
                Err(_) => error.into(),
            })
            .with_context(|| format!("{}", path.display()))?;
        let folder = File::open(path).with_context(|| format!("{}", path.display()))?;
        let work = WorkFolder::open(&folder, path)
            .map_err(|error| explained(&folder, error))
            .with_context(|| format!("{}", path.display()))?;
        let path = path.to_owned();
        Ok(Self { path, folder, work })
    }

    /// The open folder.
    pub(crate) fn file(&self) -> &File {
        &self.folder
    }

    /// The hidden folder in it.
    pub(crate) fn work(&self) -> &WorkFolder {
        &self.work
    }

    /// Puts an executable into the folder under these names. A name that is right already
    /// is not touched.
    ///
    /// # Errors
    ///
    /// A foreign file of one of the names; the system's. The folder then is as it was.
    pub fn put(&self, names: &[&str], content: &[u8], foreign: Foreign) -> Result<Installed> {
        let mut found: Vec<(&str, Found)> = Vec::new();
        for name in names {
            let it = self.look_once(name, content, &found);
            found.push((name, it.with_context(|| self.name_of(name))?));
        }
        self.refuse_foreign(&found, foreign)?;
        let right = most_linked(&found);
        let wrong = found.iter().filter(|(_, it)| match it {
            Found::Wanted(state) => Some(*state) != right.map(|(_, state)| state),
            _ => true,
        });
        let wrong: Vec<&str> = wrong.map(|(name, _)| *name).collect();
        let state = match right {
            Some((_, state)) if wrong.is_empty() => state,
            _ => self
                .replace(&wrong, right, content)
                .map_err(|error| match error.downcast::<io::Error>() {
                    Ok(error) => explained(&self.folder, error),
                    Err(error) => error,
                })
                .with_context(|| format!("{}: nothing is installed", self.path.display()))?,
        };
        Ok(Installed {
            changed: wrong.into_iter().map(str::to_owned).collect(),
            state,
        })
    }

    /// Looks at a name; not into its file, if that is one that was found right already.
    fn look_once(&self, name: &str, content: &[u8], found: &[(&str, Found)]) -> io::Result<Found> {
        let state = FileState::of(&self.folder, name)?.map(Found::Wanted);
        match state.filter(|state| found.iter().any(|(_, it)| it == state)) {
            Some(known) => Ok(known),
            None => look(&self.folder, name, content),
        }
    }

    fn refuse_foreign(&self, found: &[(&str, Found)], foreign: Foreign) -> Result<()> {
        let mut theirs = Vec::new();
        for (name, it) in found {
            let Found::Foreign(what) = it else { continue };
            if foreign == Foreign::Refuse || what == "a folder" {
                theirs.push(format!("{} is {what}", self.name_of(name)));
            }
        }
        if theirs.is_empty() {
            return Ok(());
        }
        bail!(
            "{}; nothing is installed: remove it, or move it away",
            theirs.join(", ")
        )
    }

    /// Replaces these names by links to one file: to the one that is right, or else to a new
    /// one. Returns that file's state.
    fn replace(
        &self,
        names: &[&str],
        right: Option<(&str, FileState)>,
        content: &[u8],
    ) -> Result<FileState> {
        let work = self.work.file();
        let prepare = || -> io::Result<FileState> {
            let (folder, name, state) = match right {
                Some((name, state)) => (&self.folder, name, state),
                None => {
                    self.work.write(NEW, content, EXECUTABLE)?;
                    // Before anybody else can change it.
                    let state = FileState::of(work, NEW)?;
                    (work, NEW, state.ok_or(io::ErrorKind::NotFound)?)
                }
            };
            for it in names {
                linkat(folder, name, work, *it, AtFlags::empty())?;
            }
            Ok(state)
        };
        let prepared = prepare();
        let exchanged = prepared.and_then(|state| self.exchange_all(names).map(|()| state));
        // The old files, or the new ones if it has failed. What stays is removed by the
        // next installation.
        let cleared = names.iter().copied().chain([NEW]);
        for name in cleared {
            let _ = self.work.remove(name);
        }
        let state = exchanged?;
        self.folder.sync_all()?;
        Ok(state)
    }

    /// Removes these names, if they are this project's executables; returns those that
    /// were removed.
    ///
    /// # Errors
    ///
    /// The system's.
    pub(crate) fn remove(&self, names: &[&str], content: &[u8]) -> Result<Vec<String>> {
        let mut removed = Vec::new();
        for name in names {
            let failed = || self.name_of(name);
            match look(&self.folder, name, content).with_context(failed)? {
                Found::Nothing => continue,
                Found::Foreign(what) => {
                    eprintln!("{} is {what}, and stays", self.name_of(name));
                    continue;
                }
                Found::Wanted(_) | Found::Ours(_) => {}
            }
            unlinkat(&self.folder, *name, AtFlags::empty()).with_context(failed)?;
            removed.push(self.name_of(name));
        }
        Ok(removed)
    }

    /// The newest version of this project under one of these names.
    pub(crate) fn newest(&self, names: &[&str], content: &[u8]) -> Result<Option<Version>> {
        let mut newest = None;
        for name in names {
            let found = look(&self.folder, name, content).with_context(|| self.name_of(name))?;
            if let Found::Ours(version) = found {
                newest = newest.max(version);
            }
        }
        Ok(newest)
    }

    fn name_of(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }
}

/// A name with the wanted content, and the state of its file: the one that most names share.
fn most_linked<'a>(found: &[(&'a str, Found)]) -> Option<(&'a str, FileState)> {
    let wanted = found.iter().filter_map(|(name, it)| match it {
        Found::Wanted(state) => Some((*name, *state)),
        _ => None,
    });
    let wanted: Vec<(&str, FileState)> = wanted.collect();
    let names_of = |inode: u64| wanted.iter().filter(|(_, it)| it.inode == inode).count();
    let most = wanted.iter().max_by_key(|(_, it)| names_of(it.inode));
    most.copied()
}

/// An error of the system, with what to do about a folder that root may not write to.
pub(crate) fn explained(folder: &File, error: io::Error) -> anyhow::Error {
    let owner = folder.metadata().map(|it| it.uid()).unwrap_or_default();
    let is_denied = error.kind() == io::ErrorKind::PermissionDenied;
    let user = rustix::process::geteuid().as_raw();
    let error = anyhow::Error::from(error);
    if is_denied && owner != user {
        return error.context(format!(
            "the folder belongs to user {owner}: give it to user {user}, or give the container \
             the capability DAC_OVERRIDE"
        ));
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::VERSION_MARK;
    use std::os::unix::fs::symlink;

    const NAMES: [&str; 3] = ["a", "b", "c"];

    fn put(folder: &Path, content: &[u8]) -> Result<Vec<String>> {
        let folder = Folder::open(folder)?;
        Ok(folder.put(&NAMES, content, Foreign::Refuse)?.changed)
    }

    fn marked(version: &str) -> Vec<u8> {
        format!("{VERSION_MARK}{version})").into_bytes()
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries
            .map(|it| it.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn all_names_are_one_file_and_only_what_changed_is_touched() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("bin");
        let inode = |name: &str| fs::metadata(folder.join(name)).unwrap().ino();
        assert_eq!(put(&folder, &marked("1.0.0")).unwrap(), NAMES);
        assert_eq!(names(&folder), NAMES);
        let first = inode("a");
        assert!(NAMES.iter().all(|name| inode(name) == first));
        assert!(put(&folder, &marked("1.0.0")).unwrap().is_empty());
        // One is removed, and another is a copy.
        fs::remove_file(folder.join("a")).unwrap();
        fs::copy(folder.join("b"), folder.join("x")).unwrap();
        fs::rename(folder.join("x"), folder.join("b")).unwrap();
        fs::hard_link(folder.join("c"), folder.join("a")).unwrap();
        assert_eq!(put(&folder, &marked("1.0.0")).unwrap(), ["b"]);
        assert!(NAMES.iter().all(|name| inode(name) == first));
        assert_eq!(put(&folder, &marked("0.9.0")).unwrap(), NAMES);
        assert_eq!(names(&folder), NAMES);
        assert_eq!(
            fs::metadata(folder.join("a")).unwrap().mode() & 0o777,
            0o755
        );
    }

    #[test]
    fn a_foreign_file_is_named_and_nothing_changes() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), &marked("1.0.0")).unwrap();
        let theirs = root.path().join("b");
        for make in [
            (|path: &Path| fs::write(path, "#!/bin/sh\n").unwrap()) as fn(&Path),
            |path| symlink("/nowhere", path).unwrap(),
            |path| fs::create_dir(path).unwrap(),
        ] {
            fs::remove_file(&theirs).unwrap();
            make(&theirs);
            let error = put(root.path(), &marked("2.0.0")).unwrap_err();
            let said = format!("{error:#}");
            assert!(said.contains(theirs.to_str().unwrap()), "{said}");
            assert_eq!(fs::read(root.path().join("a")).unwrap(), marked("1.0.0"));
            if theirs.is_dir() {
                fs::remove_dir(&theirs).unwrap();
                fs::write(&theirs, "").unwrap();
            }
        }
        let folder = Folder::open(root.path()).unwrap();
        fs::remove_file(&theirs).unwrap();
        symlink("/nowhere", &theirs).unwrap();
        folder.put(&NAMES, b"x", Foreign::Replace).unwrap();
        assert_eq!(fs::read(&theirs).unwrap(), b"x");
    }
}
