//! The address that an ADD would get from a pool in host-local's directories now.

use crate::node::{Network, Usage, slice};
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::path::Path;

use anyhow::{Result, anyhow};
use conflist::readable;
use ipam::{Interval, Pool};
use ipam_da_host_local::with_sticky_pool;

use super::explanation::ChosenPool;

/// The pool, and its next address by the allocator's rules. With `is_sized`, only its size.
pub(super) fn chosen(
    network: &Network,
    index: usize,
    pool: &Pool,
    is_sized: bool,
) -> Result<ChosenPool> {
    let name = pool.directory(&network.name).as_str();
    let directory = network.folders.data_dir.join(name);
    let taken = reservations::view::taken(&directory);
    let taken = there(&directory, taken)?.unwrap_or_default();
    let usage = Usage::of(&pool.ranges, &taken);
    let mut chosen = ChosenPool {
        pool: pool.name.as_ref().map(ToString::to_string),
        ranges: pool.ranges.to_string(),
        size: usage.size,
        reserved: usage.reserved,
        free: usage.free(),
        sticky: pool.sticky.clone(),
        ..ChosenPool::default()
    };
    if is_sized || !network.keeps_files() {
        return Ok(chosen);
    }
    let rotation = pool.rotation_index(&network.name, index);
    let last = reservations::view::last_reserved(&directory, rotation);
    let last = there(&directory, last)?.flatten();
    let address = match pool.requested {
        Some(ip) if taken.binary_search(&ip).is_ok() => {
            chosen.refusal = Some(format!("{ip}, which is requested, is reserved"));
            None
        }
        Some(ip) => Some(ip),
        None => {
            let candidates = pool.ranges.rotation(last);
            let mut candidates = candidates.iter();
            let free = remembered(pool, &directory, &taken)?.or_else(|| {
                candidates.find_map(|candidate| first_free(candidate.addresses, &taken))
            });
            if free.is_none() {
                chosen.refusal = Some("no address is free".to_owned());
            }
            free
        }
    };
    chosen.gateway = address.and_then(|ip| Some(pool.ranges.range_of(ip)?.gateway()));
    chosen.address = address;
    Ok(chosen)
}

/// The address that the pool's sticky key had last, if it is free.
fn remembered(pool: &Pool, directory: &Path, taken: &[IpAddr]) -> Result<Option<IpAddr>> {
    let Some(key) = &pool.sticky else {
        return Ok(None);
    };
    let ip = with_sticky_pool(pool, |of_pool| {
        reservations::view::address_of_key(directory, key, of_pool)
    });
    let ip = there(directory, ip)?.flatten();
    Ok(ip.filter(|ip| taken.binary_search(ip).is_err()))
}

/// The lowest address of the interval that isn't taken.
fn first_free(interval: Interval, taken: &[IpAddr]) -> Option<IpAddr> {
    let mut candidates = interval.iter();
    for ip in slice(taken, interval.first(), interval.last()) {
        let candidate = candidates.next()?;
        if candidate != *ip {
            return Some(candidate);
        }
    }
    candidates.next()
}

/// The value that was read; `None` if the file or folder doesn't exist.
///
/// # Errors
///
/// Any other I/O error, with the path.
fn there<T>(path: &Path, read: io::Result<T>) -> Result<Option<T>> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(anyhow!("{}: {}", path.display(), readable(&error))),
    }
}
