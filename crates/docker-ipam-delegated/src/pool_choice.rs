//! Which pool a request gets: the one that it names, one that a chain's selectors
//! choose, or a default pool.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use cni::{NetworkName, Object};
use ipam::{Interval, IpNet, Range};

use crate::chains::Chains;
use crate::configuration::Folders;
use crate::default_pools::{DefaultPool, addresses};
use crate::facts::{self, Facts};
use crate::pool::Pool;
use crate::refusal::{Refusal, impossible};
use crate::requests::PoolRequest;
use crate::{configuration, conflists, host_routes, narrowing};

/// Chooses pools.
pub(crate) struct PoolChoice {
    /// The folder of the network configurations.
    pub(crate) conf_dir: PathBuf,
    /// The folders of networks that name no configuration.
    pub(crate) folders: Folders,
    /// The folder of the selectors' records while they are asked; emptied at the start.
    pub(crate) choices: PathBuf,
    /// Pools for networks that ask for none.
    pub(crate) default_pools: Vec<DefaultPool>,
    /// Number of the next choice.
    pub(crate) next: AtomicU64,
}

/// A subnet that selectors chose, with its gateway.
type Chosen = (IpNet, IpAddr);

impl PoolChoice {
    /// The pool for a request, beside those that there are.
    ///
    /// # Errors
    ///
    /// Nothing chooses the pool that is requested, or any; the one that is chosen
    /// overlaps with another of the address space, or with what the host uses.
    pub(crate) fn choose(
        &self,
        request: &PoolRequest,
        chains: &Chains,
        others: &[&Pool],
    ) -> Result<Pool, Refusal> {
        let pool = match &request.conflist {
            Some(name) => self.of_conflist(name, request, chains)?,
            None => self.of_subnet(request, others)?,
        };
        for other in others.iter().filter(|it| it.space == pool.space) {
            let overlap = addresses(other.subnet).overlaps(addresses(pool.subnet));
            if overlap && !other.is_part_of_the_same(&pool) {
                return Err(impossible(format!(
                    "Pool overlaps with other one on this address space: {} with {}",
                    pool.subnet,
                    other.id()
                )));
            }
        }
        Ok(pool)
    }

    fn of_subnet(&self, request: &PoolRequest, others: &[&Pool]) -> Result<Pool, Refusal> {
        let (subnet, range) = match request.subnet {
            Some(subnet) => subnet,
            None => (self.default_pool(request.v6, others)?, None),
        };
        let mut keys = Object::new();
        keys.set("subnet", &subnet.to_string());
        let gateway = Range::read("Pool", &keys)?.gateway();
        let config = configuration::of_subnet(&request.space, subnet, &self.folders);
        Ok(pool(request, subnet, range, gateway, true, &config))
    }

    fn default_pool(&self, v6: bool, others: &[&Pool]) -> Result<IpNet, Refusal> {
        let mut used: Vec<Interval> = others.iter().map(|it| addresses(it.subnet)).collect();
        used.extend(host_routes::in_use().iter().map(|it| addresses(it.subnet)));
        let free = self
            .default_pools
            .iter()
            .find_map(|it| it.first_free(v6, &used));
        free.ok_or_else(|| {
            let family = if v6 { "IPv6" } else { "IPv4" };
            impossible(format!(
                "no default {family} pool is free of other pools and of the host's routes; \
                 give a subnet, or the daemon another --default-pool"
            ))
        })
    }

