//! Folders of the reservations and of their indexes, from the `ipam` section.

use std::path::PathBuf;

use cni::{CHAIN_CALL, Call, Error, Object, ROLLBACK};
use reservations::{DataDir, Settings};
use state_files::Boot;

/// Default folder of the reservations: host-local's.
const DATA_DIR: &str = "/var/lib/cni/networks";

/// Default folder of the indexes: in memory, so that a boot removes them.
const CACHE_DIR: &str = "/run/cni/ipam-da-host-local";

/// Folders of the reservations and of their indexes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folders {
    /// `ipam.dataDir`, or its default.
    pub data_dir: PathBuf,
    /// `ipam.cacheDir`, or its default.
    pub cache_dir: PathBuf,
}

impl Folders {
    /// Reads them from the `ipam` section.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key and the value, for a relative path.
    pub fn read(ipam: &Object) -> Result<Self, Error> {
        let path = |key, default: &str| {
            let path = ipam.absolute_path("ipam", key)?;
            Ok::<_, Error>(path.unwrap_or_else(|| PathBuf::from(default)))
        };
        Ok(Self {
            data_dir: path("dataDir", DATA_DIR)?,
            cache_dir: path("cacheDir", CACHE_DIR)?,
        })
    }
}

/// The directories of reservations, for a call that releases. An invalid `ipam.reclaim` is logged
/// and ignored, because it must not prevent a release.
pub(crate) fn data_dir_to_release<'a>(
    call: &Call<'a>,
    ipam: &Object,
) -> Result<DataDir<'a>, Error> {
    let reclaim = reclaim(call, ipam).unwrap_or_else(|error| {
        tracing::warn!(%error, "going on without it, so that addresses are released");
        None
    });
    open(call, ipam, reclaim)
}

/// The directories of reservations of a call.
pub(crate) fn data_dir<'a>(call: &Call<'a>, ipam: &Object) -> Result<DataDir<'a>, Error> {
    open(call, ipam, reclaim(call, ipam)?)
}

fn open<'a>(call: &Call<'a>, ipam: &Object, reclaim: Option<Boot>) -> Result<DataDir<'a>, Error> {
    let Folders {
        data_dir,
        cache_dir,
    } = Folders::read(ipam)?;
    Ok(DataDir::new(Settings {
        data_dir,
        cache_dir,
        network: call.config.name().clone(),
        reclaim,
        call: id(call, CHAIN_CALL),
        cancellation: call.cancellation,
    }))
}

/// The ID of the ADD whose reservations this DEL undoes; `None` for a DEL that releases all.
pub(crate) fn undone_call(call: &Call<'_>) -> Option<String> {
    id(call, ROLLBACK)
}

/// The ID of a chain's call in this variable.
fn id(call: &Call<'_>, variable: &str) -> Option<String> {
    Some(call.environment.text(variable)).filter(|id| !id.is_empty())
}

/// This boot, if `ipam.reclaim` releases reservations from before it.
fn reclaim(call: &Call<'_>, ipam: &Object) -> Result<Option<Boot>, Error> {
    let when: Option<String> = ipam.read("ipam", "reclaim")?;
    match when.as_deref() {
        None | Some("") => Ok(None),
        Some("boot") => {
            let warn = |error: &_| {
                tracing::warn!(%error, "can't tell the last boot: ipam.reclaim has no effect");
            };
            Ok(Boot::current(call.environment).inspect_err(warn).ok())
        }
        Some(other) => Err(Error::config(format!(
            "ipam.reclaim: {other:?} is not known; it may be \"boot\", or left out"
        ))),
    }
}
