//! Network namespaces, as `CNI_NETNS` names them: by paths.

use std::io;
use std::path::Path;

use rustix::fs::statfs;

/// Type of the file system of namespaces: `NSFS_MAGIC` of Linux.
const NSFS: i64 = 0x6e73_6673;

/// True if there is a namespace at this path, false if there is anything else, such as the
/// file that one was mounted on.
///
/// ```
/// # use std::path::Path;
/// assert!(cni::is_namespace(Path::new("/proc/self/ns/net")).unwrap());
/// assert!(!cni::is_namespace(Path::new("/proc/self/status")).unwrap());
/// assert!(cni::is_namespace(Path::new("/run/netns/nowhere")).is_err());
/// ```
///
/// # Errors
///
/// The system's: `NotFound` or `NotADirectory` if there is nothing.
pub fn is_namespace(path: &Path) -> io::Result<bool> {
    Ok(statfs(path)?.f_type == NSFS)
}
