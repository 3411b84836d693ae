//! A chain that would call itself is refused before anything runs.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use cni::{Call, DelegateName, Error, SearchPath};

use crate::orphans::CALL;

/// Refuses a call from within a chain, and a chain in which we are a delegate
/// ourselves, under whatever name.
///
/// # Errors
///
/// Code 7, naming the delegate.
pub(crate) fn refuse(
    call: &Call<'_>,
    delegates: &[DelegateName],
    path: &SearchPath,
) -> Result<(), Error> {
    if call.variable(CALL).is_some() {
        return Err(Error::config(
            "ipam.delegates: a delegate has called ipam-delegated back; a chain can't be its own link",
        ));
    }
    let Ok(ourselves) = identity(Path::new("/proc/self/exe")) else {
        return Ok(());
    };
    for (i, name) in delegates.iter().enumerate() {
        // One that isn't found fails when its turn comes.
        if let Ok(executable) = path.find(name)
            && identity(&executable).is_ok_and(|it| it == ourselves)
        {
            return Err(Error::config(format!(
                "ipam.delegates[{i}]: {:?} is ipam-delegated itself ({}); a chain can't be its own link",
                name.as_str(),
                executable.display()
            )));
        }
    }
    Ok(())
}

/// Device and inode.
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let metadata: Metadata = fs::metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}
