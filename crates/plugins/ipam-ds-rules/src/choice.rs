//! The choice of a rule: its pools, and the address requested from each.
//!
//! For a container, all its facts are there. When the catalogue is verified, and on STATUS, there is no
//! container: a pool whose name has an unknown fact is left out, and the choice is partial. All that is
//! known is checked as for a container.

use std::borrow::Cow;
use std::net::IpAddr;

use cni::{Error, Excerpt, NetworkConfig, Object, code};
use ipam::{
    Facts, Interval, LONGEST_STICKY_KEY, RangeSet, RequestedAddress, overflow,
    refuse_missing_gateway,
};

use crate::named_pools::NamedPools;
use crate::pool::CataloguePool;
use crate::requested::Requested;
use crate::rule::{Key, Rule};
use crate::template::Template;

/// The pools that a rule chooses.
#[derive(Clone, Debug)]
pub(crate) struct Choice<'a> {
    all: &'a NamedPools,
    rule: &'a Rule,
    chosen: Vec<Chosen<'a>>,
    sticky: Option<String>,
    owner: Option<String>,
    /// True if the name of a pool contains a fact, and there is no container.
    is_partial: bool,
}

/// A chosen pool, and those that are tried when it is full.
#[derive(Clone, Debug)]
struct Chosen<'a> {
    pools: Vec<&'a CataloguePool>,
    requested: Option<RequestedAddress>,
}

impl<'a> Chosen<'a> {
    /// The pool that contains the address.
    fn pool_of(&self, ip: IpAddr) -> Option<&'a CataloguePool> {
        let mut pools = self.pools.iter();
        pools.find(|pool| pool.contains(ip)).copied()
    }

    /// The pool that may contain the address: only a later delegate knows its addresses.
    fn pool_without_ranges(&self) -> Option<&'a CataloguePool> {
        let mut pools = self.pools.iter();
        pools.find(|pool| pool.ranges.is_none()).copied()
    }
}

impl<'a> Choice<'a> {
    /// The choice for a container with these facts.
    ///
    /// # Errors
    ///
    /// Code 7, naming rule and key: a fact in a template is missing; an unknown pool; a
    /// requested address that no pool can give. Code 111 for an address that another rule pins.
    pub(crate) fn for_container(
        all: &'a NamedPools,
        rule: &'a Rule,
        facts: &Facts,
    ) -> Result<Self, Error> {
        let mut choice = Self::of_texts(all, rule, |key, template| {
            expand(rule, key, template, facts).map(|text| Some(text.into()))
        })?;
        choice.sticky = bounded(rule, Key::named("sticky"), rule.sticky.as_ref(), facts)?;
        choice.owner = bounded(rule, Key::named("owner"), rule.owner.as_ref(), facts)?;
        Ok(choice)
    }

    /// The part of the choice that is the same for any container with these facts, to verify the rule.
    ///
    /// # Errors
    ///
    /// As [`Self::for_container`].
    pub(crate) fn for_any_container(
        all: &'a NamedPools,
        rule: &'a Rule,
        known: &Facts,
    ) -> Result<Self, Error> {
        let mut choice = Self::of_texts(all, rule, |_, template| {
            Ok(template.expand(known).ok().map(Cow::from))
        })?;
        // An allocator that knows no owners refuses any.
        choice.owner = rule.owner.as_ref().map(|_| "any container's".to_owned());
        Ok(choice)
    }

    /// The choice of the texts that `text_of` knows.
    fn of_texts(
        all: &'a NamedPools,
        rule: &'a Rule,
        text_of: impl Fn(Key, &'a Template) -> Result<Option<Cow<'a, str>>, Error>,
    ) -> Result<Self, Error> {
        let mut choice = Self {
            all,
            rule,
            chosen: Vec::new(),
            sticky: None,
            owner: None,
            is_partial: false,
        };
        for names in rule.pools() {
            let mut pools = Vec::with_capacity(names.len());
            for (key, template) in names {
                match text_of(key, template)? {
                    Some(name) => pools.push(choice.new_pool(key, &name, &pools)?),
                    None => choice.is_partial = true,
                }
            }
            if !pools.is_empty() {
                let requested = None;
                choice.chosen.push(Chosen { pools, requested });
            }
        }
        for (key, requested) in &rule.ips {
            let source = format!("{}.{key}", rule.path);
            let ip = match (text_of(*key, requested.template())?, requested) {
                (Some(text), requested) => requested.address(&source, &text)?,
                // Of all replicas, the first.
                (None, Requested::Replica(replica)) => replica.range.first(),
                (None, Requested::Address(_)) => continue,
            };
            choice.request(RequestedAddress { ip, source }, requested.is_pin())?;
        }
        Ok(choice)
    }

    /// The pool of this name, unless it is chosen already: before, or in the same array.
    fn new_pool(
        &self,
        key: Key,
        name: &str,
        of_array: &[&CataloguePool],
    ) -> Result<&'a CataloguePool, Error> {
        let refused = |why: &str| Error::config(format!("{}.{key}: {why}", self.rule.path));
        let pool = self.all.named(name).map_err(|why| refused(&why))?;
        let mut chosen = self.pools().chain(of_array.iter().copied());
        if chosen.any(|chosen| chosen.name == pool.name) {
            return Err(refused(&format!("the pool {name:?} is chosen twice")));
        }
        Ok(pool)
    }

