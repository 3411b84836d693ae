//! Refuses files and folders that another user may have written.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::process::geteuid;

/// Write permission of the group and of all others.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Refuses a file or folder that belongs neither to root nor to the process's user, or that others
/// may write to.
pub(crate) fn must_be_ours(metadata: &Metadata) -> io::Result<()> {
    let owner = metadata.uid();
    if owner != 0 {
        let user = geteuid().as_raw();
        if owner != user {
            return Err(refused(&format!(
                "it belongs to user {owner}, not to user {user} or root"
            )));
        }
    }
    if metadata.mode() & WRITABLE_BY_OTHERS != 0 {
        let mode = metadata.mode() & 0o7777;
        return Err(refused(&format!(
            "others may write to it (its mode is {mode:04o})"
        )));
    }
    Ok(())
}

/// The error of a file or folder that is not used.
pub(crate) fn refused(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, reason)
}

/// True if a file or folder is there, and is not used for its kind, owner or mode. Any other
/// `PermissionDenied` is the kernel's.
pub fn is_refused(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied && error.raw_os_error().is_none()
}
