//! What `docker-ipam-delegated` remembers on this node.

use conflist::{Conflist, Problem, readable};
use docker_ipam_delegated::state::view::{Remembered, remembered};

use crate::arguments::DockerPlaces;

/// The daemon's memory, `None` if there is none, or the reason why it can't be read.
pub(crate) type Memory = Result<Option<Remembered>, String>;

/// Reads the memory.
pub(crate) fn read(places: &DockerPlaces) -> Memory {
    remembered(&places.docker_state_dir).map_err(|error| readable(&error))
}

/// Files and folders that can't be read.
pub(crate) fn problems(memory: &Memory, places: &DockerPlaces) -> Vec<Problem> {
    match memory {
        Ok(None) => Vec::new(),
        Ok(Some(memory)) => {
            let problems = memory.problems.iter();
            problems
                .map(|(path, reason)| Problem::new(path, reason))
                .collect()
        }
        Err(reason) => vec![Problem::new(&places.docker_state_dir, reason)],
    }
}

/// The configurations of Docker's networks that have no conflist.
pub(crate) fn conflists(memory: &Memory, problems: &mut Vec<Problem>) -> Vec<Conflist> {
    let pools = memory.iter().flatten().flat_map(|memory| &memory.pools);
    let mut conflists = Vec::new();
    for pool in pools {
        let Some(config) = &pool.config else { continue };
        match Conflist::parse(&pool.file, config.as_bytes()) {
            Ok(conflist) => conflists.push(conflist),
            Err(reason) => problems.push(Problem::new(&pool.file, reason)),
        }
    }
    conflists
}
