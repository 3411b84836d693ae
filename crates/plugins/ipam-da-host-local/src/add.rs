//! ADD: reserves one address from each pool, or none at all.

use std::collections::BTreeMap;
use std::net::IpAddr;

use cni::{Attachment, Call, Error, IpConfig, IpamResult, NetworkConfig, NetworkName, code};
use ipam::{Completion, Interval, Pool, Range};
use reservations::{DataDir, State, StickyPool, Store, Stores};

use crate::storage;

/// Longest name of a directory on Linux (`NAME_MAX`).
const LONGEST_NAME: usize = 255;

/// Reserves an address from each pool for the attachment, and adds the addresses, `ipam.routes`
/// and `ipam.resolvConf` to `prevResult`.
///
/// After a failure, nothing of this ADD stays reserved, and reservations of an earlier one are
/// kept.
pub(crate) fn add(attachment: &Attachment, call: &Call<'_>) -> Result<IpamResult, Error> {
    let Prepared {
        data_dir,
        completion,
        pools,
    } = Prepared::read(call)?;
    if pools.is_empty() {
        return Err(Prepared::without_pools());
    }
    let network = call.config.name();
    let ips = Allocation::start(&data_dir, &pools, network, attachment)?.finish()?;
    Ok(completion.with_ips(ips))
}

/// The parsed input of an ADD. No directory has been read yet.
pub(crate) struct Prepared<'a> {
    pub(crate) data_dir: DataDir<'a>,
    pub(crate) completion: Completion,
    /// Empty if no selector has put pools into `prevResult`.
    pub(crate) pools: Vec<Pool>,
}

impl<'a> Prepared<'a> {
    /// Reads it from a call.
    ///
    /// # Errors
    ///
    /// Code 7, naming the key and the value; code 5 if `ipam.resolvConf` can't be read.
    pub(crate) fn read(call: &Call<'a>) -> Result<Self, Error> {
        let config = &call.config;
        refuse_long_name(config)?;
        let ipam = config.ipam()?;
        Ok(Self {
            data_dir: storage::data_dir(call, &ipam)?,
            completion: Completion::read(config, &ipam)?,
            pools: ipam::pools(config)?,
        })
    }

    /// The error of an ADD without pools.
    pub(crate) fn without_pools() -> Error {
        Error::config(
            "prevResult.pools is missing or empty: \
             a selector such as ipam-ds-ranges must stand before this allocator",
        )
    }
}

/// Refuses a network whose name is too long for a directory, even if its pools have directories:
/// other files of the network can't be created either.
fn refuse_long_name(config: &NetworkConfig) -> Result<(), Error> {
    let length = config.name().as_str().len();
    if length <= LONGEST_NAME {
        return Ok(());
    }
    Err(Error::config(format!(
        "name: the network's name has {length} bytes; a directory of reservations is named after it, \
         with {LONGEST_NAME} bytes at most"
    )))
}

/// Addresses for one attachment, while the directories of all pools are locked.
struct Allocation<'a> {
    pools: &'a [Pool],
    network: &'a NetworkName,
    attachment: &'a Attachment,
    stores: Stores<'a>,
    /// Addresses of the attachment from an earlier ADD, by directory.
    held: BTreeMap<&'a NetworkName, Vec<IpAddr>>,
}

