//! What the allocator reads: the `ipam` section and the pools that a selector
//! has put into `prevResult`.

use std::collections::BTreeSet;
use std::fs;

use cni::{Dns, Error, NetworkConfig, NetworkName, Object};
use ipam::{Pool, PoolConfig, ResolvConf, parse_subnet};

/// `ipam.routes`, as they are written.
///
/// # Errors
///
/// Code 7 for one whose `dst` is no subnet, or whose `gw` is no address.
pub(crate) fn routes(ipam: &Object) -> Result<Vec<Object>, Error> {
    let routes: Vec<Object> = ipam.read("ipam", "routes")?.unwrap_or_default();
    for (i, route) in routes.iter().enumerate() {
        let path = format!("ipam.routes[{i}]");
        let dst: String = route
            .read(&path, "dst")?
            .ok_or_else(|| Error::config(format!("{path}.dst is missing")))?;
        if parse_subnet(&dst).is_none() {
            return Err(Error::config(format!(
                "{path}.dst: {dst:?} is no subnet (such as 0.0.0.0/0)"
            )));
        }
        let gw: Option<String> = route.read(&path, "gw")?;
        if let Some(gw) = gw.filter(|gw| !gw.is_empty() && gw.parse::<std::net::IpAddr>().is_err())
        {
            return Err(Error::config(format!("{path}.gw: {gw:?} is no IP address")));
        }
    }
    Ok(routes)
}

/// What the file says that `ipam.resolvConf` names.
///
/// # Errors
///
/// Code 5 if it can't be read.
pub(crate) fn dns(ipam: &Object) -> Result<Option<Dns>, Error> {
    let path: Option<String> = ipam.read("ipam", "resolvConf")?;
    let Some(path) = path.filter(|path| !path.is_empty()) else {
        return Ok(None);
    };
    let content =
        fs::read(&path).map_err(|e| Error::io(format_args!("ipam.resolvConf: {path}"), e))?;
    let ResolvConf {
        nameservers,
        domain,
        search,
        options,
    } = ResolvConf::parse(&String::from_utf8_lossy(&content));
    Ok(Some(Dns::new(nameservers, domain, search, options)))
}

/// A pool, and the directory in which its reservations are kept.
#[derive(Clone, Debug)]
pub(crate) struct PlacedPool {
    pub(crate) pool: Pool,
    pub(crate) directory: NetworkName,
}

impl PlacedPool {
    /// The pool by name, for people.
    pub(crate) fn describe(&self, index: usize) -> String {
        match &self.pool.name {
            Some(name) => format!("pool {name} ({})", self.pool.ranges),
            None => format!(
                "pool {index} of network {} ({})",
                self.directory, self.pool.ranges
            ),
        }
    }

    /// The error, of this code, that the pool has no address left.
    pub(crate) fn exhausted(&self, index: usize, code: u64) -> Error {
        Error::new(
            code,
            format!(
                "{} has no address left: all {} are reserved",
                self.describe(index),
                self.pool.ranges.capacity()
            ),
        )
    }
}

/// `prevResult.pools`, each with its directory: of its own name, or of the
/// network's. `None` if no selector has put any there.
///
/// # Errors
///
/// Code 7, naming the key and the value, for a pool that is wrong or has a name
/// that can't be a directory's, and for two of one directory that overlap.
pub(crate) fn pools(config: &NetworkConfig) -> Result<Option<Vec<PlacedPool>>, Error> {
    let Some(configs) = pool_configs(config)? else {
        return Ok(None);
    };
    let mut pools: Vec<PlacedPool> = Vec::with_capacity(configs.len());
    for (i, pool) in configs.into_iter().enumerate() {
        let path = format!("prevResult.pools[{i}]");
        let directory = directory(config, &pool, &path)?;
        let pool = Pool::try_from(pool).map_err(|e| Error::config(e.within(&path).to_string()))?;
        pools.push(PlacedPool { pool, directory });
    }
    match overlap(&pools) {
        None => Ok(Some(pools)),
        Some((earlier, later)) => Err(Error::config(format!(
            "prevResult.pools[{later}]: {} overlaps {} of prevResult.pools[{earlier}]",
            pools[later].pool.ranges, pools[earlier].pool.ranges
        ))),
    }
}

/// Two pools of one directory that share an address.
fn overlap(pools: &[PlacedPool]) -> Option<(usize, usize)> {
    let mut intervals: Vec<_> = pools
        .iter()
        .enumerate()
        .flat_map(|(at, it)| {
            let ranges = it.pool.ranges.ranges().iter();
            ranges.map(move |range| (&it.directory, range.addresses(), at))
        })
        .collect();
    // Sorted, so that intervals that overlap stand side by side.
    intervals.sort_unstable_by_key(|(directory, it, _)| (*directory, it.first()));
    let found = intervals.windows(2).find(|pair| {
        let ((one, a, _), (other, b, _)) = (&pair[0], &pair[1]);
        one == other && a.overlaps(*b)
    })?;
    let (one, other) = (found[0].2, found[1].2);
    Some((one.min(other), one.max(other)))
}

/// The directories of `prevResult.pools`, whatever else is wrong with them, and
/// the network's own: where what is released may lie.
pub(crate) fn directories(config: &NetworkConfig) -> BTreeSet<NetworkName> {
    let pools = pool_configs(config).unwrap_or_else(|error| {
        tracing::warn!(%error, "going on without the pools, so that addresses are released");
        None
    });
    pools
        .into_iter()
        .flatten()
        .filter_map(|pool| pool.name?.parse().ok())
        .chain([config.name().clone()])
        .collect()
}

fn pool_configs(config: &NetworkConfig) -> Result<Option<Vec<PoolConfig>>, Error> {
    let Some(raw) = config.raw_prev_result() else {
        return Ok(None);
    };
    cni::read::<Object>("prevResult", raw)?.read("prevResult", "pools")
}

fn directory(config: &NetworkConfig, pool: &PoolConfig, path: &str) -> Result<NetworkName, Error> {
    match &pool.name {
        None => Ok(config.name().clone()),
        Some(name) => name.parse().map_err(|e| {
            Error::config(format!("{path}.name: {name:?} can't name a directory: {e}"))
        }),
    }
}
