//! Installs the conflists of a ConfigMap in the runtime's folder, one by one.
//!
//! containerd reads the folder again when a file in it is written, removed, or renamed within it.
//! It ignores a file that is created in it or moved into it (`cni_conf_syncer.go`, 1.6 to 2.3). So
//! a conflist is written under a name that no runtime reads, and then renamed within the folder.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::config_map::Files;
use crate::folder::{Folder, NEW, explained};
use crate::installed_file::FileState;
use crate::manifest::{self, MANIFEST};

/// The conflists that this process has installed, each with its file's state after the rename. If
/// a file is moved away and back, which containerd doesn't notice, its state differs.
pub(crate) type Arrived = BTreeMap<String, FileState>;

/// The changes that give the folder these conflists.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    /// Conflists to write.
    pub(crate) written: Vec<String>,
    /// Conflists to remove: installed earlier, and not wanted any more.
    pub(crate) removed: Vec<String>,
    /// Installed conflists afterwards. A foreign file with the wanted content is none of them.
    installed: Vec<String>,
}

impl Changes {
    /// True if the folder has these conflists already.
    pub(crate) fn is_empty(&self) -> bool {
        self.written.is_empty() && self.removed.is_empty()
    }
}

/// The changes after which the folder has these conflists. This process writes each one at least
/// once, since an earlier installer may have been killed before the runtime noticed the file.
///
/// # Errors
///
/// A file of the same name that was not installed; an I/O error.
pub(crate) fn changes(path: &Path, files: &Files, arrived: &Arrived) -> Result<Changes> {
    let installed = manifest::installed_files(path)?;
    let mut changes = Changes::default();
    for (name, content) in files {
        let file = path.join(name);
        let shown = || file.display().to_string();
        let metadata = match fs::symlink_metadata(&file) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            metadata => Some(metadata.with_context(shown)?),
        };
        let is_file = metadata.as_ref().is_some_and(Metadata::is_file);
        let is_same = is_file && fs::read(&file).with_context(shown)? == *content;
        if metadata.is_some() && !(is_file && installed.contains(name)) {
            ensure!(
                is_same,
                "{} was not installed by ipam-installer, and stays: remove it, or move it away",
                shown()
            );
            continue;
        }
        let state = metadata.as_ref().map(FileState::of);
        if !is_same || arrived.get(name) != state.as_ref() {
            changes.written.push(name.clone());
        }
        changes.installed.push(name.clone());
    }
    let gone = installed.into_iter();
    let gone = gone.filter(|name| !files.contains_key(name));
    changes.removed.extend(gone);
    Ok(changes)
}

/// Makes the changes, and notes the state of the new files.
///
/// # Errors
///
/// An I/O error.
pub(crate) fn put(
    folder: &Folder,
    files: &Files,
    changes: &Changes,
    arrived: &mut Arrived,
) -> Result<()> {
    let mut put = || -> io::Result<()> {
        // The manifest is written first: it may name a file that doesn't exist.
        let names: Vec<&String> = changes.installed.iter().chain(&changes.removed).collect();
        manifest::write(folder, &names)?;
        for name in &changes.written {
            folder.replace(name, &files[name], 0o644)?;
            let metadata = fs::symlink_metadata(folder.path_of(name))?;
            arrived.insert(name.clone(), FileState::of(&metadata));
        }
        for name in &changes.removed {
            folder.remove(name)?;
        }
        manifest::write(folder, &changes.installed)?;
        folder.file().sync_all()
    };
    put()
        .map_err(|error| explained(folder.file(), error))
        .with_context(|| folder.path().display().to_string())
}

/// The name of a conflist that is put aside. No runtime reads it, and a later installation removes it.
fn aside(name: &str) -> String {
    format!("{NEW}-{name}")
}

/// Renames these conflists to names that no runtime reads.
///
/// # Errors
///
/// An I/O error.
pub(crate) fn put_aside(folder: &Folder, installed: &[String]) -> Result<()> {
    let mut names = installed.iter();
    names.try_for_each(|name| rename(folder, name, &aside(name)))
}

/// Gives conflists that were put aside their names again. That needs no space on the disk.
///
/// # Errors
///
/// An I/O error.
pub(crate) fn put_back(folder: &Folder, installed: &[String]) -> Result<()> {
    let mut names = installed.iter();
    names.try_for_each(|name| rename(folder, &aside(name), name))
}

/// Renames a file. A missing one is no error.
fn rename(folder: &Folder, from: &str, to: &str) -> Result<()> {
    match fs::rename(folder.path_of(from), folder.path_of(to)) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        renamed => renamed.with_context(|| folder.path_of(from).display().to_string()),
    }
}

