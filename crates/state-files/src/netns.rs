//! Checks whether a path is a network namespace, as `CNI_NETNS` names it.

use std::io;
use std::path::Path;

use rustix::fs::statfs;

/// File system type of namespaces: `NSFS_MAGIC` of Linux.
const NSFS: i64 = 0x6e73_6673;

/// True if this path is a namespace; false for anything else, such as the empty file that is left
/// where a namespace was mounted.
///
/// ```
/// # use std::path::Path;
/// assert!(state_files::is_namespace(Path::new("/proc/self/ns/net")).unwrap());
/// assert!(!state_files::is_namespace(Path::new("/proc/self/status")).unwrap());
/// assert!(state_files::is_namespace(Path::new("/run/netns/nowhere")).is_err());
/// ```
///
/// # Errors
///
/// An I/O error of `statfs`: `NotFound` or `NotADirectory` if the path doesn't exist.
pub fn is_namespace(path: &Path) -> io::Result<bool> {
    Ok(statfs(path)?.f_type == NSFS)
}