    /// The addresses that are kept for the rule.
    ///
    /// # Errors
    ///
    /// Code 7 for a range that isn't whole in one of the rule's pools, or contains a gateway.
    pub(crate) fn pinned(&self) -> Result<Vec<Interval>, Error> {
        let mut pinned = Vec::new();
        for (key, requested) in &self.rule.ips {
            let source = format!("{}.{key}", self.rule.path);
            match (requested.template().literal(), requested) {
                (_, Requested::Replica(replica)) => {
                    self.verify_range(&format!("{source}.range"), replica.range)?;
                    pinned.push(replica.range);
                }
                (Some(text), Requested::Address(_)) => {
                    let ip = requested.address(&source, text)?;
                    pinned.extend(Interval::new(ip, ip));
                }
                (None, Requested::Address(_)) => {}
            }
        }
        Ok(pinned)
    }

    fn verify_range(&self, source: &str, ips: Interval) -> Result<(), Error> {
        self.refuse_gateway(source, ips)?;
        let is_in = |pool: &CataloguePool| {
            pool.ranges.as_ref().is_none_or(|set| {
                let all = set.ranges().iter().map(|range| range.addresses());
                ips.without(&Interval::merged(all.collect())).is_empty()
            })
        };
        if self.is_partial || self.pools().any(is_in) {
            return Ok(());
        }
        let rule = &self.rule.path;
        Err(Error::config(format!(
            "{source}: {ips} is in none of the pools of {rule}"
        )))
    }

    /// Refuses addresses with a gateway of the chosen pools among them.
    fn refuse_gateway(&self, source: &str, ips: Interval) -> Result<(), Error> {
        let ranges = self.pools().filter_map(|pool| pool.ranges.as_ref());
        let mut gateways = ranges.flat_map(RangeSet::gateways);
        match gateways.find(|(gateway, _)| ips.contains(*gateway)) {
            None => Ok(()),
            Some((gateway, subnet)) => Err(Error::config(format!(
                "{source}: {gateway} is the gateway of {subnet}"
            ))),
        }
    }

    /// Requests the addresses that the runtime requests.
    ///
    /// # Errors
    ///
    /// As [`Self::for_container`].
    pub(crate) fn request_by_runtime(
        &mut self,
        requests: Vec<RequestedAddress>,
    ) -> Result<(), Error> {
        for request in requests {
            let ip = request.ip.to_canonical();
            self.request(RequestedAddress { ip, ..request }, false)?;
        }
        Ok(())
    }

    /// Requests an address: of the pool that contains it, or of the first one without ranges and
    /// without a request. `is_pin` means that the rule pins it.
    fn request(&mut self, request: RequestedAddress, is_pin: bool) -> Result<(), Error> {
        let RequestedAddress { ip, source } = &request;
        let found = self.chosen.iter().position(|of| of.pool_of(*ip).is_some());
        let at = found.or_else(|| {
            let mut chosen = self.chosen.iter();
            chosen.position(|of| of.requested.is_none() && of.pool_without_ranges().is_some())
        });
        let Some(at) = at else {
            if self.is_partial {
                return Ok(());
            }
            return Err(Error::config(format!(
                "{source}: {ip} is in none of the pools of {}{}",
                self.rule.path,
                self.other_request()
            )));
        };
        let one = Interval::new(*ip, *ip).expect("one address is an interval");
        self.refuse_gateway(source, one)?;
        let chosen = &self.chosen[at];
        let pool = chosen.pool_of(*ip).or(chosen.pool_without_ranges());
        let pool = &pool.expect("it has been found").name;
        let mut pinned = self.all.pinned.iter();
        match &chosen.requested {
            Some(earlier) if earlier.ip == *ip => Ok(()),
            Some(earlier) => Err(Error::config(format!(
                "{source}: {ip} is in pool {pool}, of which {} requests {}",
                earlier.source, earlier.ip
            ))),
            None if !is_pin && pinned.any(|ips| ips.contains(*ip)) => Err(Error::new(
                code::REQUESTED_TAKEN,
                format!("{source}: {ip} of pool {pool} is pinned by another rule"),
            )),
            None => {
                self.chosen[at].requested = Some(request);
                Ok(())
            }
        }
    }

