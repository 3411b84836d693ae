//! Networks in the memory of `docker-ipam-delegated` on this node.

use std::path::Path;

use conflist::{Conflist, Found, Problem};
use docker_ipam_delegated::state::view::Remembered;

/// The daemon's memory: `None` if it doesn't exist, `Err` with the reason if it can't be read.
pub(crate) type Memory = Result<Option<Remembered>, String>;

/// The configurations of Docker's networks that have no conflist, and the files and folders that
/// can't be read. `folder` is the daemon's state folder.
pub(crate) fn networks(memory: &Memory, folder: &Path) -> Found {
    let mut found = Found::default();
    let memory = match memory {
        Ok(memory) => memory,
        Err(reason) => {
            found.problems.push(Problem::new(folder, reason));
            return found;
        }
    };
    for (path, reason) in memory.iter().flat_map(|memory| &memory.problems) {
        found.problems.push(Problem::new(path, reason));
    }
    for pool in memory.iter().flat_map(|memory| &memory.pools) {
        let Some(config) = &pool.config else { continue };
        match Conflist::parse(&pool.file, config.as_bytes()) {
            Ok(conflist) => found.conflists.push(conflist),
            Err(reason) => found.problems.push(Problem::new(&pool.file, reason)),
        }
    }
    found
}