impl<'a> Allocation<'a> {
    fn start(
        data_dir: &'a DataDir<'_>,
        pools: &'a [Pool],
        network: &'a NetworkName,
        attachment: &'a Attachment,
    ) -> Result<Self, Error> {
        let mut names: Vec<&NetworkName> =
            pools.iter().map(|pool| pool.directory(network)).collect();
        names.sort_unstable();
        names.dedup();
        let mut stores = data_dir.create(&names)?;
        let mut held = BTreeMap::new();
        for name in names {
            let store = stores.get(name).expect("all directories are open");
            let ips = store.held_by(attachment, &[])?;
            held.insert(name, ips.into_iter().map(|(ip, _)| ip).collect());
        }
        Ok(Self {
            pools,
            network,
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
            |allocation, (place, pool)| Ok((pool, allocation.give(place, pool)?)),
            |allocation, (pool, ip)| allocation.take_back(pool, ip.ip()),
        )?;
        for (pool, ip) in &given {
            // A requested address may be one that a sticky key can't get again.
            if let Some(key) = pool.sticky.as_ref().filter(|_| pool.ranges.gives(ip.ip())) {
                let store = self.store(pool);
                with_sticky_pool(pool, |pool| store.remember_key(key, ip.ip(), pool));
            }
        }
        Ok(given.into_iter().map(|(_, ip)| ip).collect())
    }

    fn give(&mut self, place: usize, pool: &'a Pool) -> Result<IpConfig, Error> {
        let mut held = self.held[pool.directory(self.network)].iter();
        if let Some(ip) = held.find(|ip| pool.ranges.contains(**ip)) {
            return Err(Error::new(
                code::ALREADY_ALLOCATED,
                format!(
                    "{} has {ip} of {} already; a second ADD without a DEL is refused",
                    self.attachment,
                    pool.describe(self.network, place)
                ),
            ));
        }
        // An address from a sticky key doesn't advance the rotation, so that the addresses after
        // it are not given again soon.
        let (ip, range) = match self.remembered(pool)? {
            Some(remembered) => remembered,
            None => {
                let (ip, range) = match pool.requested {
                    Some(ip) => self.requested(ip, place, pool)?,
                    None => self.next(place, pool)?,
                };
                let rotation = pool.rotation_index(self.network, place);
                self.store(pool).set_last_reserved(rotation, ip);
                (ip, range)
            }
        };
        tracing::debug!(%ip, pool = pool.describe(self.network, place), "reserved");
        Ok(IpConfig::new(
            ip,
            range.subnet().prefix_len(),
            Some(range.gateway()),
        ))
    }

    /// Reserves the requested address if it is free.
    fn requested(
        &mut self,
        ip: IpAddr,
        place: usize,
        pool: &'a Pool,
    ) -> Result<(IpAddr, &'a Range), Error> {
        let network = self.network;
        let taken = |by: &str| taken(ip, pool, network, place, by);
        let range = pool.ranges.range_of(ip).ok_or_else(|| taken(""))?;
        let attachment = self.attachment;
        match self.store(pool).reserve(ip, attachment)? {
            Ok(()) => Ok((ip, range)),
            Err(State::Reserved(holder)) => Err(taken(&format!(" to {holder}"))),
            Err(State::BeingWritten | State::Torn) => Err(taken(
                ": its file is empty or cut off, and younger than ten seconds",
            )),
            Err(State::Unreadable) => Err(taken("; its file can't be read")),
        }
    }

    /// Reserves the last address of the pool's sticky key, if it is free and no address is
    /// requested.
    fn remembered(&mut self, pool: &'a Pool) -> Result<Option<(IpAddr, &'a Range)>, Error> {
        let Some(key) = pool.sticky.as_ref().filter(|_| pool.requested.is_none()) else {
            return Ok(None);
        };
        let attachment = self.attachment;
        let store = self.store(pool);
        let ip = with_sticky_pool(pool, |pool| store.address_of_key(key, pool));
        let Some((ip, range)) = ip.and_then(|ip| Some((ip, pool.ranges.range_of(ip)?))) else {
            return Ok(None);
        };
        let reserved = store.reserve(ip, attachment)?;
        tracing::debug!(key, %ip, is_free = reserved.is_ok(), "the address of this key");
        Ok(reserved.is_ok().then_some((ip, range)))
    }

    /// Reserves the pool's next free address (round robin).
    fn next(&mut self, place: usize, pool: &'a Pool) -> Result<(IpAddr, &'a Range), Error> {
        let (network, attachment) = (self.network, self.attachment);
        let store = self.store(pool);
        let last = store.last_reserved(pool.rotation_index(network, place));
        let candidates = pool.ranges.rotation(last);
        let intervals: Vec<Interval> = candidates
            .iter()
            .map(|candidate| candidate.addresses)
            .collect();
        let reserved = store.reserve_first(&intervals, attachment)?;
        reserved
            .map(|(at, ip)| (ip, candidates[at].range))
            .ok_or_else(|| pool.exhausted(network, place, code::TRY_AGAIN_LATER))
    }

    fn take_back(&mut self, pool: &Pool, ip: IpAddr) -> Result<(), Error> {
        self.store(pool).release(ip)
    }

    /// The store of a pool's reservations.
    fn store(&mut self, pool: &Pool) -> &mut Store<'a> {
        let store = self.stores.get(pool.directory(self.network));
        store.expect("all pools' directories are open")
    }
}

/// The error for a reserved address that was requested of the pool with this index.
pub(crate) fn taken(
    ip: IpAddr,
    pool: &Pool,
    network: &NetworkName,
    place: usize,
    by: &str,
) -> Error {
    let pool = pool.describe(network, place);
    let msg = format!("{ip}, requested of {pool}, is reserved already{by}");
    Error::new(code::REQUESTED_TAKEN, msg)
}

/// Calls `f` with the pool as sticky keys use it: without its excluded addresses.
pub fn with_sticky_pool<T>(pool: &Pool, f: impl FnOnce(StickyPool<'_>) -> T) -> T {
    f(StickyPool {
        contains: &|ip| pool.ranges.gives(ip),
        capacity: pool.ranges.capacity(),
    })
}
