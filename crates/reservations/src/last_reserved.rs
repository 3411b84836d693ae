//! Reads and writes the address that a pool gave last: the rotation continues behind it.
//! If the file is lost, the rotation starts from the beginning.

use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::FileExt;

use rustix::fs::OFlags;

use crate::directory::Directory;
use crate::new_file::{self, Content};

/// More bytes than any address has as text.
const MOST_BYTES: usize = 64;

/// Name of the file of this pool.
pub(crate) fn file_name(pool: usize) -> String {
    format!("last_reserved_ip.{pool}")
}

fn parse(pool: usize, content: &[u8]) -> Option<IpAddr> {
    let text = String::from_utf8_lossy(content);
    let last = text.trim().parse().ok();
    if last.is_none() {
        tracing::debug!(pool, %text, "the address given last is unreadable");
    }
    last
}

/// The open file of one pool, and the content that was read from it.
#[derive(Debug)]
pub(crate) struct LastReserved {
    pool: usize,
    file: File,
    content: Vec<u8>,
}

impl LastReserved {
    /// Opens the file of this pool, only for reading if it can't be written.
    pub(crate) fn open(directory: &Directory, pool: usize) -> io::Result<Self> {
        let name = file_name(pool);
        let opened = directory.open_file(&name, OFlags::RDWR | OFlags::NOFOLLOW);
        let (file, _) = opened.or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => Err(error),
            _ => directory.open_file(&name, OFlags::RDONLY),
        })?;
        let mut content = vec![0; MOST_BYTES];
        let read = file.read_at(&mut content, 0)?;
        content.truncate(read);
        Ok(Self {
            pool,
            file,
            content,
        })
    }

    /// The address.
    pub(crate) fn ip(&self) -> Option<IpAddr> {
        parse(self.pool, &self.content)
    }

    /// Writes the address over one of the same length. `false` if the lengths differ, or if it
    /// can't be written. The file keeps its length, and the directory isn't changed.
    pub(crate) fn overwrite(&self, ip: IpAddr) -> bool {
        let text = ip.to_string();
        self.content.len() == text.len() && self.file.write_all_at(text.as_bytes(), 0).is_ok()
    }
}

/// Writes the address to a new file in place of the old one.
pub(crate) fn replace(directory: &Directory, pool: usize, ip: IpAddr) -> io::Result<()> {
    let name = file_name(pool);
    let text = ip.to_string();
    // Not renamed over the old file: ext4 would then write to the disk at once
    // (mount(8), auto_da_alloc). A kill in between loses the rotation, nothing else.
    directory.remove(&name)?;
    let content = Content {
        bytes: text.as_bytes(),
        origin: &[],
    };
    new_file::create(directory, &name, content).map(|_| ())
}
