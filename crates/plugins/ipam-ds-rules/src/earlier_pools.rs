//! Compares the catalogue with the pools of earlier selectors in the chain.

use cni::{Error, NetworkConfig};
use ipam::{Disjoint, Pool};

use crate::compiled::Compiled;

/// Refuses a pool of `prevResult` that overlaps with any pool of the catalogue. Otherwise an
/// address of both would be given twice, and a pinned address would not be protected.
///
/// # Errors
///
/// Code 7, naming both pools.
pub(crate) fn refuse_overlaps(
    config: &NetworkConfig,
    catalogue: &Compiled<'_>,
) -> Result<(), Error> {
    let earlier = ipam::ranged_pools(config)?;
    if earlier.is_empty() {
        return Ok(());
    }
    let mut disjoint = Disjoint::default();
    let mut names = Vec::new();
    for name in catalogue.pool_names() {
        let Some(pool) = catalogue
            .pool(name)?
            .filter(|pool| ipam::has_ranges(&pool.entry))
        else {
            continue;
        };
        let pool = Pool::read(name, pool.entry)?;
        // The catalogue's own pools don't overlap.
        let _ = disjoint.add(&pool.ranges, names.len());
        names.push(name);
    }
    for (i, pool) in earlier.iter().enumerate() {
        if let Err(at) = disjoint.add(&pool.ranges, names.len()) {
            let theirs = &pool.ranges;
            return Err(Error::config(match names.get(at) {
                Some(name) => {
                    format!("prevResult.pools[{i}]: {theirs} overlaps pool {name} of the catalogue")
                }
                None => format!("prevResult.pools[{i}]: {theirs} overlaps an earlier pool"),
            }));
        }
    }
    Ok(())
}
