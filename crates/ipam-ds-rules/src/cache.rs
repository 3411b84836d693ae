//! Reads the catalogue of a call: out of a cache, if the files of `ipam.poolsDir` are those
//! that it was made of, and otherwise out of these files.
//!
//! An ADD reads the names and the times of the files, and the cache. Only after a change
//! are the files themselves read, and all of their pools and rules verified. The cache is
//! never needed: it may be removed at any time.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cni::{Call, Error, Object, StateFolder, boot_id};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::catalogue::Catalogue;
use crate::compiled;
use crate::source::Source;

/// Default folder of the cache: in memory, so that a reboot removes it.
const CACHE_DIR: &str = "/run/cni/ipam-ds-rules";

/// Age from which a file's time tells it from a later content. A younger file may be
/// written again within the same step of the clock.
const SETTLED: Duration = Duration::from_secs(2);

/// A catalogue, encoded, and where it comes from.
pub(crate) struct Encoded {
    pub(crate) bytes: Vec<u8>,
    /// True if it was read out of the cache.
    pub(crate) is_cached: bool,
}

/// The encoded catalogue of a call.
///
/// # Errors
///
/// Code 7, naming file and key, for an invalid catalogue; code 5 for a folder or a file that
/// can't be read.
pub(crate) fn catalogue(call: &Call<'_>, ipam: &Object) -> Result<Encoded, Error> {
    let files = files(ipam)?;
    // Without files, everything has been read already.
    let cache = match &files {
        None => None,
        Some(files) => Cache::of(call, ipam, files)?,
    };
    if let Some(bytes) = cache.as_ref().and_then(Cache::load) {
        return Ok(Encoded {
            bytes,
            is_cached: true,
        });
    }
    let files = files.unwrap_or_default();
    let bytes = encode(ipam, &files)?;
    // The files' times are from before they were read: so a change meanwhile is noticed.
    if let Some(cache) = cache.filter(|_| files.iter().all(File::is_settled)) {
        cache.save(&bytes);
    }
    Ok(Encoded {
        bytes,
        is_cached: false,
    })
}

/// The encoded catalogue of a configuration, without reading or writing a cache.
///
/// # Errors
///
/// As [`catalogue`].
pub(crate) fn uncached(ipam: &Object) -> Result<Vec<u8>, Error> {
    encode(ipam, &files(ipam)?.unwrap_or_default())
}

/// Removes the cache of a call's catalogue.
pub(crate) fn remove(call: &Call<'_>, ipam: &Object) {
    if let Ok(Some(cache)) = Cache::of(call, ipam, &[]) {
        let _ = cache.folder.remove(&cache.name);
    }
}

fn encode(ipam: &Object, files: &[File]) -> Result<Vec<u8>, Error> {
    let mut sources = vec![Source::of_configuration(ipam)?];
    for file in files {
        sources.push(file.read()?);
    }
    compiled::encode(&Catalogue::read(&sources)?)
}

/// The files of `ipam.poolsDir`, if there is such a folder.
fn files(ipam: &Object) -> Result<Option<Vec<File>>, Error> {
    let folder = ipam.absolute_path("ipam", "poolsDir")?;
    folder.map(|folder| list(&folder)).transpose()
}

/// A file of `poolsDir`, as its folder lists it.
struct File {
    path: PathBuf,
    version: Version,
}

/// State of a file: another content has another one.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct Version {
    device: u64,
    inode: u64,
    size: u64,
    /// Seconds and nanoseconds of the modification time and of the change time.
    times: [i64; 4],
}

impl Version {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            times: [
                metadata.mtime(),
                metadata.mtime_nsec(),
                metadata.ctime(),
                metadata.ctime_nsec(),
            ],
        }
    }
}

impl File {
    fn read(&self) -> Result<Source, Error> {
        let content = fs::read(&self.path).map_err(|e| Error::io(self.path.display(), e))?;
        Source::of_file(&self.path.to_string_lossy(), &content)
    }

    fn is_settled(&self) -> bool {
        let changed = Duration::from_secs(self.version.times[2].try_into().unwrap_or_default());
        let age = SystemTime::now().duration_since(UNIX_EPOCH + changed);
        age.is_ok_and(|age| age > SETTLED)
    }
}

/// The files `*.json` of a folder, by the order of their names. Names that begin with a dot
/// are an editor's, or those of a mounted ConfigMap.
fn list(folder: &Path) -> Result<Vec<File>, Error> {
    let failed = |e: io::Error| Error::io(format_args!("ipam.poolsDir: {}", folder.display()), e);
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let is_ours = name
            .to_str()
            .is_none_or(|name| name.ends_with(".json") && !name.starts_with('.'));
        if !is_ours {
            continue;
        }
        let path = folder.join(name);
        let failed = |why: &dyn std::fmt::Display| Error::io(path.display(), why);
        // Of what a link leads to.
        let metadata = fs::metadata(&path).map_err(|e| failed(&e))?;
        if !metadata.is_file() {
            return Err(failed(&"it is not a regular file"));
        }
        let version = Version::of(&metadata);
        files.push(File { path, version });
    }
    files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// The cache of one network's catalogue.
struct Cache {
    folder: StateFolder,
    name: String,
    /// The beginning of its content: what the catalogue was made of.
    key: Vec<u8>,
}

#[derive(Serialize)]
struct Key<'a> {
    version: &'a str,
    boot: &'a str,
    pools: &'a str,
    rules: &'a str,
    files: Vec<(&'a Path, &'a Version)>,
}

impl Cache {
    /// `None` if no cache can be kept.
    fn of(call: &Call<'_>, ipam: &Object, files: &[File]) -> Result<Option<Self>, Error> {
        let path = ipam.absolute_path("ipam", "cacheDir")?;
        let path = path.unwrap_or_else(|| PathBuf::from(CACHE_DIR));
        // A power failure may leave half of a file on a disk.
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
        let written = |key| ipam.get(key).map_or("", RawValue::get);
        let key = postcard::to_stdvec(&Key {
            version: env!("CARGO_PKG_VERSION"),
            boot: &boot,
            pools: written("pools"),
            rules: written("rules"),
            files: files.iter().map(|it| (&*it.path, &it.version)).collect(),
        });
        Ok(key.ok().map(|key| Self {
            folder,
            name: format!("catalogue.{}", call.config.name()),
            key,
        }))
    }

    fn load(&self) -> Option<Vec<u8>> {
        let mut content = self.folder.read(&self.name).ok()?;
        if !content.starts_with(&self.key) {
            tracing::debug!("the catalogue has changed since it was read last");
            return None;
        }
        content.drain(..self.key.len());
        Some(content)
    }

    fn save(&self, bytes: &[u8]) {
        let content = [&self.key, bytes].concat();
        let saved = self
            .folder
            .with_lock(|| self.folder.replace(&self.name, &content));
        if let Err(error) = saved {
            let path = self.folder.path_of(&self.name);
            tracing::debug!(path = %path.display(), %error, "no cache is left");
        }
    }
}
