//! STATUS: whether every pool has an address left.

use cni::{Error, NetworkConfig, code};

use crate::config;
use crate::directory::Directory;
use crate::occupancy::Occupancy;

/// Fails with code 50 if an ADD would find a pool without a free address, or no
/// way into its directory. All such pools are named.
pub(crate) fn status(config: &NetworkConfig) -> Result<(), Error> {
    let data_dir = config::data_dir(&config.ipam()?)?;
    let mut problems = Vec::new();
    for (index, placed) in config::pools(config)?.iter().flatten().enumerate() {
        let occupancy = Directory::existing(&data_dir, &placed.directory, config.name())
            .and_then(|directory| directory.map_or(Ok(Occupancy::default()), |it| it.occupancy()));
        match occupancy {
            Ok(occupancy) if placed.has_room(&occupancy) => {}
            Ok(occupancy) => {
                problems.push(placed.exhausted(index, &occupancy, code::UNAVAILABLE).msg);
            }
            Err(error) => problems.push(error.msg),
        }
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(Error::new(code::UNAVAILABLE, problems.join("; ")))
    }
}
