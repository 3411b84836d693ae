//! STATUS: whether every pool has an address left.

use cni::{Call, Error, code};

use crate::config::{self, PlacedPool};
use crate::directory::Directory;
use crate::storage::Storage;

/// Fails with code 50 if an ADD would find a pool without a free address, or no
/// way into its directory. All such pools are named.
pub(crate) fn status(call: &Call<'_>) -> Result<(), Error> {
    let config = &call.config;
    let storage = Storage::read(call, &config.ipam()?)?;
    let mut problems = Vec::new();
    for (index, placed) in config::pools(config)?.iter().enumerate() {
        match has_room(&storage, placed) {
            Ok(true) => {}
            Ok(false) => problems.push(placed.exhausted(index, code::UNAVAILABLE).msg),
            Err(error) => problems.push(error.msg),
        }
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(Error::new(code::UNAVAILABLE, problems.join("; ")))
    }
}

fn has_room(storage: &Storage<'_>, placed: &PlacedPool) -> Result<bool, Error> {
    let Some(mut directory) = Directory::existing(storage, &placed.directory)? else {
        return Ok(placed.pool.ranges.capacity() > 0);
    };
    for candidate in placed.pool.ranges.rotation(None) {
        if directory.first_free(candidate.addresses)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}
