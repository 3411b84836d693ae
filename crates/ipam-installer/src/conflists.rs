//! The conflists of a ConfigMap, put into the runtime's folder one by one.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context, Result, bail};
use rustix::fs::{AtFlags, FileType, renameat, statat, unlinkat};
use rustix::io::Errno;

use crate::folder::{Folder, explained};
use crate::source::Files;
use crate::work_folder::NAME;

/// The file in the work folder that lists what was put into place.
pub(crate) const LIST: &str = "conflists.json";

/// Changes for the folder to hold these conflists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// To be written.
    pub(crate) written: Vec<String>,
    /// Installed earlier, and not wanted any more.
    pub(crate) removed: Vec<String>,
}

/// The changes for the folder to hold these conflists.
///
/// # Errors
///
/// A file of the same name that was not installed.
pub(crate) fn changes(folder: &Folder, path: &Path, files: &Files) -> Result<Changes> {
    let listed = listed(path)?;
    let mut changes = Changes::default();
    for (name, content) in files {
        let file = path.join(name);
        let shown = || format!("{}", file.display());
        match statat(folder.file(), name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => changes.written.push(name.clone()),
            Err(error) => return Err(io::Error::from(error)).with_context(shown),
            Ok(stat) => {
                let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
                let is_same = is_file && fs::read(&file).with_context(shown)? == *content;
                let is_ours = is_file && listed.contains(name);
                if !is_same && !is_ours {
                    bail!(
                        "{} was not installed by this, and stays: remove it, or move it away",
                        shown()
                    );
                }
                if !is_same {
                    changes.written.push(name.clone());
                }
            }
        }
    }
    let gone = listed.into_iter().filter(|name| !files.contains_key(name));
    changes.removed.extend(gone);
    Ok(changes)
}

/// Makes the changes.
///
/// # Errors
///
/// The system's.
pub(crate) fn put(folder: &Folder, path: &Path, files: &Files, changes: &Changes) -> Result<()> {
    let put = || -> io::Result<()> {
        let work = folder.work();
        // The list first: a file that is on it and not there does no harm.
        let names: Vec<&String> = files.keys().chain(&changes.removed).collect();
        write_list(folder, &names)?;
        for name in &changes.written {
            work.write("new", &files[name], 0o644)?;
            renameat(work.file(), "new", folder.file(), name)?;
        }
        for name in &changes.removed {
            match unlinkat(folder.file(), name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        write_list(folder, &files.keys().collect::<Vec<_>>())?;
        folder.file().sync_all()
    };
    put()
        .map_err(|error| {
            let _ = folder.work().remove("new");
            explained(folder.file(), error)
        })
        .with_context(|| format!("{}", path.display()))
}

/// The names of the conflists that were put into a folder.
pub(crate) fn listed(path: &Path) -> Result<Vec<String>> {
    let file = path.join(NAME).join(LIST);
    let shown = || format!("{}", file.display());
    match fs::read(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        content => serde_json::from_slice(&content.with_context(shown)?).with_context(shown),
    }
}

fn write_list(folder: &Folder, names: &[&String]) -> io::Result<()> {
    let work = folder.work();
    work.remove("list")?;
    work.write("list", &serde_json::to_vec(names)?, 0o600)?;
    Ok(renameat(work.file(), "list", work.file(), LIST)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::tests::files;

    fn put_all(path: &Path, files: &Files) -> Result<Changes> {
        let folder = Folder::open(path)?;
        let changes = changes(&folder, path, files)?;
        put(&folder, path, files, &changes)?;
        Ok(changes)
    }

    #[test]
    fn only_what_was_installed_is_replaced_or_removed() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path();
        fs::write(path.join("other.conflist"), "other").unwrap();
        let changes = put_all(path, &files(&[("a.conflist", "1"), ("b.conflist", "1")])).unwrap();
        assert_eq!(changes.written, ["a.conflist", "b.conflist"]);
        let changes = put_all(path, &files(&[("a.conflist", "2"), ("c.conflist", "1")])).unwrap();
        assert_eq!(changes.written, ["a.conflist", "c.conflist"]);
        assert_eq!(changes.removed, ["b.conflist"]);
        assert!(!path.join("b.conflist").exists());
        let refused = put_all(path, &files(&[("other.conflist", "x")])).unwrap_err();
        assert!(refused.to_string().contains("other.conflist"), "{refused}");
        assert_eq!(
            fs::read_to_string(path.join("other.conflist")).unwrap(),
            "other"
        );
        // The same content needs no change, whoever wrote it.
        let same = put_all(path, &files(&[("other.conflist", "other")])).unwrap();
        assert_eq!(same.removed, ["a.conflist", "c.conflist"]);
    }
}
