//! Proves that nothing is at a path. That a folder can't be found is no proof: a link to it may lead to
//! a disk that isn't mounted now.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use crate::MOST_RACES;

/// True if nothing is at a path: the nearest folder above it can be read, and has no entry of the
/// next name. False if something is there.
///
/// ```
/// # use std::path::Path;
/// assert!(state_files::is_absent(Path::new("/proc/no/such/file")).unwrap());
/// assert!(!state_files::is_absent(Path::new("/proc/self/status")).unwrap());
/// assert!(state_files::is_absent(Path::new("/proc/self/status/file")).is_err());
/// ```
///
/// # Errors
///
/// It is unknown: a link in the path, or at its end, leads nowhere; a part of the path is no folder;
/// an I/O error of `stat`.
pub fn is_absent(path: &Path) -> io::Result<bool> {
    for part in path.ancestors() {
        let found = match fs::symlink_metadata(part) {
            // No file can have such a name.
            Err(error) if error.kind() == ErrorKind::InvalidFilename => continue,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Ok(link) if link.is_symlink() => fs::metadata(part).map_err(|error| {
                let part = part.display();
                io::Error::other(format!("{part} is a link that leads nowhere: {error}"))
            })?,
            found => found?,
        };
        if part == path {
            return Ok(false);
        }
        if !found.is_dir() {
            return Err(ErrorKind::NotADirectory.into());
        }
        break;
    }
    Ok(true)
}

/// What `open` finds at a path; `None` if nothing is there ([`is_absent`]).
///
/// # Errors
///
/// Those of `open` and of [`is_absent`].
pub fn open_if_there<T>(path: &Path, open: impl Fn() -> io::Result<T>) -> io::Result<Option<T>> {
    for _ in 0..MOST_RACES {
        match open() {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if is_absent(path)? {
                    return Ok(None);
                }
                // It has been made since.
            }
            opened => return opened.map(Some),
        }
    }
    Err(io::Error::other("it is removed again and again"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_link_that_leads_nowhere_proves_nothing() {
        let root = tempfile::tempdir().unwrap();
        let of = |path: &str| is_absent(&root.path().join(path)).map_err(|error| error.to_string());
        assert_eq!(of("a"), Ok(true));
        assert_eq!(of("a/b/c"), Ok(true));
        assert_eq!(of(&"n".repeat(256)), Ok(true));
        fs::create_dir(root.path().join("disk")).unwrap();
        symlink("disk", root.path().join("link")).unwrap();
        assert_eq!(of("link"), Ok(false));
        assert_eq!(of("link/a/b"), Ok(true));
        fs::remove_dir(root.path().join("disk")).unwrap();
        for path in ["link", "link/a", "link/a/b"] {
            assert!(of(path).unwrap_err().contains("link is a link"), "{path}");
        }
        symlink("circle", root.path().join("circle")).unwrap();
        assert!(of("circle").is_err() && of("circle/a").is_err());
        fs::write(root.path().join("file"), "").unwrap();
        assert_eq!(of("file"), Ok(false));
        assert!(of("file/a").is_err());
    }

    #[test]
    fn what_is_made_meanwhile_is_opened() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a");
        let tries = std::cell::Cell::new(0);
        let opened = open_if_there(&path, || {
            let read = fs::read(&path);
            tries.set(tries.get() + 1);
            fs::write(&path, "x").unwrap();
            read
        });
        assert_eq!((opened.unwrap().unwrap(), tries.get()), (b"x".to_vec(), 2));
        let missing = root.path().join("b/c");
        assert!(
            open_if_there(&missing, || fs::read(&missing))
                .unwrap()
                .is_none()
        );
    }
}