/// Removes the conflists that were put aside, and then the manifest.
///
/// # Errors
///
/// An I/O error.
pub(crate) fn remove(folder: &Folder, installed: &[String]) -> Result<()> {
    let names = installed.iter().map(|name| aside(name));
    for name in names.chain([MANIFEST.to_owned()]) {
        let shown = || folder.path_of(&name).display().to_string();
        folder.remove(&name).with_context(shown)?;
    }
    Ok(folder.file().sync_all()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config_map::tests::files;
    use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
    use std::mem::MaybeUninit;
    use std::os::fd::AsFd;
    use std::os::unix::fs::MetadataExt;

    fn put_all(path: &Path, files: &Files) -> Result<Changes> {
        put_again(path, files, &mut Arrived::new())
    }

    fn put_again(path: &Path, files: &Files, arrived: &mut Arrived) -> Result<Changes> {
        let changes = changes(path, files, arrived)?;
        if !changes.is_empty() {
            put(&Folder::open(path)?, files, &changes, arrived)?;
        }
        Ok(changes)
    }

    /// True if `change` makes containerd read the folder again, which then has this content. By
    /// containerd's source: on a write, on a removal, and on the removal of an old name by a
    /// rename.
    fn is_noticed(path: &Path, name: &str, content: &str, change: impl FnOnce()) -> bool {
        let flags = CreateFlags::CLOEXEC | CreateFlags::NONBLOCK;
        let inotify = inotify::init(flags).unwrap();
        let noticed = WatchFlags::MODIFY | WatchFlags::DELETE | WatchFlags::MOVED_FROM;
        inotify::add_watch(&inotify, path, noticed).unwrap();
        change();
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(inotify.as_fd(), &mut buffer);
        let mut is_noticed = false;
        while let Ok(event) = reader.next() {
            // The file is written before it gets its name.
            is_noticed |= event.events().contains(ReadFlags::MOVED_FROM);
        }
        is_noticed && fs::read_to_string(path.join(name)).unwrap() == content
    }

    #[test]
    fn containerd_notices_each_conflist_that_is_put_into_place() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path();
        let file = path.join("a.conflist");
        let (first, second) = (files(&[("a.conflist", "1")]), files(&[("a.conflist", "2")]));
        let mut arrived = Arrived::new();
        let mut put = |wanted: &Files| put_again(path, wanted, &mut arrived).unwrap().written;
        // A new file, a changed one, and a removed one.
        for (wanted, content) in [(&first, "1"), (&second, "2"), (&second, "2")] {
            let noticed = is_noticed(path, "a.conflist", content, || {
                assert_eq!(put(wanted), ["a.conflist"]);
            });
            assert!(noticed, "{content}");
            assert!(put(wanted).is_empty());
            if content == "2" {
                fs::remove_file(&file).unwrap();
            }
        }
        put(&second);
        // A file that was moved away and back.
        let changed = || fs::metadata(&file).unwrap().ctime_nsec();
        let before = changed();
        // The kernel's clock for files has a coarse resolution.
        while changed() == before {
            fs::rename(&file, path.join("away")).unwrap();
            fs::rename(path.join("away"), &file).unwrap();
        }
        assert_eq!(put(&second), ["a.conflist"]);
        // A file of an earlier installer.
        let noticed = is_noticed(path, "a.conflist", "2", || {
            assert_eq!(put_all(path, &second).unwrap().written, ["a.conflist"]);
        });
        assert!(noticed);
        assert_eq!(fs::read_dir(path).unwrap().count(), 2);
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
        // A foreign file with the wanted content is neither refused nor replaced, nor removed later.
        let inode = || fs::metadata(path.join("other.conflist")).unwrap().ino();
        let before = inode();
        let wanted = files(&[("other.conflist", "other"), ("d.conflist", "1")]);
        let changes = put_all(path, &wanted).unwrap();
        assert_eq!(changes.written, ["d.conflist"]);
        assert_eq!(changes.removed, ["a.conflist", "c.conflist"]);
        assert_eq!(inode(), before);
        let installed = manifest::installed_files(path).unwrap();
        assert_eq!(installed, ["d.conflist"]);
        let folder = Folder::open(path).unwrap();
        let d = || fs::metadata(path.join("d.conflist")).map(|metadata| metadata.ino());
        let ours = d().unwrap();
        put_aside(&folder, &installed).unwrap();
        assert!(d().is_err());
        // The same file, so a full disk doesn't matter.
        put_back(&folder, &installed).unwrap();
        assert_eq!(d().unwrap(), ours);
        put_aside(&folder, &installed).unwrap();
        remove(&folder, &installed).unwrap();
        drop(folder);
        assert_eq!(fs::read_dir(path).unwrap().count(), 1);
        assert_eq!(inode(), before);
    }
}
