//! Chooses the pool for a request: the pool that it names, one that a chain's selectors
//! choose, or a default pool.

use std::path::PathBuf;
use std::sync::Mutex;

use cni::{Error, NetworkName, Object, code};
use ipam::{Interval, IpNet, Range};

use crate::command_line::CommandLine;
use crate::http::refusal::{Refusal, impossible};
use crate::ipam::chain_config;
use crate::ipam::chain_config::Folders;
use crate::ipam::chains::Chains;
use crate::ipam::conflists;
use crate::ipam::default_pools::DefaultPool;
use crate::ipam::facts;
use crate::ipam::host_routes;
use crate::ipam::requests::PoolRequest;
use crate::lock::lock;
use crate::pool_filter;
use crate::state::pool::Facts;
use crate::state::pool::{Pool, network_config, whole};

/// Chooses pools.
pub(crate) struct PoolChoice {
    /// The folder of the network configurations.
    conf_dir: PathBuf,
    /// The folders of networks that name no configuration.
    folders: Folders,
    /// Pools for networks that ask for none.
    default_pools: Vec<DefaultPool>,
    /// The default pool that was given last.
    last: Mutex<Option<IpNet>>,
}

/// A pool for a request, as far as it is known without the others.
pub(crate) struct Choice {
    pool: Pool,
    /// What may be given of its subnet without request.
    given: Vec<Interval>,
}

impl PoolChoice {
    /// The choice by these arguments.
    pub(crate) fn new(arguments: &CommandLine) -> Self {
        Self {
            conf_dir: arguments.conf_dir.clone(),
            folders: Folders {
                data: arguments.data_dir.clone(),
                records: arguments.records(),
                cache: arguments.cache_dir.clone(),
            },
            default_pools: arguments.default_pools.clone(),
            last: Mutex::default(),
        }
    }

    /// The pool for a request; `None` for a default pool, which depends on the others. Selectors
    /// may take their time.
    ///
    /// # Errors
    ///
    /// Nothing chooses the pool that is requested, or any; a chosen one overlaps with what
    /// the host uses.
    pub(crate) fn choose(
        &self,
        request: &PoolRequest,
        chains: &Chains,
    ) -> Result<Option<Choice>, Refusal> {
        let choice = match (&request.conflist, request.subnet) {
            (Some(name), _) => self.of_conflist(name, request, chains)?,
            (None, Some(subnet)) => self.of_subnet(request, subnet)?,
            (None, None) => return Ok(None),
        };
        Ok(Some(choice))
    }

    /// The chosen pool, beside those that there are.
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
    ) -> Result<Pool, Refusal> {
        let Choice { pool, given } = match choice {
            Some(choice) => choice,
            None => self.of_subnet(request, (self.default_pool(request.v6, others)?, None))?,
        };
        for other in others.iter().filter(|other| other.space == pool.space) {
            let overlap = Interval::from(other.subnet).overlaps(pool.subnet.into());
            if overlap && !other.is_part_of_the_same(&pool) {
                return Err(impossible(format!(
                    "Pool overlaps with other one on this address space: {} with {}",
                    pool.subnet,
                    other.id()
                )));
            }
        }
        // A network that there is keeps its pool: containers may have requested addresses.
        if others.iter().all(|other| other.id() != pool.id()) {
            refuse_empty(&pool, &given)?;
        }
        Ok(pool)
    }

    fn of_subnet(
        &self,
        request: &PoolRequest,
        (subnet, range): (IpNet, Option<IpNet>),
    ) -> Result<Choice, Refusal> {
        let config = chain_config::of_subnet(&request.space, subnet, &self.folders);
        Ok(choice(request, &config, &whole(subnet)?, range, None))
    }

    fn default_pool(&self, v6: bool, others: &[&Pool]) -> Result<IpNet, Refusal> {
        let mut used: Vec<Interval> = others.iter().map(|other| other.subnet.into()).collect();
        used.extend(
            host_routes::in_use()?
                .iter()
                .map(|used| Interval::from(used.subnet)),
        );
        let mut last = lock(&self.last);
        let mut pools = self.default_pools.iter();
        let free = pools.find_map(|default| default.next_free(v6, &used, *last));
        *last = free.or(*last);
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
    ) -> Result<Choice, Refusal> {
        let list = conflists::find(&self.conf_dir, name.as_str())?;
        let config = chain_config::of_conflist(&list, name)?;
        // A tool that reads the records has another environment.
        let state_dir = chains.state_dir(&network_config(&config)?)?;
        let config = chain_config::with_state_dir(config, &state_dir)?;
        let ask = |subnet| ask(&config, subnet, &request.facts, chains);
        let Some((subnet, range)) = request.subnet else {
            let chosen = ask(None)?.unwrap_or_default();
            let found = of_family(&chosen, request.v6, name)?;
            let given = Some(found.given().to_vec());
            return Ok(choice(request, &config, found, None, given));
        };
        let is_asked_for = |range: &&Range| range.subnet() == subnet;
        // A subnet that the configuration has is not passed to it: it would be a duplicate.
        let own = match ask(None) {
            // It chooses among the pools that it is given.
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
        match chosen.iter().find(is_asked_for) {
            Some(found) => Ok(choice(request, &config, found, range, None)),
            None => Err(impossible(format!(
                "conflist {name} has no pool of {subnet}; it chooses {}",
                list_of(&chosen)
            ))),
        }
    }
}

