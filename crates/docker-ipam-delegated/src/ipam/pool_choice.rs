//! Chooses the pool for a request: the pool that it names, one that a chain's selectors
//! choose, or a default pool.

use anyhow::{Context, Result, bail, ensure};
use cni::{NetworkName, Object, code};
use ipam::{Interval, IpNet, Range};

use crate::ipam::chain_config;
use crate::ipam::conflists;
use crate::ipam::host_routes;
use crate::ipam::ipam_driver::IpamDriver;
use crate::ipam::requests::PoolRequest;
use crate::state::pool::{Pool, whole};
use crate::threads::lock;

/// A pool for a request, not yet compared with the other pools.
pub(crate) struct Choice {
    pool: Pool,
    /// The addresses that the chain gives if Docker requests none.
    given: Vec<Interval>,
}

impl IpamDriver {
    /// The pool for a request; `None` for a default pool, which depends on the others. This may
    /// take long, since it runs selectors.
    ///
    /// # Errors
    ///
    /// The selectors don't choose the requested pool, or choose none; or the chosen pool overlaps
    /// with a subnet that the host uses.
    pub(crate) fn choose(&self, request: &PoolRequest) -> Result<Option<Choice>> {
        let choice = match (&request.conflist, request.subnet) {
            (Some(name), _) => self.of_conflist(name, request)?,
            (None, Some(subnet)) => self.of_subnet(request, subnet)?,
            (None, None) => return Ok(None),
        };
        Ok(Some(choice))
    }

    /// The chosen pool, or a default pool, after a comparison with the existing pools.
    ///
    /// # Errors
    ///
    /// It overlaps with another of the address space, or no default pool is free, or the
    /// sub-pool has no address.
    pub(crate) fn place(
        &self,
        choice: Option<Choice>,
        request: &PoolRequest,
        others: &[&Pool],
    ) -> Result<Pool> {
        let Choice { pool, given } = match choice {
            Some(choice) => choice,
            None => self.of_subnet(request, (self.default_pool(request.v6, others)?, None))?,
        };
        for other in others.iter().filter(|other| other.space == pool.space) {
            let overlap = Interval::from(other.subnet).overlaps(pool.subnet.into());
            ensure!(
                !overlap || other.is_part_of_the_same(&pool),
                "Pool overlaps with other one on this address space: {} with {}",
                pool.subnet,
                other.id()
            );
        }
        // An existing pool is not refused: its containers may have requested their addresses.
        if others.iter().all(|other| other.id() != pool.id()) {
            refuse_empty(&pool, &given)?;
        }
        Ok(pool)
    }

    fn of_subnet(
        &self,
        request: &PoolRequest,
        (subnet, range): (IpNet, Option<IpNet>),
    ) -> Result<Choice> {
        let config = chain_config::of_subnet(&request.space, subnet, &self.arguments);
        Ok(choice(request, &config, &whole(subnet)?, range, None))
    }

    fn default_pool(&self, v6: bool, others: &[&Pool]) -> Result<IpNet> {
        let mut used: Vec<Interval> = others.iter().map(|other| other.subnet.into()).collect();
        let by_host = host_routes::in_use()?.into_iter();
        used.extend(by_host.map(|used| Interval::from(used.subnet)));
        let mut last = lock(&self.last_default);
        let mut pools = self.arguments.default_pools.iter();
        let free = pools.find_map(|default| default.next_free(v6, &used, *last));
        *last = free.or(*last);
        free.with_context(|| {
            let family = if v6 { "IPv6" } else { "IPv4" };
            format!(
                "no default {family} pool is free of other pools and of the host's routes; \
                 give a subnet, or the daemon another --default-pool"
            )
        })
    }

    fn of_conflist(&self, name: &NetworkName, request: &PoolRequest) -> Result<Choice> {
        let list = conflists::find(&self.arguments.conf_dir, name.as_str())?;
        let config = chain_config::of_conflist(&list, name, &self.chains.environment)?;
        let ask = |subnet| self.chains.ask(&config, subnet, &request.facts);
        let Some((subnet, range)) = request.subnet else {
            let chosen = ask(None)?.unwrap_or_default();
            let found = of_family(&chosen, request.v6, name)?;
            let given = Some(found.given().to_vec());
            return Ok(choice(request, &config, found, None, given));
        };
        let is_asked_for = |range: &&Range| range.subnet() == subnet;
        // A subnet that the configuration has is not passed to it: it would be a duplicate.
        let own = match ask(None) {
            // Without a requested subnet, the configuration has no pool to choose.
            Err(error) if error.code == code::INVALID_CONFIG => Vec::new(),
            other => other?.unwrap_or_default(),
        };
        if let Some(first) = own.iter().find(is_asked_for) {
            let given = own.iter().filter(is_asked_for).flat_map(Range::given);
            let given = Some(given.copied().collect());
            return Ok(choice(request, &config, first, range, given));
        }
        let Some(chosen) = ask(Some(subnet))? else {
            return Ok(choice(request, &config, &whole(subnet)?, range, None));
        };
        let Some(found) = chosen.iter().find(is_asked_for) else {
            let chosen = list_of(&chosen);
            bail!("conflist {name} has no pool of {subnet}; it chooses {chosen}");
        };
        Ok(choice(request, &config, found, range, None))
    }
}

/// Refuses a sub-pool that has none of the pool's addresses.
fn refuse_empty(pool: &Pool, given: &[Interval]) -> Result<()> {
    if let Some(range) = pool.range {
        let texts: Vec<String> = given.iter().map(Interval::to_string).collect();
        ensure!(
            given.iter().any(|interval| interval.overlaps(range.into())),
            "SubPool: {range} has no address that can be given: the Pool {} gives {}",
            pool.subnet,
            texts.join(", ")
        );
    }
    Ok(())
}

/// The choice of a range. `own` has the addresses that the chain gives of it by itself. If it is
/// `None`, the chain is told the subnet, and Docker may choose another gateway.
fn choice(
    request: &PoolRequest,
    config: &Object,
    found: &Range,
    range: Option<IpNet>,
    own: Option<Vec<Interval>>,
) -> Choice {
    let pool = Pool {
        space: request.space.clone(),
        conflist: request.conflist.clone(),
        subnet: found.subnet(),
        range,
        facts: request.facts.clone(),
        is_given: own.is_none(),
        gateway: found.gateway(),
        config: serde_json::to_string(config).expect("an object is JSON"),
    };
    let given = own.unwrap_or_else(|| vec![found.addresses()]);
    Choice { pool, given }
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
