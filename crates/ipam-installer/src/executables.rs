//! Installs an executable of the image under its names, and notices later changes.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use semver::Version;

use crate::folder::Folder;
use crate::installed_file::{FileState, Found, look};

/// An executable with its target folder.
#[derive(Debug)]
pub(crate) struct Placed {
    folder: PathBuf,
    /// The executable in the image.
    path: PathBuf,
    /// The names under which it is installed, sorted.
    names: Vec<String>,
    /// State of the installed file; `None` until its content was read.
    state: Option<FileState>,
}

impl Placed {
    /// An executable that is not installed yet, and its target folder.
    pub(crate) fn new(folder: &Path, path: PathBuf, names: Vec<String>) -> Self {
        Self {
            folder: folder.to_owned(),
            path,
            names,
            state: None,
        }
    }

    fn content(&self) -> Result<Vec<u8>> {
        fs::read(&self.path).with_context(|| self.path.display().to_string())
    }

    /// True if all names still lead to the installed file. Only metadata is read.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(crate) fn is_in_place(&self) -> Result<bool> {
        for name in &self.names {
            let path = self.folder.join(name);
            let state = match fs::symlink_metadata(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
                found => FileState::of(&found.with_context(|| path.display().to_string())?),
            };
            if self.state != Some(state) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Installs the executable, unless all names already lead to one file with its content;
    /// returns the replaced names. With `up_to`, a newer version than this one stays.
    ///
    /// # Errors
    ///
    /// One of the names has a foreign file or a newer version; an I/O error.
    pub(crate) fn put(&mut self, folder: &Folder, up_to: Option<&Version>) -> Result<Vec<String>> {
        let (names, content) = (&self.names, self.content()?);
        let (mut foreign, mut right, mut newest) = (Vec::new(), Vec::new(), None);
        for name in names {
            let path = folder.path_of(name);
            let shown = path.display();
            match look(&path, &content).with_context(|| shown.to_string())? {
                Found::Nothing => {}
                Found::Wanted(state) => right.push(state),
                Found::Ours(version) => newest = newest.max(version),
                Found::Foreign(kind) => foreign.push(format!("{shown} is {kind}")),
            }
        }
        ensure!(
            foreign.is_empty(),
            "{}; nothing is installed: remove it, or move it away",
            foreign.join(", ")
        );
        if let (Some(version), Some(newest)) = (up_to, newest)
            && newest > *version
        {
            let folder = self.folder.display();
            bail!("{folder} has the newer version {newest}, which stays");
        }
        if right.len() == names.len() && right.iter().all(|state| *state == right[0]) {
            self.state = right.first().copied();
            return Ok(Vec::new());
        }
        folder.replace_links(names, &content)?;
        // The renames have set the change time. If somebody has changed the file since, the next
        // check looks at all names again.
        let path = folder.path_of(&names[0]);
        self.state = match look(&path, &content).with_context(|| path.display().to_string())? {
            Found::Wanted(state) => Some(state),
            _ => None,
        };
        Ok(names.clone())
    }

    /// Removes the names that lead to an executable of this project; returns them.
    ///
    /// # Errors
    ///
    /// An I/O error: the owner of an unreadable file is unknown.
    pub(crate) fn remove(&self, folder: &Folder) -> Result<Vec<String>> {
        let content = self.content()?;
        let mut removed = Vec::new();
        for name in &self.names {
            let path = folder.path_of(name);
            let shown = || path.display().to_string();
            match look(&path, &content).with_context(shown)? {
                Found::Nothing => {}
                Found::Foreign(kind) => eprintln!("{} is {kind}, and stays", shown()),
                Found::Wanted(_) | Found::Ours(_) => {
                    folder.remove(name).with_context(shown)?;
                    removed.push(name.clone());
                }
            }
        }
        Ok(removed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Arguments;
    use clap::Parser;
    use plugin::VERSION_MARK;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// An executable of this version with the names `a` and `b`, for the folder `bin`.
    fn placed(root: &Path, version: &str) -> Placed {
        let from = root.join(version);
        fs::create_dir_all(from.join("plugins")).unwrap();
        fs::create_dir_all(from.join("sbin")).unwrap();
        let script = format!("#!/bin/sh\n# {VERSION_MARK}{version})\necho 'x {version} (y)'\n");
        for name in ["ipam-delegated", "z"] {
            let path = from.join("plugins").join(name);
            fs::write(&path, &script).unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            fs::set_permissions(path, mode).unwrap();
        }
        let bin = root.join("bin");
        let words = [
            "x",
            "--from",
            from.to_str().unwrap(),
            "--plugins",
            bin.to_str().unwrap(),
        ];
        let image = crate::image::Image::new(&Arguments::parse_from(words)).unwrap();
        image.plugins.into_iter().next().unwrap()
    }

    fn put(placed: &mut Placed, up_to: Option<&Version>) -> Result<Vec<String>> {
        let folder = Folder::open(&placed.folder)?;
        placed.put(&folder, up_to)
    }

    #[test]
    fn only_what_changed_is_replaced_and_a_newer_version_stays() {
        let root = tempfile::tempdir().unwrap();
        let [mut old, mut new] = ["1.0.0", "2.0.0"].map(|version| placed(root.path(), version));
        assert!(!old.is_in_place().unwrap());
        assert_eq!(put(&mut old, None).unwrap(), ["ipam-delegated", "z"]);
        assert!(old.is_in_place().unwrap());
        assert!(put(&mut old, None).unwrap().is_empty());
        put(&mut new, None).unwrap();
        assert!(!old.is_in_place().unwrap());
        let refused = put(&mut old, Some(&Version::new(1, 0, 0))).unwrap_err();
        assert!(
            refused.to_string().contains("newer version 2.0.0"),
            "{refused}"
        );
        assert_eq!(put(&mut old, None).unwrap().len(), 2);
        // A copy is not the same file.
        let path = |name: &str| root.path().join("bin").join(name);
        fs::copy(path("z"), path("x")).unwrap();
        fs::rename(path("x"), path("z")).unwrap();
        assert_eq!(put(&mut old, None).unwrap().len(), 2);
    }

    #[test]
    fn a_foreign_file_is_named_and_nothing_changes() {
        let root = tempfile::tempdir().unwrap();
        let [mut old, mut new] = ["1.0.0", "2.0.0"].map(|version| placed(root.path(), version));
        put(&mut old, None).unwrap();
        let [ours, theirs] = ["ipam-delegated", "z"].map(|name| root.path().join("bin").join(name));
        let before = fs::read(&ours).unwrap();
        fs::remove_file(&theirs).unwrap();
        symlink("/nowhere", &theirs).unwrap();
        let refused = put(&mut new, None).unwrap_err();
        assert!(refused.to_string().contains("symbolic link"), "{refused}");
        assert_eq!(fs::read(&ours).unwrap(), before);
        let folder = Folder::open(&new.folder).unwrap();
        assert_eq!(new.remove(&folder).unwrap(), ["ipam-delegated"]);
        assert!(fs::symlink_metadata(&theirs).is_ok());
    }
}
