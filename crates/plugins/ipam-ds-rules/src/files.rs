//! The files of `ipam.poolsDir`: their names, their versions and their content.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cni::{Error, Object, code};
use serde::Serialize;

use crate::source::Source;

/// Minimum age of a file whose time identifies its content. A younger file may be changed again
/// within the same tick of the clock.
const SETTLED: Duration = Duration::from_secs(2);

/// Most attempts to read files that change meanwhile.
const MOST_ATTEMPTS: usize = 5;

/// The files of the folder, in the order of their names.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Files {
    #[serde(skip)]
    folder: PathBuf,
    files: Vec<File>,
}

/// A file in the folder's list, with what changes when its content does.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct File {
    /// The path, which may not be UTF-8.
    path: Vec<u8>,
    device: u64,
    inode: u64,
    size: u64,
    /// Seconds and nanoseconds.
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Files {
    /// The files of `ipam.poolsDir`; empty without that key.
    ///
    /// # Errors
    ///
    /// Code 7 for a relative path; code 5 for a folder or a file whose metadata can't be read.
    pub(crate) fn of(ipam: &Object) -> Result<Self, Error> {
        match ipam.absolute_path("ipam", "poolsDir")? {
            Some(folder) => Self::list(folder),
            None => Ok(Self {
                folder: PathBuf::new(),
                files: Vec::new(),
            }),
        }
    }

    /// Lists the files `*.json`. Names with a leading dot are skipped: they are an editor's files,
    /// or those of a mounted ConfigMap.
    fn list(folder: PathBuf) -> Result<Self, Error> {
        let failed =
            |e: io::Error| Error::io(format_args!("ipam.poolsDir: {}", folder.display()), e);
        let mut files = Vec::new();
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let bytes = name.as_bytes();
            if !bytes.ends_with(b".json") || bytes.starts_with(b".") {
                continue;
            }
            let path = folder.join(&name);
            // Follows symbolic links.
            let metadata = match fs::metadata(&path) {
                // The file was removed meanwhile. (A dangling link would still exist.)
                Err(error) if is_gone(&path, &error) => continue,
                other => other.map_err(|e| Error::io(path.display(), e))?,
            };
            if !metadata.is_file() {
                return Err(Error::io(path.display(), "it is not a regular file"));
            }
            files.push(File {
                path: path.as_os_str().as_bytes().to_vec(),
                device: metadata.dev(),
                inode: metadata.ino(),
                size: metadata.size(),
                modified: (metadata.mtime(), metadata.mtime_nsec()),
                changed: (metadata.ctime(), metadata.ctime_nsec()),
            });
        }
        files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(Self { folder, files })
    }

    /// Reads all files, and repeats it if one changes meanwhile: so files that are replaced
    /// together, like those of a ConfigMap, are also read together.
    ///
    /// # Errors
    ///
    /// Code 5 for a file that can't be read, code 7 for invalid content, code 11 if the files keep
    /// changing.
    pub(crate) fn read(mut self) -> Result<(Self, Vec<Source>), Error> {
        if self.files.is_empty() {
            return Ok((self, Vec::new()));
        }
        for _ in 0..MOST_ATTEMPTS {
            let sources: Result<Vec<Source>, Error> = self.files.iter().map(File::read).collect();
            let now = Self::list(self.folder.clone())?;
            if now == self {
                return Ok((self, sources?));
            }
            tracing::debug!("a file has changed while it was read");
            self = now;
        }
        let folder = self.folder.display();
        Err(Error::new(
            code::TRY_AGAIN_LATER,
            format!("ipam.poolsDir: {folder}: its files change while they are read"),
        ))
    }

    /// True if no file was changed within two seconds before this time.
    pub(crate) fn are_settled(&self, now: SystemTime) -> bool {
        self.files.iter().all(|file| {
            let changed = file.changed.0.try_into().unwrap_or_default();
            let age = now.duration_since(UNIX_EPOCH + Duration::from_secs(changed));
            age.is_ok_and(|age| age > SETTLED)
        })
    }
}

impl File {
    fn read(&self) -> Result<Source, Error> {
        let path = Path::new(std::ffi::OsStr::from_bytes(&self.path));
        let content = fs::read(path).map_err(|e| Error::io(path.display(), e))?;
        Source::of_file(&path.to_string_lossy(), &content)
    }
}

fn is_gone(path: &Path, error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound && fs::symlink_metadata(path).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;
    use std::os::unix::fs::symlink;

    fn list(folder: &Path) -> Result<Files, String> {
        Files::list(folder.to_owned()).map_err(|error| error.msg)
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
        let files = list(folder.path()).unwrap();
        let names: Vec<String> = files
            .files
            .iter()
            .map(|file| {
                String::from_utf8_lossy(&file.path)
                    .rsplit('/')
                    .next()
                    .unwrap()
                    .to_owned()
            })
            .collect();
        assert_eq!(names, ["a.json", "b.json", "c\u{fffd}.json"]);
        assert_eq!(files.read().unwrap().1.len(), 3);
    }

    #[test]
    fn what_is_no_file_is_named() {
        for make in [
            (|path: &Path| fs::create_dir(path).unwrap()) as fn(&Path),
            |path| symlink("/nowhere", path).unwrap(),
        ] {
            let folder = tempfile::tempdir().unwrap();
            make(&folder.path().join("x.json"));
            assert!(list(folder.path()).unwrap_err().contains("x.json"));
        }
    }

    #[test]
    fn files_that_are_replaced_together_are_read_together() {
        let folder = tempfile::tempdir().unwrap();
        let versions = ["v1", "v2"].map(|name| folder.path().join(name));
        for (version, rule) in versions.iter().zip(["a.json", "b.json"]) {
            fs::create_dir(version).unwrap();
            for name in ["a.json", "b.json"] {
                let content = if name == rule {
                    r#"{"rules":[{"pools":["p"]}]}"#
                } else {
                    "{}"
                };
                fs::write(version.join(name), content).unwrap();
            }
        }
        let data = folder.path().join("..data");
        symlink(&versions[0], &data).unwrap();
        let pools = folder.path().join("d");
        fs::create_dir(&pools).unwrap();
        for name in ["a.json", "b.json"] {
            symlink(data.join(name), pools.join(name)).unwrap();
        }
        let listed = list(&pools).unwrap();
        // The files are replaced after they were listed.
        fs::remove_file(&data).unwrap();
        symlink(&versions[1], &data).unwrap();
        let (read, sources) = listed.read().unwrap();
        assert_eq!(read, list(&pools).unwrap());
        let rules: Vec<usize> = sources.iter().map(|source| source.rules.len()).collect();
        assert_eq!(rules, [0, 1]);
    }

    #[test]
    fn a_file_of_just_now_is_not_settled() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.json"), "{}").unwrap();
        let files = list(folder.path()).unwrap();
        let now = SystemTime::now();
        assert!(!files.are_settled(now));
        assert!(files.are_settled(now + Duration::from_secs(4)));
        // The clock was set back since the files were written.
        assert!(!files.are_settled(now - Duration::from_secs(60)));
    }
}
