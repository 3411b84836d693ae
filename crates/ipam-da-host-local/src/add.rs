//! ADD: one address from each pool, or none at all.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::IpAddr;
use std::path::Path;

use cni::{Attachment, Error, IpConfig, IpamResult, NetworkConfig, NetworkName, code};
use ipam::{Pool, Range};

use crate::config::{self, PlacedPool};
use crate::directory::Directory;
use crate::occupancy::Occupancy;

/// Reserves an address from each pool for the attachment, and completes
/// `prevResult` with them, with `ipam.routes` and with `ipam.resolvConf`.
pub(crate) fn add(attachment: &Attachment, config: &NetworkConfig) -> Result<IpamResult, Error> {
    let ipam = config.ipam()?;
    let data_dir = config::data_dir(&ipam)?;
    let routes = config::routes(&ipam)?;
    let dns = config::dns(&ipam)?;
    let pools = config::pools(config)?.unwrap_or_default();
    if pools.is_empty() {
        return Err(Error::config(
            "prevResult.pools is missing or empty: \
             a selector such as ipam-ds-ranges must stand before this allocator",
        ));
    }
    let mut result = config.prev_result()?.unwrap_or_default();
    let ips = Directories::open(&data_dir, &pools, config.name())?.give_all(&pools, attachment)?;
    result.ips.extend(ips);
    result.routes.extend(routes);
    if let Some(dns) = dns {
        result.dns.append(dns);
    }
    result.remove_other("pools");
    Ok(result)
}

/// The directories of some pools, all of them locked.
struct Directories<'a>(BTreeMap<&'a NetworkName, (Directory, Occupancy)>);

impl<'a> Directories<'a> {
    fn open(
        data_dir: &Path,
        pools: &'a [PlacedPool],
        network: &NetworkName,
    ) -> Result<Self, Error> {
        let mut names: Vec<&NetworkName> = pools.iter().map(|pool| &pool.directory).collect();
        // In one order for all processes, so that no two wait for each other.
        names.sort_unstable();
        let mut open = BTreeMap::new();
        for name in names {
            if let Entry::Vacant(entry) = open.entry(name) {
                let directory = Directory::create(data_dir, name, network)?;
                let occupancy = directory.occupancy()?;
                entry.insert((directory, occupancy));
            }
        }
        Ok(Self(open))
    }

    /// One address from each pool; what was given is taken back if one fails.
    fn give_all(
        mut self,
        pools: &[PlacedPool],
        attachment: &Attachment,
    ) -> Result<Vec<IpConfig>, Error> {
        let mut given: Vec<(usize, IpConfig)> = Vec::with_capacity(pools.len());
        for (index, placed) in pools.iter().enumerate() {
            match self.give(index, placed, attachment) {
                Ok(ip) => given.push((index, ip)),
                Err(mut error) => {
                    for (index, ip) in given {
                        let (directory, _) = &self.0[&pools[index].directory];
                        if let Err(e) = directory.release(ip.ip()) {
                            error.details = format!("{}\ncould not undo: {e}", error.details);
                        }
                    }
                    return Err(error);
                }
            }
        }
        Ok(given.into_iter().map(|(_, ip)| ip).collect())
    }

    fn give(
        &mut self,
        index: usize,
        placed: &PlacedPool,
        attachment: &Attachment,
    ) -> Result<IpConfig, Error> {
        let (directory, occupancy) = self
            .0
            .get_mut(&placed.directory)
            .expect("all pools' directories are open");
        let pool = &placed.pool;
        if let Some(ip) = occupancy.holds_one_of(attachment, &pool.ranges) {
            return Err(Error::new(
                code::ALREADY_ALLOCATED,
                format!(
                    "{attachment} has {ip} of {} already; a second ADD without a DEL is refused",
                    placed.describe(index)
                ),
            ));
        }
        let (ip, range) = match pool.requested {
            Some(ip) => requested(directory, ip, pool, attachment)
                .map(|range| range.map(|range| (ip, range)))?
                .ok_or_else(|| {
                    Error::new(
                        code::REQUESTED_TAKEN,
                        format!(
                            "{ip}, requested of {}, is reserved already",
                            placed.describe(index)
                        ),
                    )
                })?,
            None => next(directory, occupancy, index, pool, attachment)?
                .ok_or_else(|| placed.exhausted(index, occupancy, code::TRY_AGAIN_LATER))?,
        };
        occupancy.insert(ip, None);
        directory.set_last_reserved(index, ip);
        tracing::debug!(%ip, pool = placed.describe(index), "reserved");
        Ok(IpConfig::new(
            ip,
            range.subnet().prefix_len(),
            Some(range.gateway()),
        ))
    }
}

/// Reserves the requested address, if it is free.
fn requested<'p>(
    directory: &Directory,
    ip: IpAddr,
    pool: &'p Pool,
    attachment: &Attachment,
) -> Result<Option<&'p Range>, Error> {
    let reserved = directory.reserve(ip, attachment)?;
    Ok(pool.ranges.range_of(ip).filter(|_| reserved))
}

/// Reserves the pool's next free address, round robin.
fn next<'p>(
    directory: &Directory,
    occupancy: &mut Occupancy,
    index: usize,
    pool: &'p Pool,
    attachment: &Attachment,
) -> Result<Option<(IpAddr, &'p Range)>, Error> {
    for candidate in pool.ranges.rotation(directory.last_reserved(index)) {
        while let Some(ip) = occupancy.first_free(candidate.addresses) {
            if directory.reserve(ip, attachment)? {
                return Ok(Some((ip, candidate.range)));
            }
            // Made just now by someone who doesn't take the lock.
            occupancy.insert(ip, None);
        }
    }
    Ok(None)
}
