//! The choice of a rule: its pools, and the address requested from each.

use std::borrow::Cow;
use std::net::IpAddr;

use cni::{Error, Excerpt, Object, code};
use ipam::{LONGEST_STICKY_KEY, RequestedAddress};

use crate::catalogue::Catalogue;
use crate::facts::Facts;
use crate::pool::CataloguePool;
use crate::rule::{Key, Rule};
use crate::template::Template;

/// The pools that a rule chooses.
#[derive(Clone, Debug)]
pub(crate) struct Choice<'a> {
    catalogue: &'a Catalogue,
    pub(crate) rule: &'a Rule,
    chosen: Vec<Chosen<'a>>,
    sticky: Option<String>,
    /// True if the name of a pool contains a fact, and there is no container.
    is_partial: bool,
}

/// A chosen pool.
#[derive(Clone, Debug)]
struct Chosen<'a> {
    pool: &'a CataloguePool,
    requested: Option<RequestedAddress>,
}

impl<'a> Choice<'a> {
    /// The choice for a container with these facts.
    ///
    /// # Errors
    ///
    /// Code 7, naming rule and key: a fact in a template is missing; an unknown pool; a
    /// requested address that no pool can give. Code 111 for an address that another rule pins.
    pub(crate) fn for_container(
        catalogue: &'a Catalogue,
        rule: &'a Rule,
        facts: &Facts,
    ) -> Result<Self, Error> {
        let mut choice = Self::of_texts(catalogue, rule, |key, template| {
            expand(rule, key, template, facts).map(|text| Some(text.into()))
        })?;
        choice.sticky = match &rule.sticky {
            Some(template) => Some(sticky_key(rule, template, facts)?),
            None => None,
        };
        Ok(choice)
    }

    /// The part of the choice that is the same for any container, to verify the rule.
    ///
    /// # Errors
    ///
    /// As [`Self::for_container`].
    pub(crate) fn for_any_container(
        catalogue: &'a Catalogue,
        rule: &'a Rule,
    ) -> Result<Self, Error> {
        Self::of_texts(catalogue, rule, |_, template| {
            Ok(template.literal().map(Cow::from))
        })
    }

