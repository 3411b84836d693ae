use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The identity of a file or folder: device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileId {
    /// Number of the device (`st_dev`).
    pub device: u64,
    /// Number of the inode on it (`st_ino`).
    pub inode: u64,
}

impl FileId {
    /// The identity of the file at a path. Symbolic links are followed.
    ///
    /// # Errors
    ///
    /// An I/O error of `stat`.
    pub fn of(path: &Path) -> io::Result<Self> {
        Ok(Self::from(&fs::metadata(path)?))
    }
}

impl From<&Metadata> for FileId {
    fn from(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }
}