    /// The request of a pool without ranges, which might have had another address.
    fn other_request(&self) -> String {
        let mut chosen = self.chosen.iter();
        let requested = chosen.find_map(|chosen| {
            let pool = chosen.pool_without_ranges()?;
            Some((pool, chosen.requested.as_ref()?))
        });
        requested.map_or_else(String::new, |(pool, RequestedAddress { ip, source })| {
            format!("; of pool {}, {source} requests {ip}", pool.name)
        })
    }

    /// Refuses a pool without a gateway beside a main plugin that takes one.
    ///
    /// # Errors
    ///
    /// Code 7, naming the pool.
    pub(crate) fn refuse_missing_gateways(&self, config: &NetworkConfig) -> Result<(), Error> {
        for pool in self.pools() {
            if let Some(ranges) = &pool.ranges {
                refuse_missing_gateway(&pool.path, ranges, config)?;
            }
        }
        Ok(())
    }

    /// The pools, in the rule's order.
    pub(crate) fn pools(&self) -> impl Iterator<Item = &'a CataloguePool> {
        self.chosen.iter().flat_map(|chosen| &chosen.pools).copied()
    }

    /// The pools that yield an address in any case, in the rule's order.
    pub(crate) fn certain_pools(&self) -> impl Iterator<Item = &'a CataloguePool> {
        let chosen = self.chosen.iter();
        chosen.filter_map(|chosen| match chosen.pools[..] {
            [only] => Some(only),
            _ => None,
        })
    }

    /// The entries of the result's `pools`.
    ///
    /// # Errors
    ///
    /// As [`CataloguePool::entry`].
    pub(crate) fn entries(&self) -> Result<Vec<Object>, Error> {
        let pinned = &self.all.pinned;
        let mut entries = Vec::with_capacity(self.chosen.len());
        for chosen in &self.chosen {
            let mut entry = match chosen.pools[..] {
                [only] => only.entry(pinned)?,
                _ => overflow_entry(&chosen.pools, pinned)?,
            };
            if let Some(request) = &chosen.requested {
                entry.set("requested-ip", &request.ip);
            }
            if let Some(key) = &self.sticky {
                entry.set("sticky", key);
            }
            if let Some(owner) = &self.owner {
                entry.set("owner", owner);
            }
            // For people who read the record. No plugin uses it.
            entry.set("rule", &self.rule.path);
            entries.push(entry);
        }
        Ok(entries)
    }
}

/// The entry of a pool, with those that are tried when it is full.
fn overflow_entry(pools: &[&CataloguePool], pinned: &[Interval]) -> Result<Object, Error> {
    let entries = pools.iter().map(|pool| pool.uncertain_entry(pinned));
    let mut entries = entries.collect::<Result<Vec<Object>, Error>>()?;
    let mut first = entries.remove(0);
    overflow::set_objects(&mut first, &entries);
    Ok(first)
}

fn expand(rule: &Rule, key: Key, template: &Template, facts: &Facts) -> Result<String, Error> {
    template.expand(facts).map_err(|missing| {
        let path = &rule.path;
        Error::config(format!(
            "{path}.{key}: the fact {missing} is missing; there are {facts}"
        ))
    })
}

/// The text of `sticky` or `owner`.
fn bounded(
    rule: &Rule,
    key: Key,
    template: Option<&Template>,
    facts: &Facts,
) -> Result<Option<String>, Error> {
    let Some(template) = template else {
        return Ok(None);
    };
    let text = expand(rule, key, template, facts)?;
    if text.len() > LONGEST_STICKY_KEY {
        let (path, text) = (&rule.path, Excerpt(&text));
        return Err(Error::config(format!(
            "{path}.{key}: \"{text}\" is longer than {LONGEST_STICKY_KEY} bytes"
        )));
    }
    Ok(Some(text))
}

#[cfg(test)]
mod tests;
