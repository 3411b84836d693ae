//! The network namespace of a recorded ADD: whether it is still there.

use std::fs::{self, Metadata};
use std::io::{
    self,
    ErrorKind::{NotADirectory, NotFound},
};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process;
use std::time::{Duration, SystemTime};

use rustix::fs::statfs;
use serde::{Deserialize, Serialize};
use state_files::is_absent;

/// File system type of namespaces: `NSFS_MAGIC` of Linux.
const NSFS: i64 = 0x6e73_6673;

/// State of the network namespace of an ADD. Unknown counts as there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Namespace {
    /// The recorded path leads to the recorded namespace.
    There,
    /// Nothing is at the recorded path, or another namespace, for people.
    Gone(String),
    /// Unknown, for this reason.
    Unknown(String),
}

/// Identity of a namespace: device and inode of its file, and the time of the inode's creation.
///
/// Linux soon gives the inode's number to another namespace. A mount keeps the inode, so its time
/// tells two namespaces apart. Under `/proc`, the inode of a living namespace may be made anew: there
/// is no time of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct NamespaceId {
    device: u64,
    inode: u64,
    created: Option<String>,
}

impl NamespaceId {
    /// The identity of the file at a path, which is `CNI_NETNS`.
    ///
    /// # Errors
    ///
    /// An I/O error of `stat`.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let at_path = fs::symlink_metadata(path)?;
        // Under `/proc`, a namespace is behind a link.
        let is_mounted = !at_path.is_symlink();
        let metadata = if is_mounted {
            at_path
        } else {
            fs::metadata(path)?
        };
        Ok(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            created: changed(&metadata).filter(|_| is_mounted),
        })
    }

    /// True if both are the identity of one namespace.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let mut times = self.created.iter().zip(&other.created);
        let has_same_time = times.all(|(created, other)| created == other);
        (self.device, self.inode) == (other.device, other.inode) && has_same_time
    }
}

/// The time of the last change of an inode. Nobody changes that of a namespace.
fn changed(metadata: &Metadata) -> Option<String> {
    let seconds = metadata.ctime().try_into().ok()?;
    let nanoseconds = metadata.ctime_nsec().try_into().ok()?;
    let since_epoch = Duration::new(seconds, nanoseconds);
    let time = SystemTime::UNIX_EPOCH.checked_add(since_epoch)?;
    Some(humantime::format_rfc3339_nanos(time).to_string())
}

impl Namespace {
    /// The state of the network namespace of an ADD with this `CNI_NETNS`, which was the recorded
    /// one.
    pub(crate) fn of(netns: &str, recorded: Option<&NamespaceId>) -> Self {
        let path = Path::new(netns);
        let unknown = |why: &str| Self::Unknown(format!("netns {netns}: {why}"));
        let Some(recorded) = recorded else {
            return unknown("it was not there at the ADD");
        };
        // The PIDs of another PID namespace are other processes.
        if path.starts_with("/proc") && !is_own_proc() {
            return unknown("/proc shows the processes of another PID namespace");
        }
        match NamespaceId::of(path) {
            Ok(now) if now.is_same(recorded) => Self::There,
            Ok(_) => match is_namespace(path) {
                Ok(true) => Self::Gone(format!("netns {netns} is another namespace")),
                // In the runtime's mount namespace, a network namespace may be mounted on it.
                Ok(false) => unknown("it is no namespace here"),
                Err(error) => unknown(&error.to_string()),
            },
            Err(error) if matches!(error.kind(), NotFound | NotADirectory) => missing(path),
            Err(error) => unknown(&error.to_string()),
        }
    }
}

/// True if this path is a namespace; false for anything else, such as the empty file that is left
/// where a namespace was mounted.
///
/// ```
/// # use std::path::Path;
/// assert!(chain::record::is_namespace(Path::new("/proc/self/ns/net")).unwrap());
/// assert!(!chain::record::is_namespace(Path::new("/proc/self/status")).unwrap());
/// assert!(chain::record::is_namespace(Path::new("/run/netns/nowhere")).is_err());
/// ```
///
/// # Errors
///
/// An I/O error of `statfs`: `NotFound` or `NotADirectory` if the path doesn't exist.
pub fn is_namespace(path: &Path) -> io::Result<bool> {
    Ok(statfs(path)?.f_type == NSFS)
}

