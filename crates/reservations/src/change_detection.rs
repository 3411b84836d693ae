//! Detects changes of a directory by others, by its modification and change times.
//!
//! A program that makes, removes or renames a file in a directory makes the kernel set
//! the directory's modification time to now. The kernel's clock moves in steps of some
//! milliseconds on many systems, so two changes can leave the same time. Therefore we
//! set the time ourselves after each change, to a value that the kernel doesn't set: a
//! second ago, with nanoseconds of our choice. As long as the directory has this time,
//! no other program has changed it.
//!
//! `tar -x` and `cp -a` set modification times, too, and may restore an old one. They
//! can't set the change time (`ctime`), which only the kernel writes. So both are
//! compared.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{Timespec, Timestamps, UTIME_OMIT, futimens};
use serde::{Deserialize, Serialize};

use crate::directory::Directory;

/// State of a directory between two changes: seconds and nanoseconds of its
/// modification time and of its change time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Version(pub(crate) [i64; 4]);

impl Version {
    /// The version of the directory with this metadata.
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self([
            metadata.mtime(),
            metadata.mtime_nsec(),
            metadata.ctime(),
            metadata.ctime_nsec(),
        ])
    }

    /// Gives the directory a new version, after a change of ours.
    pub(crate) fn renew(directory: &Directory) -> io::Result<Self> {
        let nanoseconds = since_1970().subsec_nanos();
        let seconds = now() - 1;
        let times = Timestamps {
            last_access: Timespec {
                tv_sec: 0,
                tv_nsec: UTIME_OMIT,
            },
            last_modification: Timespec {
                tv_sec: seconds,
                tv_nsec: nanoseconds.into(),
            },
        };
        futimens(directory.folder(), &times)?;
        let version = Self::of(&directory.metadata()?);
        if version.0[..2] != [seconds, nanoseconds.into()] {
            return Err(io::Error::other(
                "the file system doesn't keep nanoseconds, or somebody has changed the directory",
            ));
        }
        Ok(version)
    }
}

/// The time, in seconds since 1970.
pub(crate) fn now() -> i64 {
    i64::try_from(since_1970().as_secs()).unwrap_or_default()
}

fn since_1970() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn version(directory: &Directory) -> Version {
        Version::of(&directory.metadata().unwrap())
    }

    #[test]
    fn a_modification_time_that_is_put_back_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory::open(folder.path()).unwrap().unwrap();
        let ours = Version::renew(&directory).unwrap();
        assert_eq!(version(&directory), ours);
        let before = fs::metadata(folder.path()).unwrap().modified().unwrap();
        // Not within the same step of the kernel's clock.
        std::thread::sleep(std::time::Duration::from_millis(20));
        fs::write(folder.path().join("10.0.0.2"), "c1\r\neth0").unwrap();
        let opened = fs::File::open(folder.path()).unwrap();
        opened.set_modified(before).unwrap();
        assert_eq!(version(&directory).0[..2], ours.0[..2]);
        assert_ne!(version(&directory), ours);
    }

    #[test]
    fn a_version_has_a_time_that_the_kernel_does_not_set_any_more() {
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory::open(folder.path()).unwrap().unwrap();
        let of_kernel = version(&directory);
        let ours = Version::renew(&directory).unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        assert!(ours.0[0] < i64::try_from(now.as_secs()).unwrap());
        assert!(ours.0[0] >= of_kernel.0[0] - 1);
    }
}
