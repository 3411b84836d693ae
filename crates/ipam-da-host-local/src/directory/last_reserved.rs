//! The address that was given last from a pool: where the next one is looked
//! for. That it is lost only loses the rotation, once.

use std::net::IpAddr;
use std::os::unix::fs::FileExt;
use std::path::Path;

use ipam::LAST_RESERVED_PREFIX;
use rustix::fs::OFlags;

use crate::directory::whole_file;

/// Reads it, for the pool of this index.
pub(crate) fn read(directory: &Path, pool: usize) -> Option<IpAddr> {
    let text = String::from_utf8(cni::read_file(&directory.join(name(pool))).ok()?).ok()?;
    let last = text.trim().parse().ok();
    if last.is_none() {
        tracing::debug!(pool, text, "the address given last is unreadable");
    }
    last
}

/// Writes it over the one that is there, if that is of the same length: the file
/// is never half written then, and the directory stays as it is.
pub(crate) fn overwrite(directory: &Path, pool: usize, ip: IpAddr) -> bool {
    let text = ip.to_string();
    let file = cni::open_to_write(&directory.join(name(pool)), OFlags::empty());
    file.is_ok_and(|(file, length)| {
        length == text.len() as u64 && file.write_all_at(text.as_bytes(), 0).is_ok()
    })
}

/// Writes it in any case. If it can't be written, no address need be refused.
pub(crate) fn replace(directory: &Path, pool: usize, ip: IpAddr) {
    let name = name(pool);
    if let Err(error) = whole_file::replace(directory, &name, ip.to_string().as_bytes()) {
        let path = directory.join(name);
        tracing::warn!(path = %path.display(), %error, "can't note the address given last");
    }
}

fn name(pool: usize) -> String {
    format!("{LAST_RESERVED_PREFIX}{pool}")
}
