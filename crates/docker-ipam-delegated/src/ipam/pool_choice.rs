//! Chooses the pool for a request: the subnet that it names, one that a chain's selectors choose,
//! or a default pool, which is claimed.

use std::fs;
use std::net::IpAddr;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use ipam::{Interval, IpNet, Range};

use crate::ipam::chain_config::DIRECTORY;
use crate::ipam::default_pools::next_free;
use crate::ipam::held::{Held, Phase};
use crate::ipam::host_routes;
use crate::ipam::ipam_driver::IpamDriver;
use crate::ipam::pool::{Pool, PoolId};
use crate::ipam::pool_chain::list_of;
use crate::ipam::requests::PoolRequest;
use crate::records::Purpose;

/// How many default pools are tried: another one may be claimed at the same moment.
const MOST_CLAIMS: usize = 64;

/// The pool for a request.
pub(crate) struct Choice {
    /// The pool.
    pub(crate) pool: Arc<Pool>,
    /// The claim of its subnet, if the daemon has chosen it.
    pub(crate) claim: Option<Arc<Held>>,
}

impl IpamDriver {
    /// The pool for a request.
    ///
    /// # Errors
    ///
    /// The selectors don't choose the requested pool, or choose none; the chosen pool overlaps with
    /// a subnet that the host uses; no default pool is free; the sub-pool has no address.
    pub(crate) fn choose(&self, request: &PoolRequest) -> Result<Choice> {
        let (subnet, range) = match (request.subnet, &request.conflist) {
            (Some(requested), _) => requested,
            (None, Some(_)) => (self.of_selectors(request)?, None),
            (None, None) => return self.claimed(request),
        };
        let pool = self.pool_of(PoolId {
            subnet,
            range,
            options: request.options.clone(),
            conflist: request.conflist.clone(),
        })?;
        self.chain_of(&pool)?;
        Ok(Choice { pool, claim: None })
    }

    /// The next free default pool, claimed by a reservation of its network address.
    fn claimed(&self, request: &PoolRequest) -> Result<Choice> {
        for _ in 0..MOST_CLAIMS {
            let subnet = self.next_default_pool(request.v6)?;
            let pool = self.pool_of(PoolId {
                subnet,
                range: None,
                options: request.options.clone(),
                conflist: None,
            })?;
            let chain = self.chain_of(&pool)?;
            let ip = subnet.network();
            let claim = self.new_held(&pool, &chain, Purpose::Subnet, true, None);
            if let Err((earlier, phase)) = self.held.begin(&claim, ip) {
                if phase == Phase::Left && self.held.renew(&earlier.id) {
                    let claim = Some(earlier);
                    return Ok(Choice { pool, claim });
                }
                continue;
            }
            if let Err(error) = self.chains.add(&claim, &chain, Some(ip)) {
                let _ = self.release(&claim);
                // Another program may have reserved it meanwhile.
                tracing::warn!(%subnet, %error, "can't be claimed");
                continue;
            }
            self.held.given(&claim.id, ip);
            let claim = Some(claim);
            return Ok(Choice { pool, claim });
        }
        bail!("no default pool can be claimed; see the daemon's log")
    }

    /// The first default pool in which nothing is reserved; else the first one that Docker has
    /// given back, and in which only what was a network's own is still reserved.
    fn next_default_pool(&self, v6: bool) -> Result<IpNet> {
        let by_host = host_routes::in_use()?;
        let mut reserved = self.reserved()?;
        let mut subnets = self.held.subnets();
        let next = |subnets: &[IpNet], reserved: &[IpAddr]| {
            let by_host = by_host.iter().map(|used| &used.subnet);
            let mut used: Vec<Interval> = by_host.chain(subnets).map(|net| (*net).into()).collect();
            used.extend(reserved.iter().filter_map(|ip| Interval::new(*ip, *ip)));
            next_free(&self.arguments.default_pools, v6, &used)
        };
        if let Some(unused) = next(&subnets, &reserved) {
            return Ok(unused);
        }
        let left = self.held.left_subnets();
        subnets.retain(|subnet| !left.contains_key(subnet));
        reserved.retain(|ip| !left.values().flatten().any(|left| left == ip));
        next(&subnets, &reserved).with_context(|| {
            let family = if v6 { "IPv6" } else { "IPv4" };
            format!(
                "no default {family} pool is free of other pools and of the host's routes; \
                 give a subnet, or the daemon another --default-pool"
            )
        })
    }

    /// The addresses that are reserved without a network configuration, also those without a
    /// record.
    fn reserved(&self) -> Result<Vec<IpAddr>> {
        let directory = self.arguments.data_dir.join(DIRECTORY);
        let entries = match fs::read_dir(&directory) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.with_context(|| format!("{}", directory.display()))?,
        };
        let mut reserved = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            reserved.extend(name.to_str().and_then(|name| name.parse::<IpAddr>().ok()));
        }
        Ok(reserved)
    }

    /// The subnet of the first pool of the family that the selectors of a configuration choose. It
    /// must not overlap with what the host uses: Docker would refuse it, and ask again endlessly.
    fn of_selectors(&self, request: &PoolRequest) -> Result<IpNet> {
        let name = request.conflist.as_ref().context("no conflist")?;
        let chosen = self.chosen(name, &request.options)?;
        let family = if request.v6 { "IPv6" } else { "IPv4" };
        let subnets = chosen.iter().map(Range::subnet);
        let mut of_family = subnets.filter(|subnet| subnet.addr().is_ipv6() == request.v6);
        let subnet = of_family.next().with_context(|| {
            let chosen = list_of(&chosen);
            format!(
                "conflist {name} chooses no {family} pool with a range, but {chosen}; give a subnet"
            )
        })?;
        let mut in_use = host_routes::in_use()?.into_iter();
        if let Some(used) = in_use.find(|used| Interval::from(used.subnet).overlaps(subnet.into()))
        {
            bail!(
                "the pool {subnet} of conflist {name} overlaps with {}; Docker takes such a pool only if \
                 it is asked for: --subnet {subnet}",
                used.by
            );
        }
        Ok(subnet)
    }
}
