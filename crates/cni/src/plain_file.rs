//! Opening what should be a file, and may be anything: a pipe would wait for its
//! other end for ever.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};

/// Who may read what is made: its owner alone.
const MODE: Mode = Mode::from_raw_mode(0o600);

/// Reads a file.
///
/// # Errors
///
/// It can't be read, or is something else.
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let (file, length) = plain(path, OFlags::RDONLY)?;
    let mut content = Vec::with_capacity(usize::try_from(length).unwrap_or_default() + 1);
    // Not of the file itself, which would be asked for its length once more.
    file.take(u64::MAX).read_to_end(&mut content)?;
    Ok(content)
}

/// Opens a file for writing, with these flags besides; returns its length, too.
///
/// # Errors
///
/// It can't be written, or is something else: a link, too, which may lead to what
/// is not ours to write.
pub fn open_to_write(path: &Path, flags: OFlags) -> io::Result<(File, u64)> {
    plain(path, OFlags::WRONLY | OFlags::NOFOLLOW | flags)
}

/// Refuses what is no file.
///
/// # Errors
///
/// It is something else.
pub fn must_be_file(metadata: &Metadata) -> io::Result<()> {
    if metadata.is_file() {
        Ok(())
    } else {
        Err(io::Error::other("it is no file"))
    }
}

fn plain(path: &Path, flags: OFlags) -> io::Result<(File, u64)> {
    // With NONBLOCK, which means nothing to a file, opening a pipe doesn't wait.
    let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = File::from(open(path, flags, MODE)?);
    let metadata = file.metadata()?;
    must_be_file(&metadata)?;
    Ok((file, metadata.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, mknodat};
    use std::fs;

    #[test]
    fn pipes_and_folders_are_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let (pipe, file) = (dir.path().join("pipe"), dir.path().join("file"));
        mknodat(CWD, &pipe, FileType::Fifo, MODE, 0).unwrap();
        fs::write(&file, "content").unwrap();
        assert!(read_file(&pipe).is_err() && read_file(dir.path()).is_err());
        assert!(open_to_write(&pipe, OFlags::empty()).is_err());
        assert_eq!(read_file(&file).unwrap(), b"content");
        assert!(open_to_write(&file, OFlags::TRUNC).is_ok());
        assert_eq!(read_file(&file).unwrap(), b"");
    }

    #[test]
    fn a_link_is_read_and_not_written() {
        let dir = tempfile::tempdir().unwrap();
        let (link, file) = (dir.path().join("link"), dir.path().join("file"));
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(open_to_write(&link, OFlags::CREATE).is_err());
        assert!(!file.exists());
        fs::write(&file, "content").unwrap();
        assert!(open_to_write(&link, OFlags::TRUNC).is_err());
        assert_eq!(read_file(&link).unwrap(), b"content");
    }
}
