//! Takes the lock that all users of a directory hold, host-local included:
//! `flock(2)` on its file `lock`.

use std::fs::File;
use std::io;

use cni::Cancellation;
use rustix::fs::{Mode, OFlags};
use state_files::{FileId, lock_file, open_regular};

use crate::directory::Directory;

/// Name of the file that is locked.
pub(crate) const LOCK_FILE: &str = "lock";

/// Waits until nobody else holds the lock on a directory. It is held exclusively until the file is
/// dropped. A cancellation ends the wait with an error.
///
/// `None` if the directory's path doesn't lead to the locked file any more: somebody removed or
/// replaced the file, or the directory, and another process may hold the lock on the new one.
pub(crate) fn acquire(
    directory: &Directory,
    cancellation: Option<&dyn Cancellation>,
) -> io::Result<Option<File>> {
    let path = directory.path.join(LOCK_FILE);
    // As host-local's library creates it.
    let mode = Mode::from_raw_mode(0o750);
    let flags = OFlags::RDONLY | OFlags::CREATE | OFlags::NOFOLLOW;
    let opened = open_regular(directory.folder(), LOCK_FILE, flags, mode);
    let (file, metadata) = match opened {
        // The directory was removed.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    if !lock_file(&file, &path, None, cancellation)? {
        return Err(io::Error::other("interrupted while waiting for the lock"));
    }
    let now = match std::fs::symlink_metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        now => now?,
    };
    Ok((FileId::from(&now) == FileId::from(&metadata)).then_some(file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::PipeReader;
    use std::os::fd::{AsFd, BorrowedFd};
    use std::path::Path;
    use std::thread;
    use std::time::{Duration, Instant};

    struct Pipe(PipeReader);

    impl Cancellation for Pipe {
        fn is_cancelled(&self) -> bool {
            false
        }

        fn fd(&self) -> io::Result<BorrowedFd<'_>> {
            Ok(self.0.as_fd())
        }
    }

    fn directory(path: &Path) -> Directory {
        Directory::open(path).unwrap().unwrap()
    }

    #[test]
    fn a_wait_for_the_lock_ends_with_the_lock_or_with_the_interrupt() {
        let folder = tempfile::tempdir().unwrap();
        let directory = directory(folder.path());
        let (receiver, sender) = io::pipe().unwrap();
        let pipe = Pipe(receiver);
        let acquire = || super::acquire(&directory, Some(&pipe as &dyn Cancellation));
        let first = acquire().unwrap().unwrap();
        thread::scope(|scope| {
            let second = scope.spawn(acquire);
            thread::sleep(Duration::from_millis(20));
            assert!(!second.is_finished());
            drop(first);
            let second = second.join().unwrap().unwrap();
            drop(sender);
            let error = acquire().unwrap_err();
            assert!(error.to_string().contains("interrupted"), "{error}");
            drop(second);
        });
        // The interrupted wait doesn't hold the lock.
        super::acquire(&directory, None).unwrap().unwrap();
    }

    /// Waits until this process has opened the file twice.
    fn wait_until_open_twice(path: &Path) {
        let started = Instant::now();
        let is_open_twice = || {
            let files = fs::read_dir("/proc/self/fd").unwrap().flatten();
            let paths = files.filter_map(|file| fs::read_link(file.path()).ok());
            paths.filter(|opened| opened == path).count() > 1
        };
        while !is_open_twice() {
            assert!(started.elapsed() < Duration::from_secs(30), "{path:?}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_lock_file_that_was_removed_or_replaced_during_the_wait_is_no_lock() {
        for replaced in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let directory = directory(folder.path());
            let first = super::acquire(&directory, None).unwrap().unwrap();
            thread::scope(|scope| {
                let second = scope.spawn(|| super::acquire(&directory, None));
                wait_until_open_twice(&folder.path().join(LOCK_FILE));
                fs::remove_file(folder.path().join(LOCK_FILE)).unwrap();
                if replaced {
                    fs::write(folder.path().join(LOCK_FILE), "").unwrap();
                }
                drop(first);
                assert!(second.join().unwrap().unwrap().is_none());
            });
            assert!(super::acquire(&directory, None).unwrap().is_some());
        }
    }

    #[test]
    fn a_link_in_the_place_of_the_lock_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let victim = folder.path().join("victim");
        std::os::unix::fs::symlink(&victim, folder.path().join(LOCK_FILE)).unwrap();
        assert!(super::acquire(&directory(folder.path()), None).is_err());
        assert!(!victim.exists());
    }

    #[test]
    fn a_directory_that_was_removed_has_no_lock() {
        let folder = tempfile::tempdir().unwrap();
        let directory = directory(folder.path());
        fs::remove_dir(folder.path()).unwrap();
        assert!(super::acquire(&directory, None).unwrap().is_none());
    }

    #[test]
    fn a_lock_whose_path_can_not_be_followed_any_more_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("net");
        fs::create_dir(&path).unwrap();
        let directory = directory(&path);
        fs::rename(&path, folder.path().join("moved")).unwrap();
        std::os::unix::fs::symlink(&path, &path).unwrap();
        assert!(super::acquire(&directory, None).is_err());
    }
}
