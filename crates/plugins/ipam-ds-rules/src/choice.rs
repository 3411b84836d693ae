//! Chooses the first rule that holds, its pools, and the address requested from each.

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;

use cni::{Dns, Error, Excerpt, Object, code};
use ipam::{LONGEST_STICKY_KEY, Pool, RangeSet, Request};

use crate::compiled::{ChosenPool, Compiled};
use crate::facts::Facts;
use crate::rule::Rule;
use crate::template::Template;

/// The result of the choice for a container.
#[derive(Clone, Debug, Default)]
pub(crate) struct Choice {
    /// Entries of the result's `pools`.
    pub(crate) pools: Vec<Object>,
    /// For each entry, the other directories of reservations that may hold addresses of the pool.
    pub(crate) held_in: Vec<BTreeSet<String>>,
    /// The pools' routes.
    pub(crate) routes: Vec<Object>,
    /// The pools' DNS.
    pub(crate) dns: Vec<Dns>,
}

/// Chooses the pools for a container with these facts. `requests` are the runtime's.
///
/// # Errors
///
/// Code 7, naming rule and key: no rule holds; a fact in a template is missing; an unknown pool; a
/// requested address that no pool can give. Code 111 for an address that another rule pins.
pub(crate) fn choose(
    catalogue: &Compiled<'_>,
    facts: &Facts,
    requests: Vec<Request>,
) -> Result<Choice, Error> {
    let rule = &first_that_holds(catalogue, facts)?;
    let mut chosen: Vec<Chosen> = Vec::with_capacity(rule.pools.len());
    let mut names = HashSet::new();
    for (i, template) in rule.pools.iter().enumerate() {
        let key = format!("pools[{i}]");
        let pool = Chosen::read(catalogue, rule, &key, template, facts)?;
        if !names.insert(pool.name.clone()) {
            let why = format!("the pool {:?} is chosen twice", pool.name);
            return Err(refused(rule, &key, template, &why));
        }
        chosen.push(pool);
    }
    for (i, template) in rule.ips.iter().enumerate() {
        request_by_rule(&mut chosen, rule, &rule.key_of_ip(i), template, facts)?;
    }
    request_by_runtime(&mut chosen, rule, requests)?;
    let sticky = sticky(rule, facts)?;
    tracing::debug!(rule = rule.path(), "this rule holds");
    let mut choice = Choice::default();
    for chosen in chosen {
        let ChosenPool {
            mut entry,
            routes,
            dns,
            held_in,
            ..
        } = chosen.pool;
        if let Some((ip, _)) = &chosen.requested {
            entry.set("requested-ip", ip);
        }
        if let Some(key) = &sticky {
            entry.set("sticky", key);
        }
        // For people who read the record. No plugin uses it.
        entry.set("rule", &rule.path());
        choice.pools.push(entry);
        choice.held_in.push(held_in);
        choice.routes.extend(routes);
        choice.dns.push(Dns::read("dns", dns)?);
    }
    Ok(choice)
}

fn first_that_holds<'a>(catalogue: &Compiled<'a>, facts: &Facts) -> Result<Rule<'a>, Error> {
    if catalogue.has_no_rule() {
        return Err(no_rule());
    }
    catalogue.first_that_holds(facts)?.ok_or_else(|| {
        Error::config(format!(
            "no rule of ipam.rules and ipam.poolsDir holds for {facts}"
        ))
    })
}

/// The error for a catalogue without rules.
pub(crate) fn no_rule() -> Error {
    Error::config(
        "ipam.rules is missing or empty, and ipam.poolsDir has no rule: no pool is chosen",
    )
}

fn sticky(rule: &Rule<'_>, facts: &Facts) -> Result<Option<String>, Error> {
    let Some(template) = &rule.sticky else {
        return Ok(None);
    };
    let key = expand(rule, "sticky", template, facts)?;
    if key.len() > LONGEST_STICKY_KEY {
        let key = Excerpt(&key);
        let why = format!("\"{key}\" is longer than {LONGEST_STICKY_KEY} bytes");
        return Err(refused(rule, "sticky", template, &why));
    }
    Ok(Some(key))
}

fn expand(
    rule: &Rule<'_>,
    key: &str,
    template: &Template<'_>,
    facts: &Facts,
) -> Result<String, Error> {
    template.expand(facts).map_err(|missing| {
        let why = format!("the fact {missing} is missing; there are {facts}");
        refused(rule, key, template, &why)
    })
}

/// The error for a text of a rule that can't be used for this container.
fn refused(rule: &Rule<'_>, key: &str, template: &Template<'_>, why: &str) -> Error {
    let (rule, written) = (rule.path(), template.as_written());
    Error::config(format!("{rule}.{key}: {written:?}: {why}"))
}

/// A chosen pool, and the address requested from it.
struct Chosen {
    name: String,
    pool: ChosenPool,
    ranges: Option<RangeSet>,
    /// The address as text, and the source of the request.
    requested: Option<(String, String)>,
}

