//! Version of the format of the daemon's files.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use anyhow::{Context, Result, bail};
use state_files::names_in;

/// The version, which is also the name of a folder.
pub(crate) const VERSION: &str = "v2";

/// Refuses the files of another version of the daemon, unless they have no object.
///
/// # Errors
///
/// There are such files: the error names their folder, and says what to do. An I/O error.
pub(crate) fn refuse_others(folder: &Path) -> Result<()> {
    let failed = || format!("{}", folder.display());
    let names = match names_in(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        names => names.with_context(failed)?,
    };
    for name in names {
        let other = folder.join(&name);
        if name == VERSION || is_without_objects(&other).with_context(failed)? {
            continue;
        }
        bail!(
            "{}: another version of the daemon has written it, and this one reads {VERSION} only. \
             Start that version, remove Docker's networks that use it (docker network rm), and \
             start this one again",
            other.display()
        );
    }
    Ok(())
}

/// True if no folder in this one has a file.
fn is_without_objects(version: &Path) -> io::Result<bool> {
    for kind in fs::read_dir(version)? {
        let kind = kind?;
        if kind.file_type()?.is_dir() && fs::read_dir(kind.path())?.next().is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_another_version_are_refused_unless_they_are_empty() {
        let state = tempfile::tempdir().unwrap();
        let addresses = state.path().join("memory/v1/addresses");
        fs::create_dir_all(&addresses).unwrap();
        fs::write(state.path().join("memory/v1/lock"), "").unwrap();
        refuse_others(&state.path().join("memory")).unwrap();
        fs::write(addresses.join("1-0"), "").unwrap();
        let error = refuse_others(&state.path().join("memory"));
        let error = error.err().unwrap().to_string();
        assert!(error.contains("memory/v1: another version"), "{error}");
        assert!(error.contains("docker network rm"), "{error}");
    }
}
