//! ADD: one address from each pool, or none at all.

use std::collections::BTreeMap;
use std::net::IpAddr;

use cni::{Attachment, Call, Error, IpConfig, IpamResult, NetworkName, code};
use ipam::{Interval, Pool, Range};
use reservations::{DataDir, State, StickyPool, Stores};

use crate::config::PlacedPool;
use crate::prepared::Prepared;

/// Reserves an address from each pool for the attachment, and completes
/// `prevResult` with them, with `ipam.routes` and with `ipam.resolvConf`.
///
/// A failure leaves nothing behind of this ADD, and everything of an earlier one.
pub(crate) fn add(attachment: &Attachment, call: &Call<'_>) -> Result<IpamResult, Error> {
    let Prepared {
        data_dir,
        completion,
        pools,
    } = Prepared::read(call)?;
    if pools.is_empty() {
        return Err(Prepared::without_pools());
    }
    let ips = Allocation::start(&data_dir, &pools, attachment)?.finish()?;
    Ok(completion.with_ips(ips))
}

/// Addresses for one attachment, while the directories of all pools are locked.
struct Allocation<'a> {
    pools: &'a [PlacedPool],
    attachment: &'a Attachment,
    stores: Stores<'a>,
    /// Addresses that the attachment held before, by directory.
    held: BTreeMap<&'a NetworkName, Vec<IpAddr>>,
}

impl<'a> Allocation<'a> {
    fn start(
        data_dir: &'a DataDir<'_>,
        pools: &'a [PlacedPool],
        attachment: &'a Attachment,
    ) -> Result<Self, Error> {
        let mut names: Vec<&NetworkName> = pools.iter().map(|pool| &pool.directory).collect();
        names.sort_unstable();
        names.dedup();
        let mut stores = data_dir.create(&names)?;
        let mut held = BTreeMap::new();
        for name in names {
            let ips = store(&mut stores, name).held_by(attachment, &[])?;
            held.insert(name, ips.into_iter().map(|(ip, _)| ip).collect());
        }
        Ok(Self {
            pools,
            attachment,
            stores,
            held,
        })
    }

    /// Reserves one address from each pool; all are released if one fails.
    fn finish(mut self) -> Result<Vec<IpConfig>, Error> {
        let pools = self.pools;
        let given = ipam::all_or_nothing(
            &mut self,
            pools.iter().enumerate(),
            |allocation, (index, placed)| Ok((placed, allocation.give(index, placed)?)),
            |allocation, (placed, ip)| allocation.take_back(&placed.directory, ip.ip()),
        )?;
        for (placed, ip) in &given {
            // A requested address may be one that the key would not be given again.
            let key = placed.pool.sticky.as_ref();
            if let Some(key) = key.filter(|_| placed.pool.ranges.gives(ip.ip())) {
                let store = store(&mut self.stores, &placed.directory);
                with_sticky_pool(&placed.pool, |pool| store.remember_key(key, ip.ip(), pool));
            }
        }
        Ok(given.into_iter().map(|(_, ip)| ip).collect())
    }

    fn give(&mut self, index: usize, placed: &PlacedPool) -> Result<IpConfig, Error> {
        let ranges = &placed.pool.ranges;
        if let Some(ip) = self.held[&placed.directory]
            .iter()
            .find(|ip| ranges.contains(**ip))
        {
            return Err(Error::new(
                code::ALREADY_ALLOCATED,
                format!(
                    "{} has {ip} of {} already; a second ADD without a DEL is refused",
                    self.attachment,
                    placed.describe(index)
                ),
            ));
        }
        // A sticky key's address is no step of the rotation, so that the addresses behind it
        // are not given again soon.
        let (ip, range) = match self.remembered(placed)? {
            Some(remembered) => remembered,
            None => {
                let (ip, range) = match placed.pool.requested {
                    Some(ip) => self.requested(ip, index, placed)?,
                    None => self.next(index, placed)?,
                };
                store(&mut self.stores, &placed.directory).set_last_reserved(placed.rotation, ip);
                (ip, range)
            }
        };
        tracing::debug!(%ip, pool = placed.describe(index), "reserved");
        Ok(IpConfig::new(
            ip,
            range.subnet().prefix_len(),
            Some(range.gateway()),
        ))
    }

    /// Reserves the requested address, if it is free.
    fn requested<'p>(
        &mut self,
        ip: IpAddr,
        index: usize,
        placed: &'p PlacedPool,
    ) -> Result<(IpAddr, &'p Range), Error> {
        let taken = |by: &str| placed.taken(ip, index, by);
        let range = placed.pool.ranges.range_of(ip).ok_or_else(|| taken(""))?;
        match store(&mut self.stores, &placed.directory).reserve(ip, self.attachment)? {
            Ok(()) => Ok((ip, range)),
            Err(State::Reserved(holder)) => Err(taken(&format!(" to {holder}"))),
            Err(State::BeingWritten | State::Torn) => Err(taken(
                ": its file is empty or cut off, and younger than ten seconds",
            )),
            Err(State::Unreadable) => Err(taken("; its file can't be read")),
        }
    }

    /// Reserves the address that the pool's sticky key was given last, if it is free and
    /// nothing is requested.
    fn remembered<'p>(
        &mut self,
        placed: &'p PlacedPool,
    ) -> Result<Option<(IpAddr, &'p Range)>, Error> {
        let pool = &placed.pool;
        let Some(key) = pool.sticky.as_ref().filter(|_| pool.requested.is_none()) else {
            return Ok(None);
        };
        let store = store(&mut self.stores, &placed.directory);
        let ip = with_sticky_pool(pool, |pool| store.address_of_key(key, pool));
        let Some((ip, range)) = ip.and_then(|ip| Some((ip, pool.ranges.range_of(ip)?))) else {
            return Ok(None);
        };
        let reserved = store.reserve(ip, self.attachment)?;
        tracing::debug!(key, %ip, is_free = reserved.is_ok(), "the address of this key");
        Ok(reserved.is_ok().then_some((ip, range)))
    }

    /// Reserves the pool's next free address, round robin.
    fn next<'p>(
        &mut self,
        index: usize,
        placed: &'p PlacedPool,
    ) -> Result<(IpAddr, &'p Range), Error> {
        let store = store(&mut self.stores, &placed.directory);
        let candidates = placed
            .pool
            .ranges
            .rotation(store.last_reserved(placed.rotation));
        let intervals: Vec<Interval> = candidates
            .iter()
            .map(|candidate| candidate.addresses)
            .collect();
        let reserved = store.reserve_first(&intervals, self.attachment)?;
        reserved
            .map(|(at, ip)| (ip, candidates[at].range))
            .ok_or_else(|| placed.exhausted(index, code::TRY_AGAIN_LATER))
    }

    fn take_back(&mut self, name: &NetworkName, ip: IpAddr) -> Result<(), Error> {
        let store = store(&mut self.stores, name);
        match store.state(ip)? {
            Some(state) => store.release(ip, &state),
            None => Ok(()),
        }
    }
}

/// Calls `f` with the pool, as far as sticky keys are concerned: they have no excluded
/// address.
pub fn with_sticky_pool<T>(pool: &Pool, f: impl FnOnce(StickyPool<'_>) -> T) -> T {
    f(StickyPool {
        contains: &|ip| pool.ranges.gives(ip),
        capacity: pool.ranges.capacity(),
    })
}

fn store<'s, 'a>(
    stores: &'s mut Stores<'a>,
    name: &NetworkName,
) -> &'s mut reservations::Store<'a> {
    stores.get(name).expect("all pools' directories are open")
}
