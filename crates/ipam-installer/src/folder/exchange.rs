//! Exchanges files of a folder for those of the same names in its work folder.
//!
//! Each name is exchanged in one step. If a step fails, those before it are undone.

use std::io;

use rustix::fs::{AtFlags, RenameFlags, renameat, renameat_with, unlinkat};
use rustix::io::Errno;

use super::Folder;

/// How a name was changed.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The old file is in the work folder.
    Exchanged,
    /// There was none.
    Made,
    /// The old file is gone.
    Replaced,
}

impl Folder {
    /// Exchanges all of these names, or none.
    pub(super) fn exchange_all(&self, names: &[&str]) -> io::Result<()> {
        let mut done = Vec::new();
        for name in names {
            match self.exchange(name) {
                Ok(step) => done.push((*name, step)),
                Err(error) => {
                    let undone = done.iter().rev().try_for_each(|it| self.undo(it));
                    let text = match undone {
                        Ok(()) => format!("{name}: {error}"),
                        Err(other) => format!("{name}: {error}; not undone: {other}"),
                    };
                    return Err(io::Error::new(error.kind(), text));
                }
            }
        }
        Ok(())
    }

    /// Puts the file of this name in the work folder into its place; the old one, if there
    /// is one, takes its place there.
    fn exchange(&self, name: &str) -> io::Result<Step> {
        let (work, folder) = (self.work.file(), &self.folder);
        loop {
            match renameat_with(work, name, folder, name, RenameFlags::EXCHANGE) {
                Ok(()) => return Ok(Step::Exchanged),
                Err(Errno::NOENT) => {}
                // The file system can't exchange.
                Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                    renameat(work, name, folder, name)?;
                    return Ok(Step::Replaced);
                }
                Err(error) => return Err(error.into()),
            }
            match renameat_with(work, name, folder, name, RenameFlags::NOREPLACE) {
                // Somebody has made a file of this name just now.
                Err(Errno::EXIST) => {}
                other => return Ok(other.map(|()| Step::Made)?),
            }
        }
    }

    fn undo(&self, (name, step): &(&str, Step)) -> io::Result<()> {
        let (work, folder) = (self.work.file(), &self.folder);
        match step {
            Step::Exchanged => renameat_with(work, *name, folder, *name, RenameFlags::EXCHANGE)?,
            Step::Made => unlinkat(folder, *name, AtFlags::empty())?,
            Step::Replaced => return Err(io::Error::other("the old file is gone")),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Foreign;
    use std::fs;

    #[test]
    fn a_step_that_fails_undoes_those_before_it() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::open(root.path()).unwrap();
        folder.put(&["a"], b"old", Foreign::Refuse).unwrap();
        // The third step has no file.
        for name in ["a", "b"] {
            folder.work.write(name, b"new", 0o755).unwrap();
        }
        let error = folder.exchange_all(&["a", "b", "c"]).unwrap_err();
        assert!(error.to_string().starts_with("c: "), "{error}");
        assert_eq!(fs::read(root.path().join("a")).unwrap(), b"old");
        assert!(!root.path().join("b").exists());
    }
}