    fn of_conflist(
        &self,
        name: &NetworkName,
        request: &PoolRequest,
        chains: &Chains,
    ) -> Result<Pool, Refusal> {
        let list = conflists::find(&self.conf_dir, name.as_str())?;
        let config = configuration::of_conflist(&list, name)?;
        let ask = |ranges| self.ask(&config, ranges, &request.facts, chains);
        let Some((subnet, range)) = request.subnet else {
            let chosen = ask(None)?.unwrap_or_default();
            let (subnet, gateway) = of_family(&chosen, request.v6, name)?;
            return Ok(pool(request, subnet, None, gateway, false, &config));
        };
        let find = |chosen: &[Chosen]| chosen.iter().copied().find(|it| it.0 == subnet);
        // What the configuration has by itself needs not be given to it, and must not:
        // it would be there twice.
        let own = ask(None).ok().flatten().unwrap_or_default();
        if let Some((_, gateway)) = find(&own) {
            return Ok(pool(request, subnet, range, gateway, false, &config));
        }
        let Some(chosen) = ask(Some((subnet, None)))? else {
            let mut keys = Object::new();
            keys.set("subnet", &subnet.to_string());
            let gateway = Range::read("Pool", &keys)?.gateway();
            return Ok(pool(request, subnet, range, gateway, true, &config));
        };
        match find(&chosen) {
            Some((_, gateway)) => Ok(pool(request, subnet, range, gateway, true, &config)),
            None => Err(impossible(format!(
                "conflist {name} has no pool of {subnet}; it chooses {}",
                list_of(&chosen)
            ))),
        }
    }

    /// The pools that the selectors of a configuration choose; `None` if it has no
    /// selector.
    fn ask(
        &self,
        config: &Object,
        ranges: Option<(IpNet, Option<IpNet>)>,
        facts: &Facts,
        chains: &Chains,
    ) -> Result<Option<Vec<Chosen>>, Refusal> {
        let Some(config) = configuration::of_selectors(config, ranges, &self.choices)? else {
            return Ok(None);
        };
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let id = format!("docker-choice-{number}");
        let id = id.parse().map_err(|_| impossible(id))?;
        let args = facts::cni_args(facts, &Facts::new());
        let result = chains.add(&config, &id, &args)?;
        // Selectors hold nothing; this removes the record.
        if let Err(error) = chains.del(&config, &id) {
            tracing::warn!(%error, "the selectors can't be undone");
        }
        let mut chosen = Vec::new();
        for pool in narrowing::pools(&result)? {
            let ranges = narrowing::ranges(&pool)?;
            chosen.extend(ranges.iter().map(|(_, it)| (it.subnet(), it.gateway())));
        }
        Ok(Some(chosen))
    }
}

fn pool(
    request: &PoolRequest,
    subnet: IpNet,
    range: Option<IpNet>,
    gateway: IpAddr,
    is_given: bool,
    config: &Object,
) -> Pool {
    Pool {
        space: request.space.clone(),
        conflist: request.conflist.clone(),
        subnet,
        range,
        facts: request.facts.clone(),
        is_given,
        gateway,
        config: serde_json::to_string(config).expect("an object is JSON"),
    }
}

/// The first pool of the family. It must not overlap with what the host uses: Docker
/// would refuse it, and ask again for ever.
fn of_family(chosen: &[Chosen], v6: bool, name: &NetworkName) -> Result<Chosen, Refusal> {
    let family = if v6 { "IPv6" } else { "IPv4" };
    let found = chosen
        .iter()
        .copied()
        .find(|it| it.0.addr().is_ipv6() == v6);
    let (subnet, gateway) = found.ok_or_else(|| {
        impossible(format!(
            "conflist {name} chooses no {family} pool with a range, but {}; give a subnet",
            list_of(chosen)
        ))
    })?;
    let mut in_use = host_routes::in_use().into_iter();
    if let Some(it) = in_use.find(|it| addresses(it.subnet).overlaps(addresses(subnet))) {
        return Err(impossible(format!(
            "the pool {subnet} of conflist {name} overlaps with {}; Docker takes such a pool only if \
             it is asked for: --subnet {subnet}",
            it.by
        )));
    }
    Ok((subnet, gateway))
}

fn list_of(chosen: &[Chosen]) -> String {
    if chosen.is_empty() {
        return "none".to_owned();
    }
    let subnets: Vec<String> = chosen.iter().map(|it| it.0.to_string()).collect();
    subnets.join(", ")
}