/// The ranges of the pools that the selectors of a configuration choose if Docker asks for this
/// subnet; `None` if it has no selector.
fn ask(
    config: &Object,
    subnet: Option<IpNet>,
    facts: &Facts,
    chains: &Chains,
) -> Result<Option<Vec<Range>>, Error> {
    let config = chain_config::of_question(config, subnet)?;
    let args = facts::cni_args(facts, &Facts::new());
    let Some(result) = chains.ask(&config, &args)? else {
        return Ok(None);
    };
    let mut chosen = Vec::new();
    for pool in ipam::pools_of_result(&result)? {
        let ranges = pool_filter::ranges(&pool)?;
        chosen.extend(ranges.into_iter().map(|(_, range)| range));
    }
    Ok(Some(chosen))
}

/// Refuses a sub-pool that has none of the pool's addresses.
fn refuse_empty(pool: &Pool, given: &[Interval]) -> Result<(), Refusal> {
    let Some(range) = pool.range else {
        return Ok(());
    };
    if given.iter().any(|interval| interval.overlaps(range.into())) {
        return Ok(());
    }
    let given: Vec<String> = given.iter().map(Interval::to_string).collect();
    Err(impossible(format!(
        "SubPool: {range} has no address that can be given: the Pool {} gives {}",
        pool.subnet,
        given.join(", ")
    )))
}

/// The choice of a range. If the chain doesn't give addresses of it by itself, it is told the
/// subnet, and the gateway may still become another.
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
/// would refuse it, and ask again for ever.
fn of_family<'a>(chosen: &'a [Range], v6: bool, name: &NetworkName) -> Result<&'a Range, Refusal> {
    let family = if v6 { "IPv6" } else { "IPv4" };
    let found = chosen
        .iter()
        .find(|range| range.subnet().addr().is_ipv6() == v6);
    let found = found.ok_or_else(|| {
        impossible(format!(
            "conflist {name} chooses no {family} pool with a range, but {}; give a subnet",
            list_of(chosen)
        ))
    })?;
    let subnet = found.subnet();
    let mut in_use = host_routes::in_use()?.into_iter();
    if let Some(used) = in_use.find(|used| Interval::from(used.subnet).overlaps(subnet.into())) {
        return Err(impossible(format!(
            "the pool {subnet} of conflist {name} overlaps with {}; Docker takes such a pool only if \
             it is asked for: --subnet {subnet}",
            used.by
        )));
    }
    Ok(found)
}

fn list_of(chosen: &[Range]) -> String {
    if chosen.is_empty() {
        return "none".to_owned();
    }
    let subnets: Vec<String> = chosen
        .iter()
        .map(|range| range.subnet().to_string())
        .collect();
    subnets.join(", ")
}
