//! Network namespaces, as `CNI_NETNS` names them: by paths.

use std::io;
use std::path::Path;

use rustix::fs::statfs;

/// Type of the file system of namespaces: `NSFS_MAGIC` of Linux.
const NSFS: i64 = 0x6e73_6673;

/// True if this path leads to a namespace; false for anything else, such as the empty file that a
/// namespace was mounted on.
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
/// An I/O error of `statfs`: `NotFound` or `NotADirectory` if there is nothing.
pub fn is_namespace(path: &Path) -> io::Result<bool> {
    Ok(statfs(path)?.f_type == NSFS)
}
