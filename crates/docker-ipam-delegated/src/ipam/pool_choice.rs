//! Chooses the pool for a request: the pool that it names, one that a chain's selectors choose, or
//! a default pool, which is claimed.

use std::fs;
use std::net::IpAddr;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use cni::{NetworkName, code};
use ipam::{Interval, IpNet, Range};

use crate::ipam::chain_config::{self, DIRECTORY};
use crate::ipam::conflists;
use crate::ipam::default_pools::next_free;
use crate::ipam::host_routes;
use crate::ipam::ipam_driver::{IpamDriver, random};
use crate::ipam::pool::{Conflist, Pool, PoolId, whole};
use crate::ipam::requests::PoolRequest;
use crate::records::Purpose;
use crate::threads::lock;

/// How many default pools are tried: another one may be claimed at the same moment.
const MOST_CLAIMS: usize = 64;

impl IpamDriver {
    /// The pool for a request.
    ///
    /// # Errors
    ///
    /// The selectors don't choose the requested pool, or choose none; the chosen pool overlaps with
    /// a subnet that the host uses; no default pool is free; the sub-pool has no address.
    pub(crate) fn choose(&self, request: &PoolRequest) -> Result<Arc<Pool>> {
        let id = match (&request.conflist, request.subnet) {
            (Some(name), _) => self.of_conflist(name, request)?,
            (None, Some(subnet)) => id_of(request, subnet, None),
            (None, None) => return self.claimed(request),
        };
        self.new_pool(id)
    }

    fn new_pool(&self, id: PoolId) -> Result<Arc<Pool>> {
        let pool = Pool::of(id, &self.arguments, &self.chains.environment)?;
        self.pool(&pool.text)
    }

    /// The next free default pool, claimed by a reservation of its network address.
    fn claimed(&self, request: &PoolRequest) -> Result<Arc<Pool>> {
        for _ in 0..MOST_CLAIMS {
            let subnet = self.next_default_pool(request.v6)?;
            let pool = self.new_pool(id_of(request, (subnet, None), None))?;
            let held = self.new_held(&pool, Purpose::Subnet, true, None);
            let ip = subnet.network();
            if self.held.begin(&held, ip).is_err() {
                continue;
            }
            if let Err(error) = self.chains.add(&held, Some(ip)) {
                let _ = self.release(&held);
                // Another program may have reserved it meanwhile.
                tracing::warn!(%subnet, %error, "can't be claimed");
                continue;
            }
            self.held.given(&held.id, ip);
            return Ok(pool);
        }
        bail!("no default pool can be claimed; see the daemon's log")
    }

    fn next_default_pool(&self, v6: bool) -> Result<IpNet> {
        let mut used: Vec<Interval> = self.held.subnets().into_iter().map(Into::into).collect();
        used.extend(self.reserved()?);
        let by_host = host_routes::in_use()?.into_iter();
        used.extend(by_host.map(|used| Interval::from(used.subnet)));
        let mut last = lock(&self.last_chosen);
        let last = &mut last[usize::from(v6)];
        let free = next_free(&self.arguments.default_pools, v6, &used, *last);
        let free = free.with_context(|| {
            let family = if v6 { "IPv6" } else { "IPv4" };
            format!(
                "no default {family} pool is free of other pools and of the host's routes; \
                 give a subnet, or the daemon another --default-pool"
            )
        })?;
        *last = Some(free);
        Ok(free)
    }

