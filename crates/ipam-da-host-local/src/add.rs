//! ADD: one address from each pool, or none at all.

use std::collections::BTreeMap;
use std::net::IpAddr;

use cni::{Attachment, Call, Error, IpConfig, IpamResult, NetworkName, code};
use ipam::{Completion, Pool, Range};

use crate::config::{self, PlacedPool};
use crate::directory::Directory;
use crate::storage::Storage;

/// Reserves an address from each pool for the attachment, and completes
/// `prevResult` with them, with `ipam.routes` and with `ipam.resolvConf`.
pub(crate) fn add(attachment: &Attachment, call: &Call<'_>) -> Result<IpamResult, Error> {
    let config = &call.config;
    let ipam = config.ipam()?;
    let storage = Storage::read(call, &ipam)?;
    let completion = Completion::read(config, &ipam)?;
    let pools = config::pools(config)?;
    if pools.is_empty() {
        return Err(Error::config(
            "prevResult.pools is missing or empty: \
             a selector such as ipam-ds-ranges must stand before this allocator",
        ));
    }
    let ips = Directories::open(&storage, &pools)?.give_all(&pools, attachment)?;
    Ok(completion.with_ips(ips))
}

/// The directories of some pools, all of them locked.
struct Directories<'a>(BTreeMap<&'a NetworkName, Directory>);

impl<'a> Directories<'a> {
    fn open(storage: &Storage<'_>, pools: &'a [PlacedPool]) -> Result<Self, Error> {
        let mut names: Vec<&NetworkName> = pools.iter().map(|pool| &pool.directory).collect();
        // In one order for all processes, so that no two wait for each other.
        names.sort_unstable();
        names.dedup();
        let open = |name| Ok((name, Directory::create(storage, name)?));
        names
            .into_iter()
            .map(open)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// One address from each pool; what was given is taken back if one fails.
    fn give_all(
        mut self,
        pools: &[PlacedPool],
        attachment: &Attachment,
    ) -> Result<Vec<IpConfig>, Error> {
        ipam::all_or_nothing(
            &mut self,
            pools.iter().enumerate(),
            |it, (index, placed)| Ok((placed, it.give(index, placed, attachment)?)),
            |it, (placed, ip)| {
                let directory = it.directory(&placed.directory);
                directory.give_back(ip.ip(), attachment)
            },
        )
        .map(|given| given.into_iter().map(|(_, ip)| ip).collect())
    }

    fn directory(&mut self, name: &NetworkName) -> &mut Directory {
        self.0
            .get_mut(name)
            .expect("all pools' directories are open")
    }

    fn give(
        &mut self,
        index: usize,
        placed: &PlacedPool,
        attachment: &Attachment,
    ) -> Result<IpConfig, Error> {
        let directory = self.directory(&placed.directory);
        let pool = &placed.pool;
        if let Some(ip) = directory.held_of(&pool.ranges, attachment)? {
            return Err(Error::new(
                code::ALREADY_ALLOCATED,
                format!(
                    "{attachment} has {ip} of {} already; a second ADD without a DEL is refused",
                    placed.describe(index)
                ),
            ));
        }
        let (ip, range) = match pool.requested {
            Some(ip) => requested(directory, ip, pool, attachment)?.ok_or_else(|| {
                Error::new(
                    code::REQUESTED_TAKEN,
                    format!(
                        "{ip}, requested of {}, is reserved already",
                        placed.describe(index)
                    ),
                )
            })?,
            None => next(directory, index, pool, attachment)?
                .ok_or_else(|| placed.exhausted(index, code::TRY_AGAIN_LATER))?,
        };
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
    directory: &mut Directory,
    ip: IpAddr,
    pool: &'p Pool,
    attachment: &Attachment,
) -> Result<Option<(IpAddr, &'p Range)>, Error> {
    let reserved = directory.reserve(ip, attachment)?;
    let range = pool.ranges.range_of(ip).filter(|_| reserved);
    Ok(range.map(|range| (ip, range)))
}

/// Reserves the pool's next free address, round robin.
fn next<'p>(
    directory: &mut Directory,
    index: usize,
    pool: &'p Pool,
    attachment: &Attachment,
) -> Result<Option<(IpAddr, &'p Range)>, Error> {
    for candidate in pool.ranges.rotation(directory.last_reserved(index)) {
        while let Some(ip) = directory.first_free(candidate.addresses)? {
            if directory.reserve(ip, attachment)? {
                return Ok(Some((ip, candidate.range)));
            }
        }
    }
    Ok(None)
}
