//! The folder of the reservations, from the `ipam` section.

use std::path::PathBuf;

use cni::{Call, Error, Object};
use reservations::{DATA_DIR, DataDir};

/// The folder of the reservations: `ipam.dataDir`, or its default.
///
/// # Errors
///
/// Code 7, naming the key and the value, for a relative path.
pub fn data_dir(ipam: &Object) -> Result<PathBuf, Error> {
    let path = ipam.absolute_path("ipam", "dataDir")?;
    Ok(path.unwrap_or_else(|| PathBuf::from(DATA_DIR)))
}

/// The directories of reservations of a call.
pub(crate) fn directories<'a>(call: &Call<'a>, ipam: &Object) -> Result<DataDir<'a>, Error> {
    Ok(DataDir {
        data_dir: data_dir(ipam)?,
        network: call.config.name().clone(),
        cancellation: call.cancellation,
    })
}
