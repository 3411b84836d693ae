//! The conflists of a ConfigMap, put into the runtime's folder one by one.
//!
//! containerd reads the folder again when a file of it is written, removed, or renamed within
//! it, and ignores a file that appears in it, made there or moved there
//! (`cni_conf_syncer.go`, 1.6 to 2.3). So a conflist is written under a name that no runtime
//! reads, and renamed within the folder.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context, Result, bail};
use rustix::fs::{AtFlags, FileType, Stat, renameat, statat, unlinkat};
use rustix::io::Errno;

use crate::folder::{Folder, explained};
use crate::source::Files;
use crate::work_folder::{NAME, write_new};

/// The file in the work folder that lists what was put into place.
pub(crate) const LIST: &str = "conflists.json";

/// The name of a conflist before it has its own. Runtimes read `*.conf`, `*.conflist` and
/// `*.json`.
const NEW: &str = ".ipam-installer.new";

/// The conflists that this process has put into place, each with its file's state behind
/// the rename. A file that was moved away and back, which containerd doesn't notice, has
/// another one.
pub(crate) type Arrived = BTreeMap<String, Arrival>;

/// State of a file behind the rename that a runtime has noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    inode: u64,
    /// The kernel sets it with each rename and each change.
    changed: (i64, u64),
}

impl Arrival {
    fn of(stat: &Stat) -> Self {
        Self {
            inode: stat.st_ino,
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }
}

/// Changes for the folder to hold these conflists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// To be written.
    pub(crate) written: Vec<String>,
    /// Installed earlier, and not wanted any more.
    pub(crate) removed: Vec<String>,
}

/// The changes for the folder to hold these conflists, each put there by this process: an
/// earlier one may have been killed before the runtime noticed.
///
/// # Errors
///
/// A file of the same name that was not installed; the system's.
pub(crate) fn changes(
    folder: &Folder,
    path: &Path,
    files: &Files,
    arrived: &Arrived,
) -> Result<Changes> {
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
                let has_arrived = arrived.get(name) == Some(&Arrival::of(&stat));
                if !is_same || !has_arrived {
                    changes.written.push(name.clone());
                }
            }
        }
    }
    let gone = listed.into_iter().filter(|name| !files.contains_key(name));
    changes.removed.extend(gone);
    Ok(changes)
}

/// Makes the changes, and notes what has arrived.
///
/// # Errors
///
/// The system's.
pub(crate) fn put(
    folder: &Folder,
    path: &Path,
    files: &Files,
    changes: &Changes,
    arrived: &mut Arrived,
) -> Result<()> {
    let mut put = || -> io::Result<()> {
        remove(folder, NEW)?;
        // The list first: a file that is on it and not there does no harm.
        let names: Vec<&String> = files.keys().chain(&changes.removed).collect();
        write_list(folder, &names)?;
        for name in &changes.written {
            // A link of this name that somebody has planted is refused.
            write_new(folder.file(), NEW, &files[name], 0o644)?;
            renameat(folder.file(), NEW, folder.file(), name)?;
            let stat = statat(folder.file(), name, AtFlags::SYMLINK_NOFOLLOW)?;
            arrived.insert(name.clone(), Arrival::of(&stat));
        }
        for name in &changes.removed {
            remove(folder, name)?;
        }
        write_list(folder, &files.keys().collect::<Vec<_>>())?;
        folder.file().sync_all()
    };
    put()
        .map_err(|error| {
            let _ = remove(folder, NEW);
            explained(folder.file(), error)
        })
        .with_context(|| format!("{}", path.display()))
}

fn remove(folder: &Folder, name: &str) -> io::Result<()> {
    match unlinkat(folder.file(), name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
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
    use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
    use std::mem::MaybeUninit;
    use std::os::fd::AsFd;
    use std::os::unix::fs::MetadataExt;

    fn put_all(path: &Path, files: &Files) -> Result<Changes> {
        put_again(path, files, &mut Arrived::new())
    }

    fn put_again(path: &Path, files: &Files, arrived: &mut Arrived) -> Result<Changes> {
        let folder = Folder::open(path)?;
        let changes = changes(&folder, path, files, arrived)?;
        put(&folder, path, files, &changes, arrived)?;
        Ok(changes)
    }

    /// True if containerd reads the folder again because of what `change` does there, and
    /// then finds this content. By its source: on a write, on a removal, and when a name of
    /// the folder is given up for another one.
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
            // The write of the file comes before it has its name.
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
        // A new file, a changed one, and one that was removed.
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
        // One that was moved away and back.
        let changed = || fs::metadata(&file).unwrap().ctime_nsec();
        let before = changed();
        // The kernel's clock for files moves in steps.
        while changed() == before {
            fs::rename(&file, path.join("away")).unwrap();
            fs::rename(path.join("away"), &file).unwrap();
        }
        assert_eq!(put(&second), ["a.conflist"]);
        // What an earlier installer has put there.
        let noticed = is_noticed(path, "a.conflist", "2", || {
            assert_eq!(put_all(path, &second).unwrap().written, ["a.conflist"]);
        });
        assert!(noticed);
        let names = fs::read_dir(path)
            .unwrap()
            .map(|it| it.unwrap().file_name());
        assert!(names.into_iter().all(|it| it != NEW));
    }

    #[test]
    fn a_planted_link_or_a_leftover_under_the_temporary_name_is_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path();
        fs::write(path.join("victim"), "precious").unwrap();
        std::os::unix::fs::symlink("victim", path.join(NEW)).unwrap();
        put_all(path, &files(&[("a.conflist", "1")])).unwrap();
        assert_eq!(fs::read_to_string(path.join("victim")).unwrap(), "precious");
        assert!(
            fs::symlink_metadata(path.join("a.conflist"))
                .unwrap()
                .is_file()
        );
        fs::create_dir(path.join(NEW)).unwrap();
        assert!(put_all(path, &files(&[("a.conflist", "2")])).is_err());
        assert_eq!(fs::read_to_string(path.join("a.conflist")).unwrap(), "1");
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