    /// The addresses that are reserved without a network configuration, also those without a
    /// record.
    fn reserved(&self) -> Result<Vec<Interval>> {
        let directory = self.arguments.data_dir.join(DIRECTORY);
        let entries = match fs::read_dir(&directory) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.with_context(|| format!("{}", directory.display()))?,
        };
        let mut reserved = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            let ip = name.to_str().and_then(|name| name.parse::<IpAddr>().ok());
            reserved.extend(ip.and_then(|ip| Interval::new(ip, ip)));
        }
        Ok(reserved)
    }

    fn of_conflist(&self, name: &NetworkName, request: &PoolRequest) -> Result<PoolId> {
        let list = conflists::find(&self.arguments.conf_dir, name.as_str())?;
        let conflist = chain_config::conflist(&list, name)?;
        let config = chain_config::of_conflist(&conflist, &self.arguments.records())?;
        let ask = |subnet| self.chains.ask(&config, subnet, &request.options);
        let of_range = |range: &Range, part, is_given| {
            let conflist = Conflist {
                is_given,
                gateway: range.gateway(),
                ..conflist.clone()
            };
            id_of(request, (range.subnet(), part), Some(conflist))
        };
        let Some((subnet, part)) = request.subnet else {
            let chosen = ask(None)?.unwrap_or_default();
            let found = of_family(&chosen, request.v6, name)?;
            return Ok(of_range(found, None, false));
        };
        // A subnet that the configuration has is not passed to it: it would be a duplicate.
        let own = match ask(None) {
            // Without a requested subnet, the configuration has no pool to choose.
            Err(error) if error.code == code::INVALID_CONFIG => Vec::new(),
            other => other?.unwrap_or_default(),
        };
        let is_asked_for = |range: &&Range| range.subnet() == subnet;
        let of_subnet: Vec<&Range> = own.iter().filter(is_asked_for).collect();
        if let Some(first) = of_subnet.first() {
            refuse_empty(&of_subnet, part)?;
            return Ok(of_range(first, part, false));
        }
        let Some(chosen) = ask(Some(subnet))? else {
            return Ok(of_range(&whole(subnet)?, part, true));
        };
        let Some(found) = chosen.iter().find(is_asked_for) else {
            let chosen = list_of(&chosen);
            bail!("conflist {name} has no pool of {subnet}; it chooses {chosen}");
        };
        Ok(of_range(found, part, true))
    }
}

fn id_of(
    request: &PoolRequest,
    (subnet, range): (IpNet, Option<IpNet>),
    conflist: Option<Conflist>,
) -> PoolId {
    PoolId {
        id: random(),
        subnet,
        range,
        options: request.options.clone(),
        conflist,
    }
}

/// Refuses a sub-pool that has none of the addresses of these ranges.
fn refuse_empty(ranges: &[&Range], part: Option<IpNet>) -> Result<()> {
    let Some(part) = part else {
        return Ok(());
    };
    let given: Vec<&Interval> = ranges.iter().flat_map(|range| range.given()).collect();
    let texts: Vec<String> = given.iter().map(ToString::to_string).collect();
    ensure!(
        given.iter().any(|interval| interval.overlaps(part.into())),
        "SubPool: {part} has no address that can be given: the Pool gives {}",
        texts.join(", ")
    );
    Ok(())
}

/// The first pool of the family. It must not overlap with what the host uses: Docker
/// would refuse it, and ask again endlessly.
fn of_family<'a>(chosen: &'a [Range], v6: bool, name: &NetworkName) -> Result<&'a Range> {
    let family = if v6 { "IPv6" } else { "IPv4" };
    let mut ranges = chosen.iter();
    let found = ranges.find(|range| range.subnet().addr().is_ipv6() == v6);
    let found = found.with_context(|| {
        let chosen = list_of(chosen);
        format!(
            "conflist {name} chooses no {family} pool with a range, but {chosen}; give a subnet"
        )
    })?;
    let subnet = found.subnet();
    let mut in_use = host_routes::in_use()?.into_iter();
    if let Some(used) = in_use.find(|used| Interval::from(used.subnet).overlaps(subnet.into())) {
        bail!(
            "the pool {subnet} of conflist {name} overlaps with {}; Docker takes such a pool only if \
             it is asked for: --subnet {subnet}",
            used.by
        );
    }
    Ok(found)
}

fn list_of(chosen: &[Range]) -> String {
    if chosen.is_empty() {
        return "none".to_owned();
    }
    let subnets = chosen.iter().map(|range| range.subnet().to_string());
    subnets.collect::<Vec<_>>().join(", ")
}
