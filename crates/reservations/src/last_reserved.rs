//! Reads and writes the address that a pool gave last: the next one is looked for
//! behind it. A lost one only starts the rotation from the beginning.

use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::FileExt;

use rustix::fs::{Mode, OFlags, openat};

use crate::directory::Directory;
use crate::new_file::NewFile;

/// Name of the file of this pool.
pub(crate) fn file_name(pool: usize) -> String {
    format!("last_reserved_ip.{pool}")
}

/// Reads it.
pub(crate) fn read(directory: &Directory, pool: usize) -> Option<IpAddr> {
    let (content, _) = directory.read_file(&file_name(pool)).ok()?;
    let text = String::from_utf8_lossy(&content);
    let last = text.trim().parse().ok();
    if last.is_none() {
        tracing::debug!(pool, %text, "the address given last is unreadable");
    }
    last
}

/// Writes it over an address of the same length; `false` if there is none. Such a file
/// is never half written, and the directory isn't changed.
pub(crate) fn overwrite(directory: &Directory, pool: usize, ip: IpAddr) -> bool {
    let text = ip.to_string();
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(directory.folder(), file_name(pool), flags, Mode::empty());
    let Ok(file) = file.map(File::from) else {
        return false;
    };
    let same_length = file
        .metadata()
        .is_ok_and(|it| it.is_file() && it.len() == text.len() as u64);
    same_length && file.write_all_at(text.as_bytes(), 0).is_ok()
}

/// Writes it as a new file.
pub(crate) fn replace(directory: &Directory, pool: usize, ip: IpAddr) -> io::Result<()> {
    let name = file_name(pool);
    let file = NewFile::write(directory, ip.to_string().as_bytes())?;
    // Not renamed over the old file: ext4 would then write to the disk at once
    // (mount(8), auto_da_alloc). A kill in between loses the rotation, nothing else.
    directory.remove(&name)?;
    file.link(&name).map(|_| ())
}
