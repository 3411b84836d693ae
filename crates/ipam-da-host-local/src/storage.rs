//! Where reservations are kept, and on behalf of which network.

use std::path::PathBuf;

use cni::{Call, Cancellation, Error, NetworkName, Object};

use crate::boot::Boot;

/// Where host-local keeps its reservations by default.
const DATA_DIR: &str = "/var/lib/cni/networks";

/// Where indexes are kept by default: in memory, and gone after a reboot.
const CACHE_DIR: &str = "/run/cni/ipam-da-host-local";

/// Says what to read instead of `/proc`.
const PROC: &str = "IPAM_DELEGATED_PROC";

/// What is needed to find directories of reservations, and to open them.
#[derive(Clone)]
pub(crate) struct Storage<'a> {
    /// `ipam.dataDir`.
    pub(crate) data_dir: PathBuf,
    /// `ipam.cacheDir`.
    pub(crate) cache_dir: PathBuf,
    /// The network that is called for.
    pub(crate) network: NetworkName,
    /// With `ipam.reclaim` of `boot`: reservations from before this boot go.
    pub(crate) reclaim: Option<Boot>,
    /// What ends a wait for another process.
    pub(crate) interrupt: Option<&'a dyn Cancellation>,
}

impl<'a> Storage<'a> {
    /// Reads it from the `ipam` section of a call.
    pub(crate) fn read(call: &Call<'a>, ipam: &Object) -> Result<Self, Error> {
        let path = |key, default: &str| {
            let path: Option<String> = ipam.read("ipam", key)?;
            let path = path.filter(|path| !path.is_empty());
            Ok(PathBuf::from(path.as_deref().unwrap_or(default)))
        };
        Ok(Self {
            data_dir: path("dataDir", DATA_DIR)?,
            cache_dir: path("cacheDir", CACHE_DIR)?,
            network: call.config.name().clone(),
            reclaim: reclaim(call, ipam)?,
            interrupt: call.cancellation,
        })
    }
}

fn reclaim(call: &Call<'_>, ipam: &Object) -> Result<Option<Boot>, Error> {
    let when: Option<String> = ipam.read("ipam", "reclaim")?;
    match when.as_deref() {
        None | Some("") => Ok(None),
        Some("boot") => {
            let proc = call.variable(PROC).map_or("/proc".into(), PathBuf::from);
            let boot = Boot::current(proc.clone());
            Ok(boot
                .inspect_err(|error| {
                    tracing::warn!(path = %proc.display(), %error, "can't tell the last boot");
                })
                .ok())
        }
        Some(other) => Err(Error::config(format!(
            "ipam.reclaim: {other:?} is not known; it may be \"boot\", or left out"
        ))),
    }
}
