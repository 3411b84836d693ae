//! Reads what ADD and STATUS need before they look at an address: folders, the other parts of
//! the answer, pools.

use cni::{Call, Error, NetworkConfig};
use ipam::Completion;
use reservations::DataDir;

use crate::config::{self, PlacedPool};
use crate::storage;

/// Longest name of a directory on Linux (`NAME_MAX`).
const LONGEST_NAME: usize = 255;

/// An ADD before its first look at a directory.
pub(crate) struct Prepared<'a> {
    pub(crate) data_dir: DataDir<'a>,
    pub(crate) completion: Completion,
    /// Empty if no selector has put any into `prevResult`.
    pub(crate) pools: Vec<PlacedPool>,
}

impl<'a> Prepared<'a> {
    /// Reads it from a call.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key and the value; code 5 if `ipam.resolvConf` can't be read.
    pub(crate) fn read(call: &Call<'a>) -> Result<Self, Error> {
        let config = &call.config;
        refuse_long_name(config)?;
        let ipam = config.ipam()?;
        Ok(Self {
            data_dir: storage::data_dir(call, &ipam)?,
            completion: Completion::read(config, &ipam)?,
            pools: config::pools(config)?,
        })
    }

    /// The error of an ADD without pools.
    pub(crate) fn without_pools() -> Error {
        Error::config(
            "prevResult.pools is missing or empty: \
             a selector such as ipam-ds-ranges must stand before this allocator",
        )
    }
}

/// Refuses a network whose name is no directory's, though it may select pools that have
/// one: other files of the network can't be made either.
fn refuse_long_name(config: &NetworkConfig) -> Result<(), Error> {
    let length = config.name().as_str().len();
    if length <= LONGEST_NAME {
        return Ok(());
    }
    Err(Error::config(format!(
        "name: the network's name has {length} bytes; a directory of reservations is named after it, \
         with {LONGEST_NAME} bytes at most"
    )))
}
