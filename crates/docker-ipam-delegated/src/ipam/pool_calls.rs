//! Docker's calls for pools. A request gets the subnet that it names, one that a chain's selectors
//! choose, or a default pool, which is claimed.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use cni::NetworkName;
use docker_records::pool::{DOCKER_DIRECTORY, Pool};
use docker_records::records::Purpose;
use ipam::{Interval, IpNet, Range};
use reservations::view;
use serde_json::json;
use state_files::open_if_there;

use crate::http::answer::Answer;
use crate::http::refusal::message;
use crate::ipam::allocations::{Allocation, Phase};
use crate::ipam::default_pools::next_free;
use crate::ipam::host_routes;
use crate::ipam::ipam_driver::IpamDriver;
use crate::ipam::pool_chain::list_of;
use crate::ipam::requests::{PoolCall, PoolRequest, RequestPool, known_pool};

/// How many default pools are tried: another one may be claimed at the same moment.
const MOST_CLAIMS: usize = 64;

impl IpamDriver {
    /// `RequestPool`.
    ///
    /// # Errors
    ///
    /// The request is wrong; the selectors don't choose the requested pool, or choose none; the
    /// chosen pool overlaps with a subnet that the host uses; no default pool is free; the sub-pool
    /// has no address.
    pub(crate) fn request_pool(self: &Arc<Self>, request: RequestPool) -> Result<Answer> {
        let request = PoolRequest::read(request)?;
        let (pool, claim) = match (request.subnet, &request.conflist) {
            (Some((subnet, range)), _) => (request.pool(subnet, range)?, None),
            (None, Some(name)) => {
                let subnet = self.of_selectors(name, &request)?;
                (request.pool(subnet, None)?, None)
            }
            (None, None) => self.claimed(&request)?,
        };
        if claim.is_none() {
            self.chain_of(&pool)?;
        }
        let answer = json!({"PoolID": pool.id(), "Pool": pool.subnet, "Data": {}});
        Ok(Answer::of(&answer).then(self.unless_delivered(claim)))
    }

    /// `ReleasePool`. Other networks may have the same pool, or the same gateway: the sweep releases
    /// what none of them has.
    pub(crate) fn release_pool(&self, request: &PoolCall) -> Answer {
        if let Some(pool) = known_pool(&request.pool_id) {
            self.allocations
                .leave(|one| one.pool.shares_subnet_with(&pool));
        }
        self.sweep_soon();
        Answer::nothing()
    }

    /// The next free default pool, claimed by a reservation of its network address.
    fn claimed(&self, request: &PoolRequest) -> Result<(Pool, Option<Arc<Allocation>>)> {
        let mut last = "others claim each one".to_owned();
        for _ in 0..MOST_CLAIMS {
            let subnet = self.next_default_pool(request.v6)?;
            let pool = request.pool(subnet, None)?;
            let chain = self.chain_of(&pool)?;
            let ip = subnet.network();
            let claim = self.new_allocation(&pool, &chain.network, Purpose::Subnet, true, None);
            if let Err((earlier, phase)) = self.allocations.begin(&claim, ip) {
                if phase == Phase::Left && self.allocations.renew(&earlier.id) {
                    return Ok((pool, Some(earlier)));
                }
                continue;
            }
            match self.conclude(&claim, self.add(&claim, &chain, Some(ip))) {
                Ok(_) => return Ok((pool, Some(claim))),
                // Another program may have reserved it meanwhile.
                Err(error) => {
                    tracing::warn!(%subnet, %error, "can't be claimed");
                    last = format!("{subnet}: {}", message(&error));
                }
            }
        }
        bail!("no default pool can be claimed; the last one: {last}")
    }

    /// The first default pool in which nothing is reserved; else the first one that Docker has
    /// given back, and in which only what was a network's own is still reserved.
    fn next_default_pool(&self, v6: bool) -> Result<IpNet> {
        let by_host = host_routes::in_use()?;
        let mut reserved = self.reserved()?;
        let mut subnets = self.allocations.subnets();
        let next = |subnets: &BTreeSet<IpNet>, reserved: &[IpAddr]| {
            let by_host = by_host.iter().map(|used| &used.subnet);
            let mut used: Vec<Interval> = by_host.chain(subnets).map(|net| (*net).into()).collect();
            used.extend(reserved.iter().filter_map(|ip| Interval::new(*ip, *ip)));
            next_free(&self.arguments.default_pools, v6, &used)
        };
        if let Some(unused) = next(&subnets, &reserved) {
            return Ok(unused);
        }
        let left = self.allocations.left_subnets();
        subnets.retain(|subnet| !left.contains_key(subnet));
        reserved.retain(|ip| !left.values().flatten().any(|left| left == ip));
        next(&subnets, &reserved).with_context(|| {
            let family = family(v6);
            format!(
                "no default {family} pool is free of other pools and of the host's routes; \
                 give a subnet, or the daemon another --default-pool"
            )
        })
    }

    /// The addresses that are reserved without a network configuration, also those without a
    /// record.
    fn reserved(&self) -> Result<Vec<IpAddr>> {
        let directory = self.arguments.data_dir.join(DOCKER_DIRECTORY);
        let addresses = open_if_there(&directory, || view::addresses(&directory));
        let addresses = addresses.with_context(|| directory.display().to_string())?;
        Ok(addresses.unwrap_or_default())
    }

    /// The subnet of the first pool of the family that the selectors of a configuration choose. It
    /// must not overlap with what the host uses: Docker would refuse it, and ask again endlessly.
    fn of_selectors(&self, name: &NetworkName, request: &PoolRequest) -> Result<IpNet> {
        let chosen = self.ask(&self.config_of(name)?, None, &request.options)?;
        let chosen = chosen.unwrap_or_default();
        let subnets = chosen.iter().map(Range::subnet);
        let mut of_family = subnets.filter(|subnet| subnet.addr().is_ipv6() == request.v6);
        let subnet = of_family.next().with_context(|| {
            let (family, chosen) = (family(request.v6), list_of(&chosen));
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

fn family(v6: bool) -> &'static str {
    if v6 { "IPv6" } else { "IPv4" }
}
