//! Opens, reads and removes regular files. Other files, such as pipes, are refused: a read could wait for
//! a writer.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;
use rustix::path::Arg;

use crate::ownership::refused;

/// Opens a regular file in a folder, with these flags, and this mode for a new file.
///
/// # Errors
///
/// An I/O error, and `PermissionDenied` for anything but a regular file.
pub fn open_regular(
    folder: impl AsFd,
    name: impl Arg,
    flags: OFlags,
    mode: Mode,
) -> io::Result<(File, Metadata)> {
    // With NONBLOCK, opening a pipe doesn't wait. The flag has no effect on regular files.
    let all = flags | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = match openat(folder, name, all, mode) {
        Err(Errno::LOOP) if flags.contains(OFlags::NOFOLLOW) => {
            return Err(refused("it is a symbolic link"));
        }
        opened => File::from(opened?),
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(refused("it is not a regular file"));
    }
    Ok((file, metadata))
}

/// Removes a file or a link in a folder. A missing one is no error.
///
/// # Errors
///
/// An I/O error of `unlink`.
pub fn remove_file(folder: impl AsFd, name: impl Arg) -> io::Result<()> {
    match unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Reads an open file of at most `most` bytes. A file that doesn't change takes one system call on
/// most file systems.
///
/// # Errors
///
/// An I/O error; the file is larger.
pub fn read_whole(mut file: &File, metadata: &Metadata, most: u64) -> io::Result<Vec<u8>> {
    if metadata.len() > most {
        let most = most >> 20;
        return Err(io::Error::other(format!("it is larger than {most} MiB")));
    }
    let length = usize::try_from(metadata.len()).unwrap_or_default();
    let mut content = vec![0; length + 1];
    let read = file.read(&mut content)?;
    content.truncate(read);
    if read != length {
        // The file has changed since its length was read, or the file system reads in parts.
        file.read_to_end(&mut content)?;
    }
    Ok(content)
}

/// Reads a regular file of at most `most` bytes. Symbolic links are followed.
///
/// # Errors
///
/// As [`open_regular`] and [`read_whole`].
pub fn read_regular(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let (file, metadata) = open_regular(CWD, path, OFlags::RDONLY, Mode::empty())?;
    read_whole(&file, &metadata, most)
}
