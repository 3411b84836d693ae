//! ADD: reserves one address from each pool, or none at all.

use std::net::IpAddr;

use cni::{Attachment, Call, Error, IpConfig, IpamResult, NetworkConfig, NetworkName, code};
use ipam::{Completion, Overflow, Pool, Pools, Range};
use reservations::{Reserved, State, Store, Stores};

use crate::storage;

/// Reserves an address from each pool for the attachment, and adds the addresses, `ipam.routes`
/// and `ipam.resolvConf` to `prevResult`.
///
/// After a failure, nothing of this ADD stays reserved, and reservations of an earlier one are
/// kept.
pub(crate) fn add(attachment: &Attachment, call: &Call<'_>) -> Result<IpamResult, Error> {
    let config = &call.config;
    ipam::refuse_reserved_name(config.name())?;
    let ipam = config.ipam()?;
    let data_dir = storage::directories(call, &ipam)?;
    let completion = Completion::read(config, &ipam)?;
    let pools = read(Pools::of_call(config)?, config)?;
    if pools.is_empty() {
        return Err(ipam::without_pools());
    }
    let network = config.name();
    let all = pools.iter().flat_map(Overflow::all);
    let mut names: Vec<&NetworkName> = all.map(|pool| pool.directory(network)).collect();
    names.sort_unstable();
    names.dedup();
    let mut allocation = Allocation {
        network,
        attachment,
        stores: data_dir.create(&names)?,
    };
    let given = ipam::all_or_nothing(
        &mut allocation,
        pools.iter().enumerate(),
        |allocation, (place, pools)| allocation.give(place, pools),
        |allocation, (pool, ip)| allocation.take_back(pool, ip.ip()),
    )?;
    Ok(completion.with_addresses(given))
}

/// Reads pools of a call.
///
/// # Errors
///
/// As [`Pools::read`]; code 7 for a pool with an owner: a node's files know attachments only.
pub(crate) fn read(pools: Pools, config: &NetworkConfig) -> Result<Vec<Overflow>, Error> {
    let pools = pools.read(config)?;
    for (i, of) in pools.iter().enumerate() {
        if let Some(owner) = &of.all()[0].owner {
            return Err(Error::config(format!(
                "prevResult.pools[{i}].owner: ipam-da-host-local keeps no address for {owner:?}: \
                 ipam-da-etcd and ipam-da-kubernetes keep addresses of owners"
            )));
        }
    }
    Ok(pools)
}

/// Addresses for one attachment, while the directories of all pools are locked.
struct Allocation<'a> {
    network: &'a NetworkName,
    attachment: &'a Attachment,
    stores: Stores<'a>,
}

impl<'a> Allocation<'a> {
    /// Reserves an address of the first pool that has one: the requested address, or the next free
    /// one.
    fn give<'p>(&self, place: usize, pools: &'p Overflow) -> Result<(&'p Pool, IpConfig), Error> {
        for pool in pools.tried() {
            let reserved = match pool.requested {
                Some(ip) => Some((ip, self.reserve_requested(ip, place, pool)?)),
                None => self.reserve_next(place, pool)?,
            };
            if let Some((ip, range)) = reserved {
                tracing::debug!(%ip, pool = pool.describe(self.network, place), "reserved");
                let prefix_len = range.subnet().prefix_len();
                return Ok((pool, IpConfig::new(ip, prefix_len, range.gateway())));
            }
        }
        Err(pools.exhausted(self.network, place, code::TRY_AGAIN_LATER))
    }

    /// Releases an address of this ADD.
    fn take_back(&self, pool: &Pool, ip: IpAddr) -> Result<(), Error> {
        self.store(pool).release(ip)?;
        let directory = pool.directory(self.network);
        tracing::debug!(%ip, %directory, "released");
        Ok(())
    }

    /// Reserves the requested address if it is free.
    fn reserve_requested<'p>(
        &self,
        ip: IpAddr,
        place: usize,
        pool: &'p Pool,
    ) -> Result<&'p Range, Error> {
        let taken = |by: &str| {
            let pool = pool.describe(self.network, place);
            let msg = format!("{ip}, requested of {pool}, is reserved already{by}");
            Err(Error::new(code::REQUESTED_TAKEN, msg))
        };
        let Some(range) = pool.ranges.range_of(ip) else {
            return taken("");
        };
        let directory = pool.directory(self.network).as_str();
        match self.store(pool).reserve(ip, self.attachment)? {
            Reserved::Now => Ok(range),
            Reserved::Already(State::Reserved(holder))
                if holder.is_attachment(self.attachment)
                    && holder.network_in(directory) == self.network.as_str() =>
            {
                let pool = pool.describe(self.network, place);
                Err(Error::new(
                    code::ALREADY_ALLOCATED,
                    format!(
                        "{} has {ip} of {pool} already; a second ADD without a DEL is refused",
                        self.attachment
                    ),
                ))
            }
            Reserved::Already(State::Reserved(holder)) => taken(&format!(" to {holder}")),
            Reserved::Already(State::Torn | State::Unreadable | State::NotAFile) => {
                taken("; its file can't be read")
            }
        }
    }

    /// Reserves the pool's next free address; `None` if it has none. One from a sticky key doesn't
    /// move the rotation, so that the addresses after it are not given again soon.
    fn reserve_next<'p>(
        &self,
        place: usize,
        pool: &'p Pool,
    ) -> Result<Option<(IpAddr, &'p Range)>, Error> {
        let store = self.store(pool);
        let rotation = pool.sticky.is_none();
        let rotation = rotation.then(|| store.rotation(&pool.rotation(place)));
        let last = rotation.as_ref().and_then(|rotation| rotation.last());
        let reserved = store.reserve_first(&pool.candidates(last), self.attachment)?;
        if let (Some((ip, _)), Some(rotation)) = (reserved, rotation) {
            rotation.set_last(ip);
        }
        Ok(reserved)
    }

    /// The store of a pool's reservations.
    fn store(&self, pool: &Pool) -> &Store<'a> {
        let store = self.stores.get(pool.directory(self.network));
        store.expect("all pools' directories are open")
    }
}