/// The state of a missing path, or of a link to one: unknown if its folder, such as `/run/netns`, is
/// missing, too. Then this process may be in another mount namespace than the runtime.
fn missing(path: &Path) -> Namespace {
    if path.starts_with("/proc") {
        return Namespace::Gone(format!("netns {} is gone", path.display()));
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    if let Ok(target) = fs::read_link(path) {
        return missing(&folder.join(target));
    }
    match fs::metadata(folder).and_then(|_| is_absent(path)) {
        Ok(true) => Namespace::Gone(format!("netns {} is gone", path.display())),
        Ok(false) => Namespace::Unknown(format!("netns {} is being made", path.display())),
        Err(error) => Namespace::Unknown(format!("{}: {error}", folder.display())),
    }
}

/// True if `/proc` shows the PIDs that this process sees.
fn is_own_proc() -> bool {
    let own = fs::read_link("/proc/self");
    own.is_ok_and(|target| target.to_str() == Some(&process::id().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The state of the namespace at a path, which was this one at the ADD.
    fn state(path: &Path, recorded: &NamespaceId) -> Namespace {
        Namespace::of(path.to_str().unwrap(), Some(recorded))
    }

    #[test]
    fn a_namespace_is_gone_if_nothing_is_at_its_path_or_another_namespace() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("netns");
        fs::write(&path, "").unwrap();
        let recorded = NamespaceId::of(&path).unwrap();
        assert_eq!(state(&path, &recorded), Namespace::There);
        fs::remove_file(&path).unwrap();
        assert!(matches!(state(&path, &recorded), Namespace::Gone(_)));
        std::os::unix::fs::symlink("/proc/self/ns/net", &path).unwrap();
        assert!(matches!(state(&path, &recorded), Namespace::Gone(_)));
        fs::remove_file(&path).unwrap();
        // A namespace may be mounted on it elsewhere.
        let other = folder.path().join("other");
        fs::write(&other, "").unwrap();
        let moved = state(&other, &recorded);
        assert!(matches!(moved, Namespace::Unknown(_)), "{moved:?}");
        // This may be another mount namespace.
        fs::remove_dir_all(folder.path()).unwrap();
        assert!(matches!(state(&path, &recorded), Namespace::Unknown(_)));
    }

    #[test]
    fn a_namespace_of_a_process_is_that_of_the_add_or_gone() {
        let own = Path::new("/proc/self/ns/net");
        let recorded = NamespaceId::of(own).unwrap();
        assert_eq!(state(own, &recorded), Namespace::There);
        let another = NamespaceId::of("/proc/self/ns/mnt".as_ref()).unwrap();
        assert!(matches!(state(own, &another), Namespace::Gone(_)));
        let gone = state("/proc/4194305/ns/net".as_ref(), &recorded);
        assert!(matches!(gone, Namespace::Gone(_)));
    }

    #[test]
    fn a_mounted_namespace_of_another_time_is_another_one() {
        let recorded = NamespaceId::of("/proc/self/status".as_ref()).unwrap();
        let earlier = NamespaceId {
            created: Some("1970-01-01T00:00:00.000000000Z".to_owned()),
            ..recorded.clone()
        };
        assert!(recorded.is_same(&recorded) && !recorded.is_same(&earlier));
        // Without a time of one of them, the inode decides.
        let without = NamespaceId {
            created: None,
            ..recorded.clone()
        };
        assert!(without.is_same(&earlier) && recorded.is_same(&without));
    }

    #[test]
    fn a_namespace_that_was_not_there_at_the_add_is_unknown() {
        for path in ["", "/run/netns/no-such-one"] {
            assert!(NamespaceId::of(path.as_ref()).is_err());
            let state = Namespace::of(path, None);
            assert!(matches!(state, Namespace::Unknown(_)), "{state:?}");
        }
    }
}