impl Chosen {
    fn read(
        catalogue: &Compiled<'_>,
        rule: &Rule<'_>,
        key: &str,
        template: &Template<'_>,
        facts: &Facts,
    ) -> Result<Self, Error> {
        let name = expand(rule, key, template, facts)?;
        let pool = catalogue
            .pool(&name)?
            .ok_or_else(|| refused(rule, key, template, &format!("there is no pool {name:?}")))?;
        let ranges = ipam::has_ranges(&pool.entry).then(|| Pool::read(&name, pool.entry.clone()));
        Ok(Self {
            ranges: ranges.transpose()?.map(|pool| pool.ranges),
            name,
            pool,
            requested: None,
        })
    }

    fn contains(&self, ip: IpAddr) -> bool {
        self.ranges
            .as_ref()
            .is_some_and(|ranges| ranges.contains(ip))
    }

    /// The address, as the pool's family writes it.
    fn text_of(&self, ip: IpAddr) -> String {
        let ranges = self.ranges.as_ref();
        ranges.map_or(ip, |ranges| ranges.in_family(ip)).to_string()
    }
}

/// The pool for a requested address: the one that contains it, or the first one without ranges and
/// without a request.
fn pool_of(chosen: &mut [Chosen], ip: IpAddr) -> Option<&mut Chosen> {
    let at = chosen
        .iter()
        .position(|pool| pool.contains(ip))
        .or_else(|| {
            chosen
                .iter()
                .position(|pool| pool.ranges.is_none() && pool.requested.is_none())
        });
    at.map(|at| &mut chosen[at])
}

fn request_by_rule(
    chosen: &mut [Chosen],
    rule: &Rule<'_>,
    key: &str,
    template: &Template<'_>,
    facts: &Facts,
) -> Result<(), Error> {
    let source = format!("{}.{key}", rule.path());
    let text = expand(rule, key, template, facts)?;
    let ip = ipam::parse_address(&text)
        .ok_or_else(|| Error::config(format!("{source}: {text:?} is no IP address")))?;
    let is_literal = template.literal().is_some();
    let Some(pool) = pool_of(chosen, ip) else {
        let names: Vec<&str> = chosen.iter().map(|pool| pool.name.as_str()).collect();
        let names = names.join(", ");
        return Err(Error::config(format!("{source}: {ip} is not in {names}")));
    };
    let text = pool.text_of(ip);
    refuse_gateway(pool, ip, &source)?;
    if let Some((other, _)) = &pool.requested {
        return Err(Error::config(format!(
            "{source}: {text} and {other} are both in pool {}, which yields one address",
            pool.name
        )));
    }
    if !is_literal {
        refuse_pinned(pool, &text, &source)?;
    }
    pool.requested = Some((text, source));
    Ok(())
}

fn request_by_runtime(
    chosen: &mut [Chosen],
    rule: &Rule<'_>,
    requests: Vec<Request>,
) -> Result<(), Error> {
    let mut unserved = Vec::new();
    for request in requests {
        let Some(pool) = pool_of(chosen, request.ip) else {
            unserved.push(request);
            continue;
        };
        let text = pool.text_of(request.ip);
        refuse_gateway(pool, request.ip, &request.source)?;
        match &pool.requested {
            Some((other, _)) if *other == text => {}
            Some((other, by)) => {
                return Err(Error::config(format!(
                    "{}: {text} is in pool {}, of which {by} requests {other}",
                    request.source, pool.name
                )));
            }
            None => {
                refuse_pinned(pool, &text, &request.source)?;
                pool.requested = Some((text, request.source));
            }
        }
    }
    if unserved.is_empty() {
        return Ok(());
    }
    let mut error = ipam::unserved(&unserved);
    error.details = format!("the pools are those of {}", rule.path());
    Err(error)
}

/// Refuses an address that is never given.
fn refuse_gateway(pool: &Chosen, ip: IpAddr, source: &str) -> Result<(), Error> {
    let ranges = pool.ranges.as_ref();
    let range = ranges.and_then(|ranges| {
        let range = ranges.range_of(ip)?;
        (range.gateway() == ranges.in_family(ip)).then_some(range)
    });
    range.map_or(Ok(()), |range| {
        let (gateway, subnet) = (range.gateway(), range.subnet());
        Err(Error::config(format!(
            "{source}: {gateway} is the gateway of {subnet}"
        )))
    })
}

/// Refuses an address that another rule pins.
fn refuse_pinned(pool: &Chosen, ip: &str, source: &str) -> Result<(), Error> {
    if pool
        .pool
        .pinned
        .iter()
        .all(|pinned| pool.text_of(*pinned) != ip)
    {
        return Ok(());
    }
    Err(Error::new(
        code::REQUESTED_TAKEN,
        format!(
            "{source}: {ip} of pool {} is pinned by another rule",
            pool.name
        ),
    ))
}

#[cfg(test)]
mod tests;
