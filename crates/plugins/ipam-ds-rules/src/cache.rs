//! Reads the catalogue of a call: from a cache, if it was made from the same configuration and the
//! same files of `ipam.poolsDir`; otherwise from those.
//!
//! An ADD reads the names and times of the files, and the cache. Only after a change, it reads the
//! files, verifies all pools and rules, and searches the directories of reservations. The cache
//! may be deleted at any time.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use cni::{Call, Error, Object};
use serde_json::value::RawValue;
use state_files::{StateFolder, boot_id};

use crate::catalogue::Catalogue;
use crate::compiled;
use crate::files::Files;
use crate::moved_ranges::Reservations;
use crate::source::Source;

/// Default folder of the cache: in memory, so that a boot removes it.
const CACHE_DIR: &str = "/run/cni/ipam-ds-rules";

/// The encoded catalogue of a call.
///
/// # Errors
///
/// Code 7, naming file and key, for an invalid catalogue; code 5 for a folder or a file that
/// can't be read.
pub(crate) fn catalogue(call: &Call<'_>, ipam: &Object) -> Result<Vec<u8>, Error> {
    // Read before the files are listed. A file that is older than this time can be told from a
    // later version by its time.
    let now = SystemTime::now();
    let files = Files::of(ipam)?;
    let reservations = Reservations::of(ipam, call.config.name())?;
    let cache = Cache::of(call, ipam, &reservations.data_dir)?;
    if let Some(bytes) = cache.as_ref().and_then(|cache| cache.load(&files)) {
        return Ok(bytes);
    }
    let (files, mut catalogue) = files.catalogue(ipam)?;
    reservations.note(&mut catalogue)?;
    let bytes = compiled::encode(&catalogue)?;
    if let Some(cache) = cache.filter(|_| files.are_settled(now)) {
        cache.save(&files, &bytes);
    }
    Ok(bytes)
}

/// The catalogue of a configuration, for tools. Reads no cache and no reservations.
///
/// # Errors
///
/// As [`catalogue`].
pub(crate) fn uncached(ipam: &Object) -> Result<Catalogue, Error> {
    Ok(Files::of(ipam)?.catalogue(ipam)?.1)
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
struct Cache<'a> {
    folder: StateFolder,
    name: String,
    boot: String,
    data_dir: &'a Path,
    ipam: &'a Object,
}

impl<'a> Cache<'a> {
    /// `None` if no cache can be written.
    fn of(call: &Call<'_>, ipam: &'a Object, data_dir: &'a Path) -> Result<Option<Self>, Error> {
        let path = ipam.absolute_path("ipam", "cacheDir")?;
        let path = path.unwrap_or_else(|| PathBuf::from(CACHE_DIR));
        // A power failure may leave a truncated file on a disk.
        let Some(boot) = boot_id(call.environment) else {
            return Ok(None);
        };
        let folder = StateFolder::create(&path).inspect_err(|error| {
            tracing::debug!(path = %path.display(), %error, "no cache is kept");
        });
        Ok(folder.ok().map(|folder| Self {
            folder,
            name: format!("catalogue.{}", call.config.name()),
            boot,
            data_dir,
            ipam,
        }))
    }

    /// The first part of its content: identifies the configuration and files.
    fn key(&self, files: &Files) -> Vec<u8> {
        let version = env!("CARGO_PKG_VERSION");
        let [pools, rules] = ["pools", "rules"].map(|key| self.ipam.get(key).map(RawValue::get));
        let key = (version, &self.boot, self.data_dir, pools, rules, files);
        postcard::to_stdvec(&key).expect("memory is enough")
    }

    /// The encoded catalogue in the cache; `None` if it is of another configuration or other
    /// files, cut off, or of a build with another format.
    fn load(&self, files: &Files) -> Option<Vec<u8>> {
        let mut content = self.folder.read(&self.name).ok()?;
        let Some(behind) = content.strip_prefix(&*self.key(files)) else {
            tracing::debug!("the catalogue has changed since it was read last");
            return None;
        };
        let (bytes, rest): (&[u8], _) = postcard::take_from_bytes(behind).ok()?;
        if !rest.is_empty() {
            return None;
        }
        let start = content.len() - bytes.len();
        content.drain(..start);
        Some(content)
    }

    fn save(&self, files: &Files, bytes: &[u8]) {
        let bytes = postcard::to_stdvec(bytes).expect("memory is enough");
        let content = [self.key(files), bytes].concat();
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
