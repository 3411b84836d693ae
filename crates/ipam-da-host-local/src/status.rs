//! STATUS: verifies that every pool has an address left and a writable directory.

use cni::{Call, Error, code};
use ipam::Interval;
use reservations::DataDir;

use crate::config::{self, PlacedPool};
use crate::storage;

/// Fails with code 50 if an ADD would find a pool without a free address, or couldn't
/// write to its directory. All such pools are named.
pub(crate) fn status(call: &Call<'_>) -> Result<(), Error> {
    let config = &call.config;
    let data_dir = storage::data_dir(call, &config.ipam()?)?;
    let mut problems = Vec::new();
    let pools = config::pools(config)?;
    for (index, placed) in pools.iter().enumerate() {
        match has_room(&data_dir, placed) {
            Ok(true) => {}
            Ok(false) => problems.push(placed.exhausted(index, code::UNAVAILABLE).msg),
            Err(error) => problems.push(error.msg),
        }
    }
    let mut names: Vec<_> = pools.iter().map(|placed| &placed.directory).collect();
    if names.is_empty() {
        // A selector whose pools depend on the container: any of them may be asked for.
        names.push(config.name());
    }
    names.sort_unstable();
    names.dedup();
    for name in names {
        if let Err(error) = data_dir.verify_writable(name)
            && !problems.contains(&error.msg)
        {
            problems.push(error.msg);
        }
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(Error::new(code::UNAVAILABLE, problems.join("; ")))
    }
}

fn has_room(data_dir: &DataDir<'_>, placed: &PlacedPool) -> Result<bool, Error> {
    let ranges = &placed.pool.ranges;
    let Some(mut store) = data_dir.open(&placed.directory)? else {
        return Ok(ranges.capacity() > 0);
    };
    let intervals: Vec<Interval> = ranges
        .rotation(None)
        .iter()
        .map(|it| it.addresses)
        .collect();
    Ok(store.first_free(&intervals)?.is_some())
}