    /// The choice of the texts that `text_of` knows.
    fn of_texts(
        catalogue: &'a Catalogue,
        rule: &'a Rule,
        text_of: impl Fn(Key, &'a Template) -> Result<Option<Cow<'a, str>>, Error>,
    ) -> Result<Self, Error> {
        let mut choice = Self {
            catalogue,
            rule,
            chosen: Vec::with_capacity(rule.pools.len()),
            sticky: None,
            is_partial: false,
        };
        for (i, template) in rule.pools.iter().enumerate() {
            let key = Key::Pool(i);
            match text_of(key, template)? {
                Some(name) => choice.add_pool(key, &name)?,
                None => choice.is_partial = true,
            }
        }
        for (key, template) in rule.ips() {
            if let Some(text) = text_of(key, template)? {
                let source = format!("{}.{key}", rule.path);
                let ip = address(&source, &text)?;
                choice.request(
                    RequestedAddress { ip, source },
                    template.literal().is_some(),
                )?;
            }
        }
        Ok(choice)
    }

    fn add_pool(&mut self, key: Key, name: &str) -> Result<(), Error> {
        let refused = |why: &str| Error::config(format!("{}.{key}: {why}", self.rule.path));
        let pool = self.catalogue.pool(name).map_err(|why| refused(&why))?;
        if self.pools().any(|chosen| chosen.name == pool.name) {
            return Err(refused(&format!("the pool {name:?} is chosen twice")));
        }
        self.chosen.push(Chosen {
            pool,
            requested: None,
        });
        Ok(())
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
        let mut pools = self.chosen.iter();
        let at = pools
            .position(|chosen| chosen.pool.contains(*ip))
            .or_else(|| {
                let mut pools = self.chosen.iter();
                pools.position(|chosen| chosen.pool.ranges.is_none() && chosen.requested.is_none())
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
        let mut pinned = self.catalogue.pinned.iter();
        let is_pinned = pinned.any(|ips| ips.contains(*ip));
        let Chosen { pool, requested } = &mut self.chosen[at];
        let range = pool.range_of(*ip);
        if let Some(range) = range.filter(|range| range.gateway() == *ip) {
            let subnet = range.subnet();
            return Err(Error::config(format!(
                "{source}: {ip} is the gateway of {subnet}"
            )));
        }
        match requested {
            Some(earlier) if earlier.ip == *ip => Ok(()),
            Some(earlier) => Err(Error::config(format!(
                "{source}: {ip} is in pool {}, of which {} requests {}",
                pool.name, earlier.source, earlier.ip
            ))),
            None if !is_pin && is_pinned => Err(Error::new(
                code::REQUESTED_TAKEN,
                format!(
                    "{source}: {ip} of pool {} is pinned by another rule",
                    pool.name
                ),
            )),
            None => {
                *requested = Some(request);
                Ok(())
            }
        }
    }

    /// The request of a pool without ranges, which might have had another address.
    fn other_request(&self) -> String {
        let mut unranged = self
            .chosen
            .iter()
            .filter(|chosen| chosen.pool.ranges.is_none());
        let requested = unranged.find_map(|chosen| Some((chosen.pool, chosen.requested.as_ref()?)));
        requested.map_or_else(String::new, |(pool, RequestedAddress { ip, source })| {
            format!("; of pool {}, {source} requests {ip}", pool.name)
        })
    }

    /// The pools, in the rule's order.
    pub(crate) fn pools(&self) -> impl Iterator<Item = &'a CataloguePool> {
        self.chosen.iter().map(|chosen| chosen.pool)
    }

    /// The entries of the result's `pools`.
    ///
    /// # Errors
    ///
    /// As [`CataloguePool::entry`].
    pub(crate) fn entries(&self) -> Result<Vec<Object>, Error> {
        let entry = |chosen: &Chosen<'_>| {
            let mut entry = chosen.pool.entry(&self.catalogue.pinned)?;
            if let Some(request) = &chosen.requested {
                entry.set("requested-ip", &request.ip);
            }
            if let Some(key) = &self.sticky {
                entry.set("sticky", key);
            }
            // For people who read the record. No plugin uses it.
            entry.set("rule", &self.rule.path);
            Ok(entry)
        };
        self.chosen.iter().map(entry).collect()
    }
}

/// The error for a catalogue without rules.
pub(crate) fn no_rule() -> Error {
    Error::config(
        "ipam.rules is missing or empty, and ipam.poolsDir has no rule: no pool is chosen",
    )
}

/// Reads an address that a rule requests, `source` in messages. An IPv4 address that is written as
/// IPv6 (`::ffff:10.0.0.1`) is an IPv4 address.
///
/// # Errors
///
/// Code 7, naming the value.
pub(crate) fn address(source: &str, text: &str) -> Result<IpAddr, Error> {
    ipam::parse_address(text)
        .map(|ip| ip.to_canonical())
        .ok_or_else(|| Error::config(format!("{source}: {text:?} is no IP address")))
}

fn expand(rule: &Rule, key: Key, template: &Template, facts: &Facts) -> Result<String, Error> {
    template.expand(facts).map_err(|missing| {
        let path = &rule.path;
        Error::config(format!(
            "{path}.{key}: the fact {missing} is missing; there are {facts}"
        ))
    })
}

fn sticky_key(rule: &Rule, template: &Template, facts: &Facts) -> Result<String, Error> {
    let key = expand(rule, Key::Sticky, template, facts)?;
    if key.len() > LONGEST_STICKY_KEY {
        let (path, key) = (&rule.path, Excerpt(&key));
        return Err(Error::config(format!(
            "{path}.sticky: \"{key}\" is longer than {LONGEST_STICKY_KEY} bytes"
        )));
    }
    Ok(key)
}

#[cfg(test)]
mod tests;
