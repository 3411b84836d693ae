//! Sources of pools and rules: the network configuration, and the files of `ipam.poolsDir`.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use cni::{Error, Object};
use state_files::read_regular;

/// The largest file that is read, in bytes.
const MOST_BYTES: u64 = 64 << 20;

/// The pools and rules of one source.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// The prefix of its keys in messages: `ipam.`, or `/etc/cni/ipam.d/db.json: `.
    pub(crate) prefix: String,
    pub(crate) pools: Object,
    pub(crate) rules: Vec<Object>,
}

/// The keys of a file. The installer marks its own ones with `installedBy`. The `ipam` section has
/// other keys as well.
const KEYS: [&str; 3] = ["pools", "rules", "installedBy"];

impl Source {
    /// The keys `pools` and `rules` of the `ipam` section, then the files of `ipam.poolsDir`, in
    /// the order of their names.
    ///
    /// # Errors
    ///
    /// Code 7, naming file and key, for an invalid value; code 5 for a folder or a file that can't
    /// be read.
    pub(crate) fn all(ipam: &Object) -> Result<Vec<Self>, Error> {
        let mut sources = vec![Self {
            prefix: "ipam.".to_owned(),
            pools: ipam.read("ipam", "pools")?.unwrap_or_default(),
            rules: ipam.read("ipam", "rules")?.unwrap_or_default(),
        }];
        if let Some(folder) = ipam.absolute_path("ipam", "poolsDir")? {
            for path in files(&folder)? {
                if let Some(content) = read_if_there(&path)? {
                    sources.push(Self::of_file(&path.to_string_lossy(), &content)?);
                }
            }
        }
        Ok(sources)
    }

    /// The path of its file; `None` for the network configuration.
    pub(crate) fn file(&self) -> Option<&str> {
        self.prefix.strip_suffix(": ")
    }

    /// The source in a file with this path and content.
    pub(crate) fn of_file(path: &str, content: &[u8]) -> Result<Self, Error> {
        let read: Object = serde_json::from_slice(content)
            .map_err(|why| Error::config(format!("{path}: {why}")))?;
        let of_file = |error: Error| {
            let msg = format!("{path}: {}", error.msg);
            Error { msg, ..error }
        };
        read.expect_only("", &KEYS).map_err(of_file)?;
        Ok(Self {
            prefix: format!("{path}: "),
            pools: read.read("", "pools").map_err(of_file)?.unwrap_or_default(),
            rules: read.read("", "rules").map_err(of_file)?.unwrap_or_default(),
        })
    }
}

/// The paths of the files `*.json`, in order. Names with a leading dot are skipped: they are an
/// editor's files, or those of a mounted ConfigMap.
fn files(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |e: io::Error| Error::io(format_args!("ipam.poolsDir: {}", folder.display()), e);
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        if name.as_bytes().ends_with(b".json") && !name.as_bytes().starts_with(b".") {
            paths.push(folder.join(name));
        }
    }
    paths.sort_unstable();
    Ok(paths)
}

/// The content of a file; `None` if it was removed after it had been listed.
fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    let is_missing = |content: &io::Result<_>| matches!(content, Err(error) if error.kind() == io::ErrorKind::NotFound);
    let mut content = read_regular(path, MOST_BYTES);
    if is_missing(&content) {
        // A mounted ConfigMap's files are links, whose targets are swapped.
        content = read_regular(path, MOST_BYTES);
    }
    // A dangling link would still be there.
    if is_missing(&content) && fs::symlink_metadata(path).is_err() {
        return Ok(None);
    }
    content.map(Some).map_err(|e| Error::io(path.display(), e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;
    use std::os::unix::fs::symlink;

    fn all(folder: &Path) -> Result<Vec<Source>, String> {
        let mut ipam = Object::new();
        ipam.set("poolsDir", folder);
        Source::all(&ipam).map_err(|error| error.msg)
    }

    #[test]
    fn only_files_that_are_named_for_it_are_read_in_the_order_of_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let strange = |start: &[u8], end: &[u8]| OsString::from_vec([start, b"\xe4", end].concat());
        for name in [
            "b.json".into(),
            "a.json".into(),
            ".hidden.json".into(),
            "notes.txt".into(),
            strange(b"notes", b".txt"),
            strange(b"c", b".json"),
        ] {
            fs::write(folder.path().join(&name), "{}").unwrap();
        }
        let sources = all(folder.path()).unwrap();
        let prefixes: Vec<&str> = sources
            .iter()
            .map(|source| source.prefix.rsplit('/').next().unwrap())
            .collect();
        assert_eq!(
            prefixes,
            ["ipam.", "a.json: ", "b.json: ", "c\u{fffd}.json: "]
        );
    }

    #[test]
    fn what_is_no_file_is_named() {
        for make in [
            (|path: &Path| fs::create_dir(path).unwrap()) as fn(&Path),
            |path| symlink("/nowhere", path).unwrap(),
            |path| symlink("/dev/null", path).unwrap(),
        ] {
            let folder = tempfile::tempdir().unwrap();
            make(&folder.path().join("x.json"));
            assert!(all(folder.path()).unwrap_err().contains("x.json"));
        }
    }
}
