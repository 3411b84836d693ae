//! How it is noticed that somebody else has changed a directory: by its
//! modification time.
//!
//! Whoever makes, removes or renames a file in a directory makes the kernel set
//! its modification time to now. The kernel's "now" moves in steps of milliseconds
//! on many systems, so two changes can leave the same time behind. Hence we set the
//! time ourselves after each change of ours, to one that the kernel doesn't set: a
//! second ago, and a nanosecond of our own choice. As long as it is there, nobody
//! else has been.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_OMIT, utimensat};

/// Which directory it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    dev: u64,
    ino: u64,
}

impl Identity {
    /// As two numbers.
    pub(crate) fn words(self) -> [u64; 2] {
        [self.dev, self.ino]
    }

    /// The file in `cache_dir` for what is to be remembered of the directory.
    pub(crate) fn file_in(self, cache_dir: &Path, extension: &str) -> PathBuf {
        cache_dir.join(format!("{}-{}.{extension}", self.dev, self.ino))
    }
}

/// A directory's modification time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    seconds: i64,
    nanoseconds: i64,
}

impl Stamp {
    /// As two numbers.
    pub(crate) fn words(self) -> [u64; 2] {
        [
            self.seconds.cast_unsigned(),
            self.nanoseconds.cast_unsigned(),
        ]
    }

    /// What the directory bears now, and which one it is.
    pub(crate) fn read(directory: &Path) -> io::Result<(Identity, Self)> {
        let metadata: Metadata = fs::metadata(directory)?;
        Ok((
            Identity {
                dev: metadata.dev(),
                ino: metadata.ino(),
            },
            Self {
                seconds: metadata.mtime(),
                nanoseconds: metadata.mtime_nsec(),
            },
        ))
    }

    /// Gives the directory a new one.
    pub(crate) fn renew(directory: &Path) -> io::Result<Self> {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let stamp = Self {
            seconds: i64::try_from(now.as_secs()).unwrap_or_default() - 1,
            nanoseconds: now.subsec_nanos().into(),
        };
        let times = Timestamps {
            last_access: Timespec {
                tv_sec: 0,
                tv_nsec: UTIME_OMIT,
            },
            last_modification: Timespec {
                tv_sec: stamp.seconds,
                tv_nsec: stamp.nanoseconds,
            },
        };
        utimensat(CWD, directory, &times, AtFlags::empty())?;
        Ok(stamp)
    }
}
