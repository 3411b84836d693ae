//! Reads the catalogue of a call: from a cache, if it was made from the same configuration and the
//! same files of `ipam.poolsDir`; otherwise from those.
//!
//! An ADD reads the names and times of the files, and the cache. Only after a change, it reads the
//! files, verifies all pools and rules, and searches the directories of reservations. The cache
//! may be deleted at any time.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use cni::{Call, Error, Object};
use serde::Serialize;
use serde_json::value::RawValue;
use state_files::{StateFolder, boot_id};

use crate::catalogue::Catalogue;
use crate::compiled;
use crate::files::Files;
use crate::moved_ranges::{OwnDirectory, Reservations};
use crate::source::Source;

/// Default folder of the cache: in memory, so that a boot removes it.
const CACHE_DIR: &str = "/run/cni/ipam-ds-rules";

/// An encoded catalogue, and its origin.
pub(crate) struct Encoded {
    pub(crate) bytes: Vec<u8>,
    /// True if it is from the cache.
    pub(crate) is_cached: bool,
}

/// The encoded catalogue of a call.
///
/// # Errors
///
/// Code 7, naming file and key, for an invalid catalogue; code 5 for a folder or a file that
/// can't be read.
pub(crate) fn catalogue(call: &Call<'_>, ipam: &Object) -> Result<Encoded, Error> {
    // Read before the files are listed. A file that is older than this time can be told from a
    // later version by its time.
    let now = SystemTime::now();
    let files = Files::of(ipam)?;
    let reservations = Reservations::of(ipam, call.config.name())?;
    let cache = Cache::of(call, ipam, &reservations)?;
    let load = |cache: &Cache| cache.load(&files, &reservations);
    if let Some(bytes) = cache.as_ref().and_then(load) {
        return Ok(Encoded {
            bytes,
            is_cached: true,
        });
    }
    let (files, mut catalogue) = files.catalogue(ipam)?;
    // Read before the directories are searched.
    let own = reservations.own_directory(&catalogue)?;
    reservations.note(&mut catalogue)?;
    let bytes = compiled::encode(&catalogue)?;
    if let Some(cache) = cache.filter(|_| files.are_settled(now)) {
        cache.save(&files, &own, &bytes);
    }
    Ok(Encoded {
        bytes,
        is_cached: false,
    })
}

/// The encoded catalogue of a call, without reading or writing a cache.
///
/// # Errors
///
/// As [`catalogue`].
pub(crate) fn compile(call: &Call<'_>, ipam: &Object) -> Result<Vec<u8>, Error> {
    let (_, mut catalogue) = Files::of(ipam)?.catalogue(ipam)?;
    Reservations::of(ipam, call.config.name())?.note(&mut catalogue)?;
    compiled::encode(&catalogue)
}

/// The encoded catalogue of a configuration, for tools. Reads no reservations.
///
/// # Errors
///
/// As [`catalogue`].
pub(crate) fn uncached(ipam: &Object) -> Result<Vec<u8>, Error> {
    compiled::encode(&Files::of(ipam)?.catalogue(ipam)?.1)
}

/// Removes the cache of a call's catalogue.
pub(crate) fn remove(call: &Call<'_>, ipam: &Object) {
    if let Ok(reservations) = Reservations::of(ipam, call.config.name())
        && let Ok(Some(cache)) = Cache::of(call, ipam, &reservations)
    {
        let _ = cache.folder.remove(&cache.name);
    }
}

impl Files {
    /// The catalogue, and the files from which it was made. If they change meanwhile, they are
    /// read again.
    fn catalogue(self, ipam: &Object) -> Result<(Self, Catalogue), Error> {
        let (files, of_files) = self.read()?;
        let mut sources = vec![Source::of_configuration(ipam)?];
        sources.extend(of_files);
        Ok((files, Catalogue::read(&sources)?))
    }
}

/// The cache of one network's catalogue.
struct Cache {
    folder: StateFolder,
    name: String,
    boot: String,
    data_dir: PathBuf,
    /// The pools and the rules of the configuration, as JSON.
    pools: String,
    rules: String,
}

#[derive(Serialize)]
struct Key<'a> {
    version: &'a str,
    boot: &'a str,
    data_dir: &'a Path,
    pools: &'a str,
    rules: &'a str,
    files: &'a Files,
}

impl Cache {
    /// `None` if no cache can be written.
    fn of(
        call: &Call<'_>,
        ipam: &Object,
        reservations: &Reservations<'_>,
    ) -> Result<Option<Self>, Error> {
        let path = ipam.absolute_path("ipam", "cacheDir")?;
        let path = path.unwrap_or_else(|| PathBuf::from(CACHE_DIR));
        // A power failure may leave a truncated file on a disk.
        let Some(boot) = boot_id(call.environment) else {
            return Ok(None);
        };
        let folder = match StateFolder::create(&path) {
            Ok(folder) => folder,
            Err(error) => {
                tracing::debug!(path = %path.display(), %error, "no cache is kept");
                return Ok(None);
            }
        };
        let written = |key| ipam.get(key).map_or("", RawValue::get).to_owned();
        Ok(Some(Self {
            folder,
            name: format!("catalogue.{}", call.config.name()),
            boot,
            data_dir: reservations.data_dir.clone(),
            pools: written("pools"),
            rules: written("rules"),
        }))
    }

    /// The first part of its content: identifies the configuration and files.
    fn key(&self, files: &Files) -> Vec<u8> {
        let key = Key {
            version: env!("CARGO_PKG_VERSION"),
            boot: &self.boot,
            data_dir: &self.data_dir,
            pools: &self.pools,
            rules: &self.rules,
            files,
        };
        postcard::to_stdvec(&key).expect("memory is enough")
    }

    fn load(&self, files: &Files, reservations: &Reservations<'_>) -> Option<Vec<u8>> {
        let mut content = self.folder.read(&self.name).ok()?;
        let key = self.key(files);
        if !content.starts_with(&key) {
            tracing::debug!("the catalogue has changed since it was read last");
            return None;
        }
        let (own, bytes) = postcard::take_from_bytes::<OwnDirectory>(&content[key.len()..]).ok()?;
        if !reservations.is_as_before(&own) {
            tracing::debug!("the network's own directory has changed since the catalogue was read");
            return None;
        }
        let behind = content.len() - bytes.len();
        content.drain(..behind);
        Some(content)
    }

    fn save(&self, files: &Files, own: &OwnDirectory, bytes: &[u8]) {
        let own = postcard::to_stdvec(own).expect("memory is enough");
        let content = [&self.key(files), &own, bytes].concat();
        // Doesn't wait for another process that is writing the cache: that process may be stopped.
        let saved = self
            .folder
            .with_lock(Duration::ZERO, || self.folder.replace(&self.name, &content));
        if let Err(error) = saved {
            let path = self.folder.path_of(&self.name);
            tracing::debug!(path = %path.display(), %error, "no cache is left");
        }
    }
}
